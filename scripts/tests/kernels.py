#!/usr/bin/env python3
"""What scripts/kernels/test makes of machines that cannot be had, and scripts/kernels/table.py of results. No machine is started."""

import importlib.util
import os
import re
import shutil
import subprocess
import sys
import tempfile
import unittest

TREE = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..")
KERNELS = os.path.join(TREE, "scripts", "kernels")

# What cargo says of a test of the short form and of the program.
CARGO = """#!/bin/sh
echo '{"executable": "/bin/true", "manifest_path": "/t/kernel/Cargo.toml", "target": {"kind": ["test"], "name": "kernels"}, "profile": {"test": true}}'
echo '{"executable": "/bin/true", "manifest_path": "/t/selvedge/Cargo.toml", "target": {"kind": ["bin"], "name": "selvedge"}, "profile": {"test": false}}'
"""
# What a machine writes that ran one test.
RESULT = """== kernel {kernel}
== begin kernels:every_program_loads
| test every_program_loads ... {verdict}
== end kernels:every_program_loads {status} 7
== over
"""


class Tree:
    """A tree with the script itself and others' answers to it."""

    def __init__(self, fetch, features="--features x", verdict="ok"):
        self.top = tempfile.mkdtemp()
        at = os.path.join(self.top, "scripts", "kernels")
        os.makedirs(at)
        for name in ("test", "common.sh", "table.py"):
            shutil.copy(os.path.join(KERNELS, name), at)
        self.write("scripts/features", f"#!/bin/sh\necho '{features}'\n")
        self.write("scripts/cargo", CARGO)
        self.write("scripts/kernels/fetch", "#!/bin/sh\n" + fetch)
        self.write("scripts/kernels/image", "#!/bin/sh\n")
        result = RESULT.format(kernel="$1", verdict=verdict, status=0 if verdict == "ok" else 101)
        self.write("scripts/kernels/boot", f"#!/bin/sh\ncat \"$3/list\" >&2\ncat >\"$4\" <<END\n{result}END\n")

    def write(self, path, text):
        path = os.path.join(self.top, path)
        with open(path, "w", encoding="utf-8") as file:
            file.write(text)
        os.chmod(path, 0o755)

    def run(self, strict, **variables):
        env = {key: value for key, value in os.environ.items() if not key.startswith(("SELVEDGE", "CARGO", "KERNELS", "TESTS"))}
        env |= {"SELVEDGE_STRICT": "1"} if strict else {}
        env |= {"TESTS": "kernels:every_program_loads"} | variables
        try:
            return subprocess.run([os.path.join(self.top, "scripts/kernels/test"), "short"], env=env, capture_output=True, text=True)
        finally:
            shutil.rmtree(self.top)


UNAVAILABLE = "echo 'skipped: kernels: there is no archive' >&2\nexit 3\n"
HAS_6_12_ONLY = 'if [ "$1" = 6.1 ]; then ' + UNAVAILABLE + 'fi\necho "$1"\n'


class Endings(unittest.TestCase):
    def ends(self, status, strict, **tree):
        done = Tree(**tree).run(strict)
        self.assertEqual(done.returncode, status, done.stdout + done.stderr)
        return done

    def test_all_is_there(self):
        for strict in (False, True):
            done = self.ends(0, strict, fetch='echo "$1"\n')
            self.assertIn("| kernels:every_program_loads | 1 passed | 1 passed |", done.stdout)
            part = "in part: 1 of 1, not all run"
            self.assertIn(f"| Programs load, built by each clang | {part} | {part} |", done.stdout)
            self.assertNotIn("skipped", done.stdout + done.stderr)

    def test_what_cannot_be_had_is_skipped_unless_that_is_forbidden(self):
        for tree in ({"fetch": UNAVAILABLE}, {"fetch": 'echo "$1"\n', "features": "missing clang"}):
            self.assertIn("skipped: kernels: ", self.ends(0, False, **tree).stderr)
            done = self.ends(1, True, **tree)
            self.assertIn("skipped: kernels: ", done.stderr)
            self.assertIn("SELVEDGE_STRICT=1", done.stderr)

    def test_a_kernel_that_cannot_be_had_hides_nothing_of_the_other(self):
        self.assertIn("| kernels:every_program_loads | 1 passed |", self.ends(0, False, fetch=HAS_6_12_ONLY).stdout)
        self.ends(1, True, fetch=HAS_6_12_ONLY)
        self.ends(1, False, fetch=HAS_6_12_ONLY, verdict="FAILED")
        self.ends(1, False, fetch='[ "$1" = 6.1 ] || { ' + UNAVAILABLE + '}\nexit 1\n')

    def test_tests_are_told_whether_the_clock_counts_instructions(self):
        for variables, counts in [({}, 1), ({"SELVEDGE_KERNEL_ICOUNT": "1"}, 1), ({"SELVEDGE_KERNEL_ICOUNT": "0"}, 0)]:
            said = Tree(fetch='echo "$1"\n').run(False, **variables).stderr
            self.assertEqual(re.findall(r"SELVEDGE_CLOCK_COUNTS=(\d) ", said), [str(counts)] * 2, said)

    def test_ci_lets_nothing_be_skipped(self):
        with open(os.path.join(TREE, ".ci", "run"), encoding="utf-8") as file:
            step = re.search(r"^step kernels (.*)$", file.read(), re.M)[1]
        self.assertIn("SELVEDGE_STRICT=1 ", step)


