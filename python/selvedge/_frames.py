"""Results as data frames of Polars or pandas."""

from __future__ import annotations

import importlib
import importlib.util
import json
import os
from pathlib import Path
from typing import Any, Literal, Optional, Union

Backend = Literal["polars", "pandas"]
Table = Literal["metrics", "summary", "flows"]


def _library(backend: Optional[Backend]) -> tuple[str, Any]:
    names = [backend] if backend is not None else ["polars", "pandas"]
    for name in names:
        if name not in ("polars", "pandas"):
            raise ValueError(f"{name!r} is no library of frames: choose 'polars' or 'pandas'")
        if importlib.util.find_spec(name) is not None:
            return name, importlib.import_module(name)
    raise ImportError(f"{' or '.join(names)} is missing: pip install 'selvedge[{names[0]}]'")


def load(
    path: Union[str, "os.PathLike[str]"], table: Table = "metrics", *, backend: Optional[Backend] = None
) -> Any:
    """A table of results, as docs/results-files.md describes its columns.

    ``path`` is a directory that ``sim run`` or ``sweep`` wrote, or a Parquet or CSV file. Of a directory, ``table`` chooses
    ``metrics`` (a row a run and metric), ``summary`` (over the seeds: mean, interval, range) or ``flows``. ``backend`` is
    Polars if that is installed, else pandas.
    """
    name, library = _library(backend)
    where = Path(path)
    if not where.is_dir():
        return _read(name, library, where)
    if table == "summary" and (where / "metrics.json").is_file():
        return library.DataFrame(_summary(where / "metrics.json"))
    if table == "flows" and (where / "flows").is_dir():
        return _flows(name, library, where)
    files = {
        "metrics": ["metrics.parquet", "sweep.csv", "metrics.csv"],
        "summary": ["summary.parquet"],
        "flows": ["flows.csv"],
    }
    if table not in files:
        raise ValueError(f"{table!r} is no table: choose one of {', '.join(files)}")
    for file in files[table]:
        if (where / file).is_file():
            return _read(name, library, where / file)
    raise FileNotFoundError(f"{where} has no table of {table}: none of {', '.join(files[table])}")


def _read(name: str, library: Any, file: Path) -> Any:
    if file.suffix == ".csv":
        # The seed of a row over all seeds is a word.
        words = {"seed": library.String} if name == "polars" else {"seed": str}
        return library.read_csv(file, **({"schema_overrides": words} if name == "polars" else {"dtype": words}))
    return library.read_parquet(file)


def _summary(file: Path) -> list[dict[str, Any]]:
    """The rows of ``summary.parquet``, of a single run's ``metrics.json``."""
    results = json.loads(file.read_text(encoding="utf-8"))
    rows = []
    for scheme in results["order"] or results["schemes"]:
        of = results["schemes"][scheme]
        for metric, e in of["across_seeds"].items():
            rows.append({"point": "", "scheme": scheme, "metric": metric, "unit": of["units"].get(metric, ""), **e})
    return rows


def _flows(name: str, library: Any, where: Path) -> Any:
    """All flows of the jobs that ``sweep.json`` lists, with their job, point and axes."""
    index = json.loads((where / "sweep.json").read_text(encoding="utf-8"))
    parts = []
    for job in index["jobs"]:
        file = where / "flows" / f"{job['job']}.parquet"
        if file.is_file():
            frame = library.read_parquet(file)
            of_job = {"job": job["job"], "point": job["point"], **job["values"]}
            if name == "polars":
                values = [library.lit(value).alias(column) for column, value in of_job.items()]
                parts.append(frame.select(*values, library.all()))
            else:
                parts.append(frame.assign(**of_job)[[*of_job, *frame.columns]])
    if not parts:
        raise FileNotFoundError(f"{where} has no flows: run the sweep with flows=True")
    return library.concat(parts, how="vertical_relaxed") if name == "polars" else library.concat(parts, ignore_index=True)


def facts(path: Union[str, "os.PathLike[str]"]) -> dict[str, str]:
    """What a Parquet file says of itself: ``version``, ``job``, and ``configuration``, the scenario in effect."""
    found: dict[str, str]
    if importlib.util.find_spec("pyarrow") is not None:
        pairs = importlib.import_module("pyarrow.parquet").read_metadata(path).metadata or {}
        found = {key.decode(): value.decode() for key, value in pairs.items()}
    elif importlib.util.find_spec("polars") is not None:
        found = importlib.import_module("polars").read_parquet_metadata(path)
    else:
        raise ImportError("polars or pyarrow is missing: pip install 'selvedge[polars]'")
    return {key[len("selvedge."):]: value for key, value in found.items() if key.startswith("selvedge.")}
