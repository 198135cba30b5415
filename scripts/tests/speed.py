#!/usr/bin/env python3
"""What scripts/kernels/samples makes of the output of a virtual machine."""

import json
import subprocess
import sys
import tempfile
from pathlib import Path

SAMPLES = Path(__file__).resolve().parents[1] / "kernels/samples"
CONSOLE = """== kernel 6.12.0-test
| speed vxlan IPv4 6000 Mb/s, 1.300 CPU-s/GB, 0 retransmitted
| speed edge+clove IPv6 6500 Mb/s, 1.250 CPU-s/GB, 3 retransmitted
"""


def main():
    with tempfile.NamedTemporaryFile("w") as file:
        file.write(CONSOLE)
        file.flush()
        found = json.loads(subprocess.run([SAMPLES, file.name], capture_output=True, text=True, check=True).stdout)
    assert found["rounds"] == [{"vxlan.IPv4.mbps": 6000, "vxlan.IPv4.cpu": 1.3, "edge_clove.IPv6.mbps": 6500, "edge_clove.IPv6.cpu": 1.25}], found
    assert found["exact"] and "6.12.0-test" in found["machine"], found
    bad = subprocess.run([SAMPLES, SAMPLES], capture_output=True, text=True, check=False)
    assert bad.returncode == 1 and "no line `== kernel`" in bad.stderr, bad
    print("ok: scripts/kernels/samples")


if __name__ == "__main__":
    sys.exit(main())
