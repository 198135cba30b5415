#!/usr/bin/env python3
"""What scripts/kernels/records makes of the output of a virtual machine: held, failed, or not measured."""

import json
import subprocess
import sys
import tempfile
from pathlib import Path

RECORDS = Path(__file__).resolve().parents[1] / "kernels/records"
CONSOLE = """== kernel 6.12.0-test
| speed vxlan IPv4 6000 Mb/s, 1.300 CPU-s/GB, 0 retransmitted
| speed vxlan IPv6 6000 Mb/s, 1.300 CPU-s/GB, 0 retransmitted
| speed edge+clove IPv4 6500 Mb/s, 1.200 CPU-s/GB, 0 retransmitted
| speed edge+clove IPv6 {clove} Mb/s, 1.250 CPU-s/GB, 0 retransmitted
| speed wire IPv4 900 Mb/s, 1.500 CPU-s/GB, 3 retransmitted
{rest}"""
WIRE = """| speed wire IPv6 900 Mb/s, 1.500 CPU-s/GB, 0 retransmitted
| speed wire+shares IPv4 891 Mb/s, 1.600 CPU-s/GB, 0 retransmitted
| speed wire+shares IPv6 882 Mb/s, 1.700 CPU-s/GB, 0 retransmitted
"""


def records(clove, rest):
    with tempfile.NamedTemporaryFile("w") as file:
        file.write(CONSOLE.format(clove=clove, rest=rest))
        file.flush()
        out = subprocess.run([RECORDS, file.name], capture_output=True, text=True, check=True).stdout
    return {record["id"]: record for record in map(json.loads, out.splitlines())}


def main():
    full = records(6400, WIRE)
    assert {name: record["status"] for name, record in full.items()} == {
        "clove/s4-line-rate": "holds", "hygenicc/sec4-linerate": "holds", "hygenicc/sec7-cpu": "fails"}, full
    assert full["hygenicc/sec4-linerate"]["checks"][0]["measured"]["value"] == 0.98, "the worse family counts"
    assert "6.12.0-test" in full["hygenicc/sec7-cpu"]["machine"]
    part = records(5000, "")
    assert {name: record["status"] for name, record in part.items()} == {"clove/s4-line-rate": "fails"}, "half of a pair decides nothing"
    print("ok: scripts/kernels/records")


if __name__ == "__main__":
    sys.exit(main())
