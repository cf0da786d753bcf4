"""What recipe tests need: training in spawned ranks, the wrapped model, its prefetch edges."""

from mvp_engine.testing.edges import PrefetchEdges, prefetch_edges
from mvp_engine.testing.ranks import RankError, run_ranks
from mvp_engine.testing.recipes import (
    ProbeTarget,
    WrappedRecipe,
    configured_mesh,
    load_skill_assertions,
    probe_target,
    single_rank_wrapped,
    train_smoke,
)

__all__ = [
    "PrefetchEdges",
    "ProbeTarget",
    "RankError",
    "WrappedRecipe",
    "configured_mesh",
    "load_skill_assertions",
    "prefetch_edges",
    "probe_target",
    "run_ranks",
    "single_rank_wrapped",
    "train_smoke",
]
