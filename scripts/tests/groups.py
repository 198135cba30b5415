#!/usr/bin/env python3
"""scripts/kernels/test runs every test program that needs the kernel: those that are no group of it are named here, each with its reason."""

import os
import re
import sys

TREE = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..")
# Of these, scripts/kernels/test finds programs. No other crate's tests load one of ours or attach it.
CRATES = ["agent", "kernel", "kernel-lab", "lab", "selvedge"]
NONE = {
    "lab/generator": "senders and receivers of the hosts' own TCP: none of our programs",
    "lab/hidden": "an edge in a process, over a modelled fabric: none of our programs",
    "lab/lab": "hosts over a modelled fabric: none of our programs",
    "lab/measured": "hosts over a modelled fabric: none of our programs",
    "selvedge/catalogue": "results in files",
    "selvedge/cli": "the command line; nothing of the kernel",
    "selvedge/controller": "the controller, which has no programs in the kernel",
    "selvedge/documents": "text",
    "selvedge/lab": "hosts over a modelled fabric: none of our programs",
    "selvedge/report": "pages",
    "selvedge/schema": "text",
}


def programs(crate):
    """The names of a crate's test programs, as cargo finds them."""
    directory = os.path.join(TREE, "crates", crate, "tests")
    for name in sorted(os.listdir(directory)) if os.path.isdir(directory) else []:
        if name.endswith(".rs"):
            yield name[:-3]
        elif os.path.exists(os.path.join(directory, name, "main.rs")):
            yield name


def main():
    with open(os.path.join(TREE, "scripts", "kernels", "test"), encoding="utf-8") as file:
        text = file.read()
    groups = re.search(r"^all=\(([^)]*)\)", text, re.M)[1].split()
    searched = set(re.findall(r"'([\w-]+)'", re.search(r"basename\(at\) in \(([^)]*)\)", text)[1]))
    found, faults = {}, []
    for crate in CRATES:
        for name in programs(crate):
            found.setdefault(name, []).append(crate)
            if name not in groups and f"{crate}/{name}" not in NONE:
                faults.append(f"{crate}/{name} is no group of scripts/kernels/test: add it there, or the reason here")
    for name in groups:
        crates = found.get(name, [])
        if len(crates) != 1:
            faults.append(f"the group {name} names {len(crates)} test programs")
        if not searched.issuperset(crates):
            faults.append(f"scripts/kernels/test does not look for {name} in {crates[0]}")
    for name in NONE:
        crate, _, program = name.partition("/")
        if crate not in found.get(program, []):
            faults.append(f"{name} is excluded, and does not exist")
        if program in groups and found[program] == [crate]:
            faults.append(f"{name} is excluded, and a group")
    print(f"groups: {len(groups)} of scripts/kernels/test, {len(NONE)} test programs need no other kernel")
    for fault in faults:
        print(fault, file=sys.stderr)
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
