"""Writes a new recipe's tests from the templates beside this file.

`python -m tests.templates recipe=my_recipe top_class=MyModel config=tiny.yaml probe_config=full.yaml`
"""

import sys
from pathlib import Path
from string import Template

TEMPLATES = Path(__file__).parent
RECIPES = TEMPLATES.parents[1] / "recipes"
PLACEHOLDERS = ("recipe", "top_class", "config", "probe_config")


def main(arguments: list[str], recipes: Path = RECIPES) -> int:
    values = dict(argument.partition("=")[::2] for argument in arguments)
    if set(values) != set(PLACEHOLDERS) or not all(values.values()):
        print(f"usage: {' '.join(f'{name}=...' for name in PLACEHOLDERS)}", file=sys.stderr)
        return 2
    recipe = recipes / values["recipe"]
    if not recipe.is_dir():
        print(f"error: {recipe} is not a folder: write the recipe first", file=sys.stderr)
        return 2
    for template in sorted(TEMPLATES.glob("**/*.py")):
        if template.name == "__main__.py":
            continue
        path = recipe / "tests" / template.relative_to(TEMPLATES)
        if path.exists():
            print(f"kept     {path}")
            continue
        path.parent.mkdir(parents=True, exist_ok=True)
        text = Template(template.read_text(encoding="utf-8")).substitute(values)
        path.write_text(text, encoding="utf-8")
        print(f"written  {path}")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
