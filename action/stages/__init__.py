"""The skill's hard validation: structure, smoke and edge-identity tests, in order."""
