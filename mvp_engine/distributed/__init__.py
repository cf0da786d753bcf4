"""Process group, device mesh, tensor parallelism and FSDP2."""
