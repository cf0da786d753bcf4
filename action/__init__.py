"""Checks FSDP2 custom prefetching in pull requests, and says what is still unproved."""
