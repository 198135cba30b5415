"""Sweeps on the workers of a Dask cluster, which may be many machines.

Prerequisites: workers have this package, and see scenario and output under the same paths, as on a shared file system.
"""

from __future__ import annotations

import os
import uuid
from pathlib import Path
from typing import Any, Mapping, Optional, Sequence

from . import _run
from ._frames import Backend, load
from ._program import Failed, call
from ._run import Job, Memory, PathLike, Seeds

__all__ = ["submit", "sweep"]


def submit(
    client: Any,
    scenario: PathLike,
    output: PathLike,
    *,
    schemes: Optional[Sequence[str]] = None,
    seeds: Optional[Seeds] = None,
    set: Optional[Mapping[str, Any]] = None,
    at: Optional[Sequence[str]] = None,
    flows: bool = False,
    memory: Optional[Memory] = None,
    retries: int = 3,
) -> list[Any]:
    """Submits each job that is not done to the ``Client``, and returns the futures; each gives its job's hash.

    A job whose worker dies is run again by another. What a job wrote is whole or absent, and the same whoever writes it, so that no
    result is lost or there twice. A job that needs more than ``memory``, by default what its worker has free, fails. It does not matter
    what this machine has.
    """
    where, target = Path(scenario).resolve(), Path(output).resolve()
    listed = _run.jobs(where, target, schemes=schemes, seeds=seeds, set=set, at=at, flows=flows)
    wanted: dict[str, Job] = {job.hash: job for job in listed if not job.done}
    # No two calls share a task: one of before may have failed, or kept no flows, or written elsewhere.
    this = uuid.uuid4().hex[:12]
    return [
        client.submit(
            _run.run_job, str(where), str(target), job, set=set, flows=flows, memory=memory,
            key=f"selvedge-{job.hash}-{this}", retries=retries, pure=False,
        )
        for job in wanted.values()
    ]


def sweep(
    client: Any,
    scenario: PathLike,
    output: PathLike,
    *,
    schemes: Optional[Sequence[str]] = None,
    seeds: Optional[Seeds] = None,
    set: Optional[Mapping[str, Any]] = None,
    at: Optional[Sequence[str]] = None,
    flows: bool = False,
    memory: Optional[Memory] = None,
    retries: int = 3,
    backend: Optional[Backend] = None,
) -> Any:
    """As :func:`selvedge.sweep`, on the workers of ``client``. Waits for all jobs, and returns the metrics of the sweep. ``memory`` is
    as in :func:`submit`.

    Raises ``Failed`` if a job failed, after all others are done.
    """
    chosen = {"schemes": schemes, "seeds": seeds, "set": set, "at": at, "flows": flows}
    futures = submit(client, scenario, output, memory=memory, retries=retries, **chosen)  # type: ignore[arg-type]
    reasons, failed = [], []
    for future in futures:
        problem = future.exception()  # waits
        if problem is not None:
            reasons.append(str(problem))
            failed.append(future)
    if reasons:
        client.cancel(failed)  # else the scheduler keeps them as long as somebody has this error
        raise Failed(f"{len(reasons)} of {len(futures)} jobs failed; the first: {reasons[0]}", 1)
    lacking = [job.hash for job in _run.jobs(scenario, output, **chosen) if not job.done]  # type: ignore[arg-type]
    if lacking:
        problem = f"{len(lacking)} jobs ended, and {os.fspath(output)} has no file of them"
        raise Failed(f"{problem}: give a directory that workers and this machine see under one path", 1)
    # Runs nothing: gathers what the workers wrote into one table.
    call(_run._sweep(scenario, output, _run.choices(schemes, seeds, set, at), flows))
    return load(output, backend=backend)
