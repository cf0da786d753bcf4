"""From the git objects of two commits to the recipes that a change affects, each with reasons."""
