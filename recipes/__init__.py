"""Models with what trains them, one folder each."""
