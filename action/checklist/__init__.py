"""The skill's soft validation: one module per item."""
