"""A recipe's static facts: classes, hook, wrap targets, engine, configs. Never imported."""

from action.source.recipe import read_recipe

__all__ = ["read_recipe"]
