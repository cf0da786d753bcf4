"""Engines: what a recipe implements, how it is found, and the loop that trains it."""

from mvp_engine.engine.base import Engine, StepOutput
from mvp_engine.engine.registry import engine_class, register_engine

__all__ = ["Engine", "StepOutput", "engine_class", "register_engine"]
