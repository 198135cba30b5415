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


def test_a_job_that_failed_is_run_again_in_one_session(scenario: Path, tmp_path: Path) -> None:
    output = tmp_path / "out"
    listed = selvedge.jobs(scenario, output)
    (output / listed[0].file).mkdir(parents=True)  # in the place of a job's file
    with LocalCluster(n_workers=1, threads_per_worker=1, dashboard_address=None) as cluster, Client(cluster) as client:
        with pytest.raises(selvedge.Failed, match="1 of 8 jobs failed") as kept:
            selvedge.dask.sweep(client, scenario, output, retries=0)
        (output / listed[0].file).rmdir()
        frame = selvedge.dask.sweep(client, scenario, output, retries=0)
        assert set(frame["job"]) == {job.hash for job in listed}, kept
        # The same with futures that somebody holds.
        (output / listed[1].file).unlink()
        (output / listed[1].file).mkdir()
        [failed] = selvedge.dask.submit(client, scenario, output, retries=0)
        assert failed.exception() is not None
        (output / listed[1].file).rmdir()
        [again] = selvedge.dask.submit(client, scenario, output, retries=0)
        assert again.result() == listed[1].hash and failed.status == "error"


def test_flows_are_kept_though_others_ran_the_same_jobs_without(scenario: Path, tmp_path: Path) -> None:
    output = tmp_path / "out"
    with LocalCluster(n_workers=1, threads_per_worker=1, dashboard_address=None) as cluster, Client(cluster) as client:
        futures = selvedge.dask.submit(client, scenario, output)
        assert len([future.result() for future in futures]) == 8
        selvedge.dask.sweep(client, scenario, output, flows=True)
    assert len(list((output / "flows").iterdir())) == 8
    assert selvedge.load(output, "flows")["job"].n_unique() == 8


def test_memory_is_that_of_workers(scenario: Path, tmp_path: Path) -> None:
    output = tmp_path / "out"
    with LocalCluster(n_workers=1, threads_per_worker=1, dashboard_address=None) as cluster, Client(cluster) as client:
        with pytest.raises(selvedge.Failed, match="8 of 8 jobs failed; the first: job .* needs about .* --memory allows"):
            selvedge.dask.sweep(client, scenario, output, memory="1KB", retries=0)
        assert len(selvedge.dask.sweep(client, scenario, output, memory="1GB", retries=0)) > 0
