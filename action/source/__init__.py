"""A recipe's static facts: classes, hook, wrap targets, engine, configs. Never imported."""
