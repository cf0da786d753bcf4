"""Qwen3, dense, from its configuration, on byte-level text."""