def table():
    """The module scripts/kernels/table.py."""
    spec = importlib.util.spec_from_file_location("table", os.path.join(KERNELS, "table.py"))
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


class Table(unittest.TestCase):
    def test_each_group_is_part_of_a_capability_and_each_selection_is_one(self):
        with open(os.path.join(KERNELS, "test"), encoding="utf-8") as file:
            groups = re.search(r"^all=\(([^)]*)\)", file.read(), re.M)[1].split()
        selectors = [selector for _, all_of in table().CAPABILITIES for selector in all_of]
        self.assertEqual({selector.partition(":")[0] for selector in selectors}, set(groups))
        for selector in selectors:
            group, _, module = selector.partition(":")
            if module:
                self.assertEqual(group, "agent")
                self.assertTrue(os.path.exists(os.path.join(TREE, "crates/selvedge/tests/agent", module + ".rs")), selector)

    def test_a_group_that_did_not_end_is_a_part_of_it(self):
        of = table()
        tests = {"beside::a": ["passed", ""], "tcx::b": ["passed", ""]}
        for ended, said in [(0, "yes: 2 of 2"), (None, "in part: 2 of 2, not all run")]:
            kernel = {"groups": {"agent": {"tests": tests, "ended": ended}}}
            self.assertEqual(of.cell(of.verdicts(kernel, ["agent"])), said)

    def test_a_cell_claims_no_more_than_what_was_run(self):
        cell = table().cell
        ok, too_old, no_tool = ["passed", ""], ["skipped", "FastLane needs Linux 6.6"], ["skipped", "no clang"]
        for found, said in [
            ([None, None], "not run"),
            ([ok, ok], "yes: 2 of 2"),
            ([ok, None], "in part: 1 of 1, not all run"),
            ([ok, no_tool], "in part: 1 of 2, 1 skipped"),
            ([no_tool], "not run: 1 skipped"),
            ([too_old, too_old], "no (Linux 6.6)"),
            ([ok, ["failed", "a reason"], too_old], "**NO**: 1 of 3 failed"),
            ([["unfinished", "did not end in time"]], "**NO**: 1 of 1 failed"),
        ]:
            self.assertEqual(cell(found), said)

    def test_the_table_has_a_row_for_each_capability_and_a_column_for_each_kernel(self):
        module = table()
        test = {"ended": 0, "tests": {"a::b": ["passed", ""], "peer_process": ["passed", ""], "plain::c": ["failed", "why"]}}
        lines = module.capabilities({"6.1.0": {"groups": {"agent": test}}, "6.12.1": {"groups": {}}})
        self.assertEqual(lines[0], "| Capability | 6.1.0 | 6.12.1 |")
        self.assertEqual(len(lines), 2 + len(module.CAPABILITIES))
        self.assertIn("| The agent, all its tests | **NO**: 1 of 2 failed | not run |", lines)
        self.assertIn("| Uplinks without a tunnel | **NO**: 1 of 1 failed | not run |", lines)


if __name__ == "__main__":
    unittest.main(argv=[sys.argv[0], "--quiet"])
