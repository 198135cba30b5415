"""Results as data frames of Polars or pandas."""

from __future__ import annotations

import csv
import importlib
import importlib.util
import json
import os
import warnings
from pathlib import Path
from typing import Any, Literal, Optional, Union

Backend = Literal["polars", "pandas"]
Table = Literal["metrics", "summary", "flows"]

# The columns of the program's CSV files by their kind, as docs/results-files.md has them. A seed may be the word `all`. What an axis has
# is anything, so that `axis_value` is not among them.
TEXT = {"scheme", "seed", "metric", "unit", "workload", "port", "link", "name", "axis", "point"}
WHOLE = {
    "flow", "src", "dst", "size_bytes", "finished", "delivered_bytes", "delivered_after_warmup_bytes", "retransmitted_segments",
    "fast_retransmits", "timeouts", "out_of_order_segments", "received_segments", "paths_used", "tx_packets", "tx_bytes",
    "dropped_packets", "dropped_bytes", "marked_packets", "queue_max_bytes", "samples_needed", "samples",
}
NUMBER = {
    "value", "start_us", "finish_us", "fct_us", "ideal_fct_us", "slowdown", "utilisation", "queue_mean_bytes", "time_us",
}
# Those of `summary.parquet`, which no file of CSV has.
ESTIMATE = ["mean", "ci95_half_width", "min", "max"]


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

    Warns if the directory's table lacks jobs that are done, as after :func:`run_job`.
    """
    name, library = _library(backend)
    where = Path(path)
    if not where.is_dir():
        return _read(name, library, where)
    if table == "summary" and (where / "metrics.json").is_file():
        return _summary(name, library, [({"point": ""}, where / "metrics.json")])
    if table == "summary" and (where / "sweep.csv").is_file():
        return _summary(name, library, _points(where, "metrics.json"))
    if table == "flows" and (where / "flows").is_dir():
        return _joined(name, library, _jobs(where))
    if table == "flows" and (where / "sweep.csv").is_file():
        return _joined(name, library, _points(where, "flows.csv"))
    files = {
        "metrics": ["metrics.parquet", "sweep.csv", "metrics.csv"],
        "summary": ["summary.parquet"],
        "flows": ["flows.csv"],
    }
    if table not in files:
        raise ValueError(f"{table!r} is no table: choose one of {', '.join(files)}")
    for file in files[table]:
        if (where / file).is_file():
            if file.endswith(".parquet") and (where / "metrics.parquet").is_file():
                _warn(library, where)
            return _read(name, library, where / file)
    raise FileNotFoundError(f"{where} has no table of {table}: none of {', '.join(files[table])}")


def _read(name: str, library: Any, file: Path) -> Any:
    if file.suffix != ".csv":
        return library.read_parquet(file)
    with open(file, newline="", encoding="utf-8") as text:
        columns = next(csv.reader(text), [])
    # A file of somebody else may have columns of these names that hold other things.
    ours = set(columns) <= TEXT | WHOLE | NUMBER | {"axis_value"}
    texts = [column for column in columns if column in (TEXT if ours else {"seed"})]
    if name == "pandas":
        return library.read_csv(file, dtype=dict.fromkeys(texts, str), low_memory=False)
    kinds = dict.fromkeys(texts, library.String)
    if ours:
        kinds.update({column: library.Int64 for column in columns if column in WHOLE})
        kinds.update({column: library.Float64 for column in columns if column in NUMBER})
    # What is not known is inferred from all rows: the first may be alike, or empty.
    return library.read_csv(file, schema_overrides=kinds, infer_schema_length=None if len(kinds) < len(columns) else 0)


def _summary(name: str, library: Any, parts: list[tuple[dict[str, Any], Path]]) -> Any:
    """The rows of ``summary.parquet``, of what a run says of each point."""
    rows = []
    for at, file in parts:
        results = json.loads(file.read_text(encoding="utf-8"))
        for scheme in results["order"] or results["schemes"]:
            of = results["schemes"][scheme]
            for metric, e in of["across_seeds"].items():
                named = {"scheme": scheme, "metric": metric, "unit": of["units"].get(metric, "")}
                rows.append({**at, **named, **{column: e[column] for column in [*ESTIMATE, "runs"]}})
    if name == "pandas":
        return library.DataFrame(rows).astype(dict.fromkeys(ESTIMATE, float) if rows else {})
    return library.DataFrame(rows, schema_overrides=dict.fromkeys(ESTIMATE, library.Float64), infer_schema_length=None)


def _points(where: Path, file: str) -> list[tuple[dict[str, Any], Path]]:
    """Of a run with ``[sweep]``: label and value of each point, and its file of that name."""
    with open(where / "sweep.csv", newline="", encoding="utf-8") as text:
        places = list(dict.fromkeys((row["axis"], row["point"], row["axis_value"]) for row in csv.DictReader(text)))
    # A `[[sweep.point]]` has a label and no value.
    values = _alike([_plain(value) if value else label for _, label, value in places])
    taken, found = {*TEXT, *WHOLE, *NUMBER, *ESTIMATE, "runs"}, []
    for (axis, label, _), value in zip(places, values):
        part = where / f"{_file_name(label)}.{file}"
        if not part.is_file():
            raise FileNotFoundError(f"{where} has no {part.name} of the point {label!r}")
        # An axis that is called as another column has none of its own.
        found.append(({"point": label, **({} if axis in taken else {axis: value})}, part))
    return found


def _file_name(label: str) -> str:
    """A label as the program makes it part of a file's name."""
    plain = "=-.+,"
    return "".join(c if (c.isascii() and c.isalnum()) or c in plain else f"_{ord(c):x}_" for c in label)


