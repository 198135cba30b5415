"""Runs and sweeps."""

from __future__ import annotations

import json
import operator
import os
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Iterable, Mapping, Optional, Sequence, Union

from ._frames import Backend, load
from ._program import call

PathLike = Union[str, "os.PathLike[str]"]
Seeds = Union[str, int, Iterable[int]]
Memory = Union[str, int]


@dataclass(frozen=True)
class Job:
    """One scheme with one seed at one point of a sweep."""

    hash: str
    point: str
    values: Mapping[str, Any]
    scheme: str
    seed: int
    done: bool
    file: str


def choices(
    schemes: Optional[Sequence[str]],
    seeds: Optional[Seeds],
    set: Optional[Mapping[str, Any]],
    at: Optional[Sequence[str]] = None,
) -> list[str]:
    """The arguments that choose schemes, seeds, changes of keys, and points."""
    arguments: list[str] = []
    if schemes is not None:
        if isinstance(schemes, str):
            schemes = [schemes]
        arguments += ["--scheme", ",".join(schemes)]
    if seeds is not None:
        arguments += ["--seeds", _seeds(seeds)]
    for key, value in (set or {}).items():
        arguments += ["--set", f"{key}={_toml(value)}"]
    for label in [at] if isinstance(at, str) else at or []:
        arguments += ["--at", label]
    return arguments


def _seeds(seeds: Seeds) -> str:
    if isinstance(seeds, str):
        return seeds
    try:
        each: list[Any] = list(seeds)  # type: ignore[arg-type]
    except TypeError:
        each = [seeds]
    # Numbers of NumPy, too.
    return ",".join(seed if isinstance(seed, str) else str(operator.index(seed)) for seed in each)


def _toml(value: Any) -> str:
    # JSON's strings, numbers, truth values and lists are TOML's.
    return value if isinstance(value, str) else json.dumps(value, default=_of_python)


def _of_python(value: Any) -> Any:
    """A number or array of NumPy as Python has it, and the name of a file."""
    return value.tolist() if hasattr(value, "tolist") else os.fspath(value)


def room(memory: Optional[Memory]) -> list[str]:
    """The argument that says how much memory there is: ``"8GB"``, or a number of bytes."""
    if memory is None:
        return []
    return ["--memory", memory if isinstance(memory, str) else f"{operator.index(memory)}B"]


def run(
    scenario: PathLike,
    output: Optional[PathLike] = None,
    *,
    schemes: Optional[Sequence[str]] = None,
    seeds: Optional[Seeds] = None,
    set: Optional[Mapping[str, Any]] = None,
    force: bool = False,
    memory: Optional[Memory] = None,
    backend: Optional[Backend] = None,
) -> Any:
    """Runs a scenario as ``selvedge sim run`` and returns its metrics: a row for each scheme, seed and metric.

    ``output`` keeps all files of the run, with its report; ``force`` replaces those of an earlier run there. ``set`` changes keys,
    such as ``{"switch.buffer": "4MB"}``. ``memory`` is what the runs may need, ``"8GB"`` or bytes, by default what the machine has free.
    ``backend`` is as in :func:`load`.

    Raises ``Failed``: its message names file, line, key and remedy.
    """
    with tempfile.TemporaryDirectory(prefix="selvedge-") as scratch:
        target = Path(output) if output is not None else Path(scratch, "run")
        arguments = ["sim", "run", os.fspath(scenario), "--output", str(target), *choices(schemes, seeds, set)]
        call(arguments + (["--force"] if force else []) + room(memory), progress=True)
        return load(target, backend=backend)


def _sweep(scenario: PathLike, output: PathLike, chosen: Sequence[str], flows: bool) -> list[str]:
    return ["sweep", os.fspath(scenario), "--output", os.fspath(output), *chosen, *(["--flows"] if flows else [])]


def sweep(
    scenario: PathLike,
    output: PathLike,
    *,
    schemes: Optional[Sequence[str]] = None,
    seeds: Optional[Seeds] = None,
    set: Optional[Mapping[str, Any]] = None,
    at: Optional[Sequence[str]] = None,
    flows: bool = False,
    cores: Optional[int] = None,
    memory: Optional[Memory] = None,
    backend: Optional[Backend] = None,
) -> Any:
    """Runs what is not done yet of a sweep, on this machine's cores, and returns its metrics with the values of the axes.

    ``at`` chooses points by their labels; ``flows`` also keeps each job's flows; ``memory`` is as in :func:`run`.
    ``selvedge.dask.sweep`` does the same on many machines.

    Raises ``Failed``, also if a job failed; those that were done are kept.
    """
    arguments = _sweep(scenario, output, choices(schemes, seeds, set, at), flows)
    call(arguments + (["--jobs", str(cores)] if cores is not None else []) + room(memory), progress=True)
    return load(output, backend=backend)


def jobs(
    scenario: PathLike,
    output: PathLike,
    *,
    schemes: Optional[Sequence[str]] = None,
    seeds: Optional[Seeds] = None,
    set: Optional[Mapping[str, Any]] = None,
    at: Optional[Sequence[str]] = None,
    flows: bool = False,
) -> list[Job]:
    """The jobs of a sweep, and which are done in ``output``; runs nothing."""
    arguments = _sweep(scenario, output, choices(schemes, seeds, set, at), flows)
    listed = json.loads(call([*arguments, "--list", "--json"]))["jobs"]
    return [
        Job(job["job"], job["point"], job["values"], job["scheme"], job["seed"], job["done"], job["file"])
        for job in listed
    ]


def run_job(
    scenario: PathLike,
    output: PathLike,
    job: Job,
    *,
    set: Optional[Mapping[str, Any]] = None,
    flows: bool = False,
    memory: Optional[Memory] = None,
) -> str:
    """Runs one job, unless it is done, and returns its hash. ``set`` and ``flows`` must be those with which it was listed; ``memory`` is as
    in :func:`run`."""
    chosen = choices([job.scheme], job.seed, set, [job.point] if job.point else None)
    call([*_sweep(scenario, output, chosen, flows), "--job", job.hash, *room(memory)])
    return job.hash
