"""The installed wheel: its program, runs, sweeps, frames and plots."""

from __future__ import annotations

import subprocess
import sys
from importlib import metadata
from pathlib import Path

import pandas
import polars
import pytest
import selvedge
from conftest import TINY, files


def test_the_wheel_brings_program_types_and_version() -> None:
    package = Path(selvedge.__file__).parent
    assert Path(sys.prefix) in package.parents, f"{package} is not what was installed"
    assert (package / "py.typed").is_file()
    assert Path(sys.prefix) in selvedge.program().parents, selvedge.program()
    assert selvedge.version() == metadata.version("selvedge")
    for command in (["selvedge"], [sys.executable, "-m", "selvedge"]):
        said = subprocess.run([*command, "--version"], capture_output=True, text=True, check=True).stdout
        assert said.strip() == f"selvedge {selvedge.version()}"


def test_a_run_gives_its_metrics(tmp_path: Path) -> None:
    file = tmp_path / "one.toml"
    file.write_text(TINY)
    frame = selvedge.run(file, schemes=["presto"], seeds=[1, 3], set={"topology.spines": 1, "switch.buffer": "1MB"})
    assert isinstance(frame, polars.DataFrame)
    assert set(frame["scheme"]) == {"presto"} and set(frame["seed"]) == {"1", "3", "all"}
    kept = selvedge.run(file, tmp_path / "out", backend="pandas")
    assert isinstance(kept, pandas.DataFrame) and (tmp_path / "out" / "report.html").is_file()
    summary = selvedge.load(tmp_path / "out", "summary")
    assert {"scheme", "metric", "mean", "ci95_half_width", "runs"} <= set(summary.columns)
    assert len(selvedge.load(tmp_path / "out", "flows")) > 0
    ax = selvedge.plot(tmp_path / "out", "mice.fct_ms.p50")
    assert len(ax.patches) == 2 and ax.get_ylabel() == "mice.fct_ms.p50 (ms)"


def test_mistakes_are_told_in_the_programs_words(tmp_path: Path) -> None:
    file = tmp_path / "bad.toml"
    file.write_text(TINY.replace("spines = 2", "spinse = 2"))
    with pytest.raises(selvedge.Failed) as caught:
        selvedge.run(file)
    assert caught.value.status == 2
    assert "bad.toml:11: topology.spinse: unknown key `spinse`; did you mean `spines`?" in str(caught.value)
    with pytest.raises(ValueError, match="no library of frames"):
        selvedge.load(tmp_path, backend="excel")  # type: ignore[arg-type]


def test_a_sweep_is_loaded_with_its_axes(scenario: Path, tmp_path: Path) -> None:
    output = tmp_path / "out"
    listed = selvedge.jobs(scenario, output)
    assert len(listed) == 8 and not any(job.done for job in listed) and not output.exists()
    assert selvedge.run_job(scenario, output, listed[3]) == listed[3].hash
    assert [job.done for job in selvedge.jobs(scenario, output)].count(True) == 1
    frame = selvedge.sweep(scenario, output, flows=True, cores=2)
    assert files(output) == sorted(f"{job.hash}.parquet" for job in listed)
    assert set(frame["spines"]) == {1, 2} and frame["spines"].dtype == polars.Int64
    assert frame["value"].dtype == polars.Float64 and set(frame["job"]) == {job.hash for job in listed}
    of_pandas = selvedge.load(output, backend="pandas")
    assert of_pandas["value"].tolist() == pytest.approx(frame["value"].fill_null(float("nan")).to_list(), nan_ok=True)

    summary = selvedge.load(output, "summary")
    metric, one = "mice.fct_ms.p50", (polars.col("spines") == 2) & (polars.col("scheme") == "ecmp")
    values = frame.filter(one & (polars.col("metric") == metric))["value"]
    row = summary.filter(one & (polars.col("metric") == metric)).to_dicts()[0]
    assert row["runs"] == 2 and row["mean"] == pytest.approx(values.mean())
    # Student's t of one degree of freedom over the square root of two, times the deviation.
    assert row["ci95_half_width"] == pytest.approx(12.706 * values.std() / 2**0.5)

    for backend in ("polars", "pandas"):
        flows = selvedge.load(output, "flows", backend=backend)  # type: ignore[arg-type]
        assert list(flows.columns[:4]) == ["job", "point", "spines", "scheme"] and len(flows) > 100
    configuration = selvedge.facts(output / listed[0].file)["configuration"]
    again = tmp_path / "again.toml"
    again.write_text(configuration)
    same = selvedge.run(again).filter(polars.col("seed") == str(listed[0].seed))
    mine = frame.filter(polars.col("job") == listed[0].hash)
    assert same["value"].to_list() == mine["value"].to_list()


def test_a_plot_has_a_line_a_scheme_over_the_axis(scenario: Path, tmp_path: Path) -> None:
    output = tmp_path / "out"
    selvedge.sweep(scenario, output)
    ax = selvedge.plot(output, "mice.fct_ms.p50")
    assert [line.get_label() for line in ax.containers] == ["ecmp", "presto"] and ax.get_xlabel() == "spines"
    drawn = ax.containers[1].lines[0]
    summary = selvedge.load(output, "summary", backend="pandas")
    own = summary[(summary.metric == "mice.fct_ms.p50") & (summary.scheme == "presto")]
    assert list(drawn.get_xdata()) == [1, 2] and list(drawn.get_ydata()) == own["mean"].tolist()
    with pytest.raises(ValueError, match="there is no axis 'load': there are spines"):
        selvedge.plot(output, "mice.fct_ms.p50", "load")
    with pytest.raises(ValueError, match="there is no metric 'fct'"):
        selvedge.plot(output, "fct")
