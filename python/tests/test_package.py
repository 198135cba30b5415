"""The installed wheel: its program, runs, sweeps, frames and plots."""

from __future__ import annotations

import subprocess
import sys
from importlib import metadata
import warnings
from pathlib import Path

import numpy
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


def test_columns_have_their_kinds_whatever_the_first_rows_have(tmp_path: Path) -> None:
    bulk = '[[workload]]\nname = "bulk"\npattern = "stride"\nk = 64\n'
    file = tmp_path / "bulk.toml"
    file.write_text(TINY.replace("hosts_per_leaf = 2", "hosts_per_leaf = 64").replace("[[workload]]", f"{bulk}[[workload]]"))
    output = tmp_path / "out"
    selvedge.run(file, output, schemes="ecmp", seeds=1, set={"record.sample_every": "100us"})
    flows = selvedge.load(output, "flows")
    assert set(flows["start_us"][:100]) == {0.0} and flows["start_us"].n_unique() > 100, "mice start by and by"
    assert set(flows["size_bytes"][:100]) == {None} and set(flows["size_bytes"][128:]) == {10_000}
    kinds = {"seed": polars.String, "src": polars.Int64, "size_bytes": polars.Int64, "finish_us": polars.Float64}
    assert {column: flows[column].dtype for column in kinds} == kinds
    series = selvedge.load(output / "series.csv")
    assert series["value"].dtype == polars.Float64 and series["name"].dtype == polars.String
    assert selvedge.load(output / "ports.csv")["utilisation"].dtype == polars.Float64
    of_pandas = selvedge.load(output, "flows", backend="pandas")
    assert of_pandas["start_us"].tolist() == flows["start_us"].to_list() and set(of_pandas["seed"]) == {"1"}
    # What is not known of somebody else's file is inferred from all of it.
    other = tmp_path / "other.csv"
    other.write_text("seed,value,note\n" + "1,0,\n" * 150 + "all,0.5,late\n2,many,later\n")
    frame = selvedge.load(other)
    assert frame["value"].dtype == polars.String and frame["note"][-1] == "later" and frame["seed"][-2] == "all"
    # One seed has no interval, and the numbers of many metrics are whole.
    summary = selvedge.load(output, "summary")
    assert summary["ci95_half_width"].dtype == summary["mean"].dtype == polars.Float64
    assert summary["ci95_half_width"].null_count() == len(summary)


def test_a_run_of_a_sweep_is_loaded_with_its_axis(scenario: Path, tmp_path: Path) -> None:
    output = tmp_path / "out"
    metrics = selvedge.run(scenario, output)
    assert set(metrics["point"]) == {"spines=1", "spines=2"}
    selvedge.sweep(scenario, tmp_path / "jobs", flows=True)
    for backend in ("polars", "pandas"):
        summary = selvedge.load(output, "summary", backend=backend)  # type: ignore[arg-type]
        same = selvedge.load(tmp_path / "jobs", "summary", backend=backend)  # type: ignore[arg-type]
        assert list(summary.columns) == list(same.columns) and str(summary["spines"].dtype).lower() == "int64"
        rows = [set(zip(*(frame[column] for column in ("spines", "scheme", "metric", "runs")))) for frame in (summary, same)]
        assert rows[0] == rows[1]
        flows = selvedge.load(output, "flows", backend=backend)  # type: ignore[arg-type]
        assert list(flows.columns[:3]) == ["point", "spines", "scheme"]
        assert len(flows) == len(selvedge.load(tmp_path / "jobs", "flows", backend=backend))  # type: ignore[arg-type]
    ax = selvedge.plot(output, "mice.fct_ms.p50")
    assert ax.get_xlabel() == "spines" and list(ax.containers[1].lines[0].get_xdata()) == [1, 2]
    # Labels of points that no file can be called by.
    file = tmp_path / "points.toml"
    points = 'point = [{ label = "a/b \u00fc", set = { topology.spines = 1 } }, { label = "c", set = {} }]'
    file.write_text(f'{TINY}[sweep]\nname = "metric"\n{points}\n')
    selvedge.run(file, tmp_path / "points", schemes="ecmp")
    flows = selvedge.load(tmp_path / "points", "flows")
    assert set(flows["point"]) == {"a/b \u00fc", "c"} and flows.columns[1] == "scheme"
    file.write_text(f'{TINY}[sweep]\nname = "what"\n{points}\n')
    selvedge.run(file, tmp_path / "points", schemes="ecmp", force=True)
    assert set(selvedge.load(tmp_path / "points", "summary")["what"]) == {"a/b \u00fc", "c"}
    (tmp_path / "points" / "c.flows.csv").unlink()
    with pytest.raises(FileNotFoundError, match="has no c.flows.csv of the point 'c'"):
        selvedge.load(tmp_path / "points", "flows")


def test_numbers_of_numpy_are_numbers(scenario: Path, tmp_path: Path) -> None:
    def listed(seeds: object, set: object) -> list[selvedge.Job]:
        return selvedge.jobs(scenario, tmp_path / "out", seeds=seeds, set=set)  # type: ignore[arg-type]

    plain = listed([3, 4], {"topology.hosts_per_leaf": 3})
    assert listed(numpy.array([3, 4]), {"topology.hosts_per_leaf": numpy.int64(3)}) == plain
    assert listed(numpy.arange(3, 5), {"topology.hosts_per_leaf": numpy.array(3)}) == plain
    assert {job.seed for job in listed(numpy.int64(7), None)} == {7} == {job.seed for job in listed(7, None)}
    assert listed(1, {"host.tcp.nagle": numpy.bool_(False)}) == listed(1, {"host.tcp.nagle": False})
    for wrong in (1.5, [1.5]):
        with pytest.raises(TypeError):
            listed(wrong, None)


def test_memory_is_asked_for_where_something_runs(scenario: Path, tmp_path: Path) -> None:
    job = selvedge.jobs(scenario, tmp_path / "out")[0]
    for call in (
        lambda: selvedge.run_job(scenario, tmp_path / "out", job, memory=1000),
        lambda: selvedge.sweep(scenario, tmp_path / "out", memory="1KB"),
        lambda: selvedge.run(scenario, memory=numpy.int64(1000)),
    ):
        with pytest.raises(selvedge.Failed, match="--memory allows 0 MB"):
            call()
    assert not files(tmp_path / "out")
    assert len(selvedge.sweep(scenario, tmp_path / "out", memory="1GB")) > 0


def test_a_table_that_lacks_jobs_is_told(scenario: Path, tmp_path: Path) -> None:
    output = tmp_path / "out"
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        selvedge.sweep(scenario, output, seeds=1)
        job = selvedge.jobs(scenario, output, seeds=2)[0]
        selvedge.run_job(scenario, output, job)
        selvedge.load(output / "metrics.parquet")
    for table in ("metrics", "summary"):
        with pytest.warns(UserWarning, match="its table lacks 1 job that is done") as caught:
            selvedge.load(output, table)  # type: ignore[arg-type]
        assert caught[0].filename == __file__
    with pytest.warns(UserWarning, match="lacks 1 job"):
        selvedge.load(output, backend="pandas")
    # A call that was to gather jobs, and was killed: they are listed, and the table is of before.
    old = (output / "metrics.parquet").read_bytes()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        selvedge.sweep(scenario, output, seeds="1..2")
        selvedge.load(output)
    (output / "metrics.parquet").write_bytes(old)
    with pytest.warns(UserWarning, match="lacks 4 jobs that are done; run the sweep once more"):
        selvedge.load(output)


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
