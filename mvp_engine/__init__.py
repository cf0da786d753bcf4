"""The training runtime that recipes use: configuration, parallelism, engine, launch."""
