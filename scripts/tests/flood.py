#!/usr/bin/env python3
"""What `bench/flood/run` makes of its samples, and which options it refuses."""

import importlib.machinery
import importlib.util
import subprocess
import unittest
from pathlib import Path

RUN = Path(__file__).resolve().parents[2] / "bench/flood/run"
loader = importlib.machinery.SourceFileLoader("flood_run", str(RUN))
bench = importlib.util.module_from_spec(importlib.util.spec_from_loader("flood_run", loader))
loader.exec_module(bench)

ONE = {"p50": 0.05, "p99": 0.1, "connections": bench.CONNECTIONS, "untracked": 0, "rate": 5000.0}


def rounds(n=6, slower=1.0, **many):
    return [{"one": ONE, "many": ONE | {"p50": ONE["p50"] * slower} | many} for _ in range(n)]


class Verdict(unittest.TestCase):
    def fails(self, pairs):
        return bench.verdict(pairs, 5000)[1]

    def test_a_victim_that_notices_nothing(self):
        self.assertEqual(self.fails(rounds()), [])
        self.assertEqual(self.fails(rounds(slower=0.5)), [])
        self.assertEqual(bench.verdict(rounds(), 5000)[0], ["1.00 (1.00 to 1.00) | <= 1.20: yes", "1.00 (1.00 to 1.00)", "120 of 120", "0"])

    def test_the_upper_end_of_the_interval_is_held_against_the_bar(self):
        self.assertIn("1.30 times", self.fails(rounds(slower=1.3))[0])
        self.assertIn("up to 1.50", self.fails(rounds(5) + rounds(1, slower=1.5))[0])

    def test_few_rounds_show_nothing(self):
        self.assertIn("fewer than six", self.fails(rounds(5))[0])

    def test_state(self):
        self.assertIn("6 new connections without", self.fails(rounds(connections=bench.CONNECTIONS - 1))[0])
        self.assertIn("6 segments without SPRING", self.fails(rounds(untracked=1))[0])

    def test_an_attacker_that_is_too_slow(self):
        self.assertIn("too few", self.fails(rounds(rate=4000.0))[0])
        self.assertIn("too few", self.fails([{"one": ONE | {"rate": 4000.0}, "many": ONE} for _ in range(6)])[0])


class Options(unittest.TestCase):
    def test_what_is_out_of_range_is_refused_first(self):
        for options in (["--rounds", "0"], ["--pings", "0"], ["--rate", "0"], ["--max-flows", "0"], ["--cases", "1,9"]):
            done = subprocess.run([RUN, "--selvedge", "/nowhere", *options], capture_output=True, text=True, check=False)
            self.assertEqual(done.returncode, 2, done)
            self.assertIn(f"error: {options[0]}", done.stderr)


if __name__ == "__main__":
    unittest.main()
