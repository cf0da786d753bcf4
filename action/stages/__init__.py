"""The skill's hard validation: structure, smoke and edge-identity tests, in order.

`run_stages` runs pytest in the recipe's own interpreter, in a fresh session with a time limit and
without the job's secrets, and believes no single witness of what happened (see `verdict`).
`environment` says what it ran on.
"""

from action.processes.output import StagesError
from action.stages.preflight import environment
from action.stages.run import StagesInterrupted, not_run, run_stages

__all__ = ["StagesError", "StagesInterrupted", "environment", "not_run", "run_stages"]
