"""What runs in the recipe's interpreter: torch and the standard library only, nothing of ours.

`start.py` loads this package under a name of its own from its folder, so that neither the action
nor its dependencies need to be installed beside the recipe. Whatever it learns goes into one JSON
file; `action.probe.recording` is the shape of that file.
"""
