"""Sweeps on a cluster, also one that loses a worker."""

from __future__ import annotations

import os
import signal
import time
from pathlib import Path

import polars
import pytest
import selvedge
import selvedge.dask
from conftest import files
from distributed import Client, LocalCluster


def test_two_hundred_jobs_survive_the_death_of_a_worker(scenario: Path, tmp_path: Path) -> None:
    output = tmp_path / "out"
    seeds = "1..50"  # times two schemes and two points
    listed = selvedge.jobs(scenario, output, seeds=seeds)
    assert len({job.hash for job in listed}) == 200
    with LocalCluster(n_workers=2, threads_per_worker=1, dashboard_address=None) as cluster, Client(cluster) as client:
        futures = selvedge.dask.submit(client, scenario, output, seeds=seeds)
        assert len(futures) == 200
        deadline = time.monotonic() + 300
        while len(files(output)) < 100:
            assert time.monotonic() < deadline, f"{len(files(output))} of 200 jobs in five minutes"
            time.sleep(0.05)
        victim = next(iter(client.run(os.getpid).values()))
        os.kill(victim, signal.SIGKILL)
        assert len([future for future in futures if not future.done()]) > 0, "the worker died too late to matter"
        hashes = [future.result() for future in futures]
        assert victim not in client.run(os.getpid).values()
        # As a user calls it: everything is done, so only the table is made.
        frame = selvedge.dask.sweep(client, scenario, output, seeds=seeds)
    expected = sorted(job.hash for job in listed)
    assert sorted(hashes) == expected
    assert files(output) == [f"{hash}.parquet" for hash in expected], "each result once, and nothing half-written"
    rows = frame.filter(polars.col("metric") == "all.flows")
    assert sorted(rows["job"]) == expected, "each job once in the table"
    assert not frame.select("job", "metric").is_duplicated().any()
    # What a cluster gave is what this machine gives.
    sample = listed[::40]
    other = tmp_path / "other"
    for job in sample:
        selvedge.run_job(scenario, other, job)
        assert (other / job.file).read_bytes() == (output / job.file).read_bytes()


def test_a_job_that_fails_is_told(scenario: Path, tmp_path: Path) -> None:
    blocked = tmp_path / "out"
    (blocked / "jobs").mkdir(parents=True)
    (blocked / "sweep.json").write_text("{}")
    listed = selvedge.jobs(scenario, blocked)
    # A directory in the place of a job's file.
    (blocked / listed[0].file).mkdir()
    with LocalCluster(n_workers=1, threads_per_worker=1, dashboard_address=None) as cluster, Client(cluster) as client:
        with pytest.raises(selvedge.Failed, match="1 of 8 jobs failed; the first: cannot write"):
            selvedge.dask.sweep(client, scenario, blocked, retries=0)
    assert sum(job.done for job in selvedge.jobs(scenario, blocked)) == 7
