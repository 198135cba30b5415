"""The program that does the work."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import sysconfig
from pathlib import Path
from typing import Sequence


class Failed(RuntimeError):
    """The program ended with an error; ``status`` is 1 if it failed and 2 if what was asked makes no sense."""

    def __init__(self, message: str, status: int) -> None:
        super().__init__(message, status)
        self.message = message
        self.status = status

    def __str__(self) -> str:
        return self.message


def program() -> Path:
    """Where the program is: what ``SELVEDGE`` names, else beside this package, else on the ``PATH``."""
    given = os.environ.get("SELVEDGE")
    if given:
        return Path(given)
    scripts = [sysconfig.get_path("scripts"), os.path.join(sys.prefix, "bin")]
    user = sysconfig.get_preferred_scheme("user")
    scripts.append(sysconfig.get_path("scripts", scheme=user))
    for directory in scripts:
        candidate = Path(directory, "selvedge")
        if candidate.is_file() and os.access(candidate, os.X_OK):
            return candidate
    found = shutil.which("selvedge")
    if found is None:
        raise FileNotFoundError("the program selvedge is missing: install the wheel again, or set SELVEDGE to its path")
    return Path(found)


def call(arguments: Sequence[str], *, progress: bool = False) -> str:
    """Runs the program and returns what it prints. With ``progress`` its messages go to the terminal, if there is one."""
    shown = progress and sys.stderr is not None and sys.stderr.isatty()
    done = subprocess.run(
        [str(program()), *arguments],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=None if shown else subprocess.PIPE,
        encoding="utf-8",
        errors="replace",
    )
    if done.returncode != 0:
        said = (done.stderr or "").strip()
        message = said or f"selvedge {arguments[0]} ended with status {done.returncode}"
        raise Failed(message.replace("selvedge: ", "", 1), done.returncode)
    return done.stdout


def version() -> str:
    """The version of the program, such as ``0.2.0``."""
    return call(["--version"]).split()[-1]
