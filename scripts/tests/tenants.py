#!/usr/bin/env python3
"""What `bench/tenants/run --records` writes of rounds that were measured."""

import argparse
import importlib.machinery
import importlib.util
import json
import tempfile
import unittest
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
loader = importlib.machinery.SourceFileLoader("tenants_run", str(ROOT / "bench/tenants/run"))
bench = importlib.util.module_from_spec(importlib.util.spec_from_loader("tenants_run", loader))
loader.exec_module(bench)

WITHOUT = {"mean": 2.0, "p99": 10.0, "spread": 1.0, "tcp": 0.5, "udp": 8.0, "tcp/udp": 0.06, "jain": 0.5, "all": 34.0, "share": 0.1, "failed": 3, "slowest": 3.0}
WITH = {"mean": 0.05, "p99": 0.1, "spread": 0.01, "tcp": 4.0, "udp": 4.5, "tcp/udp": 0.9, "jain": 0.99, "all": 33.0, "share": 0.9, "failed": 0, "slowest": 0.06}
OPTIONS = argparse.Namespace(hold="drop")


def found(**differs):
    return {"none": [WITHOUT] * 3, "aiad": [WITH] * 3, "alpha": [WITH | differs] * 3}


class Records(unittest.TestCase):
    def of(self, **figures):
        return {record["id"]: record for record in bench.records(OPTIONS, figures)}

    def test_an_entry_holds_if_it_does_with_each_law(self):
        records = self.of(**{"6": found()})
        self.assertEqual({record["status"] for record in records.values()}, {"holds"})
        self.assertLessEqual({f"hygenicc/fig6{part}" for part in "abcd"}, set(records))
        self.assertNotIn("hygenicc/sec7.2.1-util", records)
        fails = self.of(**{"6": found(p99=0.3)})
        self.assertEqual([id for id, record in fails.items() if record["status"] == "fails"], ["hygenicc/fig6b"])
        self.assertIn("alpha: p99 of pages is below 200 ms: 0.3 s", fails["hygenicc/fig6b"]["reason"])
        self.assertEqual(fails["hygenicc/fig6b"]["seeds"], 3)

    def test_a_record_names_the_commit_that_ran(self):
        named = {record["id"]: record for record in bench.records(OPTIONS, {"6": found()}, "0123abcd")}
        self.assertEqual({record.get("commit") for record in named.values()}, {"0123abcd"})
        self.assertNotIn("commit", self.of(**{"6": found()})["hygenicc/fig6a"])

    def test_figures_decide_together_or_not_at_all(self):
        some = {str(n): found() for n in (9, 10, 11)}
        self.assertNotIn("hygenicc/sec7.2.2-connfail", self.of(**some))
        self.assertEqual(self.of(**some, **{"12": found()})["hygenicc/sec7.2.2-connfail"]["status"], "holds")
        self.assertEqual(self.of(**some, **{"12": found(failed=1)})["hygenicc/sec7.2.2-connfail"]["status"], "fails")
        self.assertEqual(self.of(flood=found()), {})
        self.assertIn("hygenicc/sec7.2.1-util", self.of(**{str(n): found() for n in (6, 7, 8)}))
        self.assertEqual(self.of(**{"9": found(slowest=3.5)})["hygenicc/fig9a"]["status"], "fails")

    def test_other_records_stay_as_they_are(self):
        with tempfile.TemporaryDirectory() as directory:
            path = Path(directory) / "hygenicc.jsonl"
            old = ['{"id":"hygenicc/fig6a","mode":"quick","status":"holds","x":1e-5}', '{"id":"hygenicc/sec4-linerate","status":"holds"}']
            path.write_text("\n".join(old) + "\n")
            for status in ("fails", "holds"):
                bench.write_records(path, [{"id": "hygenicc/fig6a", "status": status}])
            lines = path.read_text().splitlines()
            self.assertEqual([json.loads(line)["id"] for line in lines], ["hygenicc/fig6a", "hygenicc/fig6a", "hygenicc/sec4-linerate"])
            self.assertEqual(lines[1:], old)
            self.assertEqual(json.loads(lines[0])["status"], "holds")
            self.assertEqual([entry.name for entry in Path(directory).iterdir()], ["hygenicc.jsonl"])


if __name__ == "__main__":
    unittest.main()
