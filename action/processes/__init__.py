"""Running what a pull request wrote: a command to its end, its environment, its output as text."""
