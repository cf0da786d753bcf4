"""What a commit holds: git objects, changes between commits, Python modules as syntax trees.

The only code that runs git or parses a recipe's source. Nothing is checked out, imported or run."""
