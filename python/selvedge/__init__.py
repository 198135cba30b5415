"""Runs, sweeps and data frames of the simulator of Selvedge.

Every function calls the program ``selvedge`` that this package brings along; results are what it writes
(docs/results-files.md).
"""

from ._frames import Backend, facts, load
from ._plot import plot
from ._program import Failed, program, version
from ._run import Job, jobs, run, run_job, sweep

__all__ = [
    "Backend", "Failed", "Job", "facts", "jobs", "load", "plot", "program", "run", "run_job", "sweep", "version",
]