def _plain(text: str) -> Union[int, float, str]:
    for kind in (int, float):
        try:
            return kind(text)
        except ValueError:
            pass
    return text


def _alike(values: list[Any]) -> list[Any]:
    """An axis as ``metrics.parquet`` has it: whole numbers, else numbers, else texts."""
    if all(isinstance(value, int) for value in values):
        return values
    if all(isinstance(value, (int, float)) for value in values):
        return [float(value) for value in values]
    return [str(value) for value in values]


def _jobs(where: Path) -> list[tuple[dict[str, Any], Path]]:
    """Of a sweep: job, point and axes of all that ``sweep.json`` lists, and the file of its flows, if that is there."""
    index = json.loads((where / "sweep.json").read_text(encoding="utf-8"))
    axes = {axis: _alike([job["values"][axis] for job in index["jobs"]]) for axis in index["axes"]}
    found = []
    for n, job in enumerate(index["jobs"]):
        file = where / "flows" / f"{job['job']}.parquet"
        if file.is_file():
            values = {axis: of_axis[n] for axis, of_axis in axes.items()}
            found.append(({"job": job["job"], "point": job["point"], **values}, file))
    if not found:
        raise FileNotFoundError(f"{where} has no flows: run the sweep with flows=True")
    return found


def _joined(name: str, library: Any, parts: list[tuple[dict[str, Any], Path]]) -> Any:
    """The tables of all parts, one below the other, with columns before them that say of what they are."""
    frames = []
    for at, file in parts:
        frame = _read(name, library, file)
        if name == "polars":
            kinds = {int: library.Int64, float: library.Float64, str: library.String}
            values = [library.lit(value, dtype=kinds[type(value)]).alias(column) for column, value in at.items()]
            frames.append(frame.select(*values, library.all()))
        else:
            frames.append(frame.assign(**at)[[*at, *frame.columns]])
    return library.concat(frames, how="vertical_relaxed") if name == "polars" else library.concat(frames, ignore_index=True)


def _warn(library: Any, where: Path) -> None:
    """Of jobs that are done and not in the table: those that ``sweep.json`` lists, and those that were done after it."""
    table = where / "metrics.parquet"
    try:
        listed = {job["job"] for job in json.loads((where / "sweep.json").read_text(encoding="utf-8"))["jobs"]}
    except (OSError, ValueError, KeyError):
        listed = set()
    gathered, made = set(library.read_parquet(table, columns=["job"])["job"].unique()), table.stat().st_mtime_ns
    lacking = 0
    for file in (where / "jobs").glob("[!.]*.parquet"):
        if file.stem not in gathered and file.is_file():
            about = file.stat()
            lacking += about.st_size > 0 and (file.stem in listed or about.st_mtime_ns > made)
    if lacking:
        jobs = "job that is" if lacking == 1 else "jobs that are"
        said = f"{where}: its table lacks {lacking} {jobs} done; run the sweep once more, which gathers them"
        warnings.warn(said, stacklevel=3)


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
