"""A vision transformer that classifies handwritten digits."""
