"""The notebook runs from its first cell to its last."""

from __future__ import annotations

from pathlib import Path

import nbformat
import polars
import pytest
from conftest import ROOT, files
from nbclient import NotebookClient


def test_the_notebook_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    output = tmp_path / "out"
    monkeypatch.setenv("SELVEDGE_OUTPUT", str(output))
    monkeypatch.delenv("MPLBACKEND")  # the kernel has one of its own, which draws into the notebook
    examples = ROOT / "python" / "examples"
    notebook = nbformat.read(examples / "load-sweep.ipynb", as_version=4)
    nbformat.validate(notebook)
    NotebookClient(notebook, timeout=600, kernel_name="python3", resources={"metadata": {"path": str(examples)}}).execute()
    assert len(files(output)) == 18, "3 loads, 2 schemes, 3 seeds"
    drawn = [out for cell in notebook.cells for out in cell.get("outputs", []) if "image/png" in out.get("data", {})]
    assert len(drawn) == 2
    summary = polars.read_parquet(output / "summary.parquet")
    assert set(summary["load"]) == {0.2, 0.4, 0.6} and set(summary["scheme"]) == {"ecmp", "presto"}
