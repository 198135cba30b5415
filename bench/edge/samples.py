"""What a bench measured, for `selvedge repro --real-hosts`: it names a file in the environment's SELVEDGE_SAMPLES (docs/repro.md)."""

import json
import os
from pathlib import Path


def machine(busy=None):
    """`busy`: share of it that others took meanwhile."""
    text = f"Linux {os.uname().release}, {os.cpu_count()} cores"
    return text if busy is None else f"{text}, others took {busy:.0%}"


def write(rounds, of=None, exact=False):
    """A dict of values by name for each round. `exact`: they are counted, and every round would yield the same."""
    if path := os.environ.get("SELVEDGE_SAMPLES"):
        text = json.dumps({"machine": of or machine(), "exact": exact, "rounds": rounds}, allow_nan=False)
        Path(path).write_text(text + "\n")
