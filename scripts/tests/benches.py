#!/usr/bin/env python3
"""Every program of bench/ says how it is used: it finds the modules that it imports."""

import subprocess
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]


def is_python(file):
    return file.is_file() and file.read_bytes().startswith(b"#!/usr/bin/env python3\n")


programs = sorted(file for file in ROOT.glob("bench/*/*") if is_python(file))
assert len(programs) > 15, programs
for program in programs:
    done = subprocess.run([program, "--help"], capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0 and done.stdout.startswith("usage: "), f"{program.relative_to(ROOT)} --help: {done.stderr}"
print(f"benches: {len(programs)} programs say how they are used")
