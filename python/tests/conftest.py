"""What the tests share. They use the package as installed: none of them imports the one beside them."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]

# Two hosts a rack, and a few milliseconds: a job takes a moment.
TINY = """
title = "tiny"
duration = "2ms"
warmup = "500us"
drain = "1ms"
seeds = "1..2"
schemes = ["ecmp", "presto"]
[topology]
kind = "clos"
leaves = 2
spines = 2
hosts_per_leaf = 2
[[workload]]
name = "mice"
pattern = "mice"
to = "other-rack"
size = "10KB"
every = "200us"
"""

AXIS = """
[sweep]
name = "spines"
values = [1, 2]
keys = ["topology.spines"]
"""


@pytest.fixture
def scenario(tmp_path: Path) -> Path:
    file = tmp_path / "sweep.toml"
    file.write_text(TINY + AXIS)
    return file


@pytest.fixture(autouse=True)
def no_screen(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MPLBACKEND", "Agg")
    monkeypatch.delenv("SELVEDGE", raising=False)


def files(output: Path) -> list[str]:
    """Names of the jobs' files, half-written ones too."""
    jobs = output / "jobs"
    return sorted(os.listdir(jobs)) if jobs.is_dir() else []
