#!/usr/bin/env python3
"""What `bench/tenants/run` makes of rounds that were measured."""

import importlib.machinery
import importlib.util
import unittest
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
loader = importlib.machinery.SourceFileLoader("tenants_run", str(ROOT / "bench/tenants/run"))
bench = importlib.util.module_from_spec(importlib.util.spec_from_loader("tenants_run", loader))
loader.exec_module(bench)

WITHOUT = {"mean": 2.0, "p99": 10.0, "spread": 1.0, "tcp": 0.5, "udp": 8.0, "tcp/udp": 0.06, "jain": 0.5, "all": 34.0, "share": 0.1, "failed": 3, "slowest": 3.0, "held": {}}
WITH = {"mean": 0.05, "p99": 0.1, "spread": 0.01, "tcp": 4.0, "udp": 4.5, "tcp/udp": 0.9, "jain": 0.99, "all": 33.0, "share": 0.9, "failed": 0, "slowest": 0.06}


def found(**differs):
    return {"none": [WITHOUT] * 3, "aiad": [WITH] * 3, "alpha": [WITH | differs] * 3}


class Rounds(unittest.TestCase):
    def test_a_round_has_its_values_by_name(self):
        rounds = bench.by_name({"flood": found(), "6": found(p99=0.3)}, 3)
        self.assertEqual(len(rounds), 3)
        self.assertEqual((rounds[2]["fig6.alpha.p99"], rounds[0]["fig6.none.mean"]), (0.3, 2.0))
        self.assertFalse([name for name in rounds[0] if "/" in name or "flood" in name or "held" in name])

    def test_what_a_figure_asks_for_is_of_medians(self):
        fails = lambda figure, **differs: [check.text for check in bench.checks(figure, found(**differs), "alpha") if not check.holds]
        self.assertEqual(fails("6"), [])
        self.assertEqual(fails("6", p99=0.3), ["p99 of pages is below 200 ms", "Fig. 6: p99 of pages is below 200 ms"])
        self.assertEqual(fails("9", slowest=3.5), ["the slowest pair of hosts is faster"])


if __name__ == "__main__":
    unittest.main()
