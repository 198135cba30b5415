"""What virtual congestion control costs by the shape of packets: segments of up to 64 KB, frames of 1,500 bytes, frames of 9,000
(bench/edge/run --shapes)."""

import json
import statistics
import subprocess
import time

from beside import interval
from rigs import inside

# Guests' MTU, the uplink's, and whether frames of the MTU cross it instead of segments.
SHAPES = {"whole": (1450, 1500, False), "mtu": (1450, 1500, True), "jumbo": (8950, 9000, False)}
# Of the claims (He 2017, sections 3.4 and 3.5.1).
RUNS_BAR, POINT = 0.25, 0.01


def without_offloads(rig):
    """Guests make frames of the MTU, and nobody merges them."""
    for name, device in [(guest, "eth0") for guest in rig.guests] + [(host, "u0") for host in rig.hosts]:
        inside(name, "ethtool", "-K", device, "tso", "off", "gso", "off", "gro", "off", capture_output=True)


def measure(load, rig, flows, seconds, rate, cpus):
    """Runs of the programs and their ns a GB, their share of the machine, CPU-seconds a GB of everything."""
    client = subprocess.Popen(load.client("send", rig.address, load.PORT, flows, seconds, int(rate), 65536),
                              stdout=subprocess.PIPE, text=True)
    try:
        client.stdout.readline()
        begin, before = time.monotonic(), rig.programs()
        sent = json.loads(client.communicate(timeout=120)[0])
        elapsed, after = time.monotonic() - begin, rig.programs()
    finally:
        client.kill()
    gigabytes = sent["bytes"] * 1e-9
    return {"runs": (after[1] - before[1]) / gigabytes, "ns": (after[0] - before[0]) / gigabytes,
            "share": (after[0] - before[0]) * 1e-9 / (elapsed * cpus), "cpu": sent["busy_seconds"] / gigabytes,
            "gbps": sent["bytes"] * 8e-9 / sent["seconds"]}


def judged(samples, rounds):
    """Claim, then its checks: text, unit, values, and whether it holds."""
    at = lambda shape, rig, key: [samples[shape][n][rig][key] for n in range(rounds)]  # noqa: E731
    less = lambda a, b: [x - y for x, y in zip(a, b)]  # noqa: E731
    over = lambda a, b: [x / y for x, y in zip(a, b)]  # noqa: E731
    added = {shape: less(at(shape, "acdc", "ns"), at(shape, "edge", "ns")) for shape in samples}
    runs = over(at("whole", "acdc", "runs"), at("mtu", "acdc", "runs"))
    cost = over(added["whole"], added["mtu"])
    point = less(at("jumbo", "acdc", "share"), at("jumbo", "edge", "share"))
    cpu = {rig: over(at("jumbo", rig, "cpu"), at("whole", rig, "cpu")) for rig in ("edge", "acdc")}
    return {
        "acdc/sec3.4-segments": [
            ("with TSO and GRO the programs run at most a quarter as often", "of the runs a GB without", runs, max(runs) <= RUNS_BAR),
            ("with them AC/DC adds less run time a GB", "of what it adds without", cost, statistics.mean(cost) < 1),
        ],
        "acdc/fig3.12-mtu9k": [
            ("AC/DC adds less than a point of the machine at 9,000 bytes", "of the machine", point, sum(interval(point)) < POINT),
            ("the plain edge needs no more CPU a GB at 9,000 bytes", "of that at 1,500", cpu["edge"], statistics.mean(cpu["edge"]) <= 1),
            ("nor does AC/DC", "of that at 1,500", cpu["acdc"], statistics.mean(cpu["acdc"]) <= 1),
        ],
    }


def report(samples, rounds, machine, as_records):
    """A table, or a record of each claim, one JSON object a line. True if all checks hold."""
    good = True
    if not as_records:
        print("\n| Claim | Check | Holds | Mean and 95 % interval | of |\n|---|---|---|---|---|")
    for claim, checks in judged(samples, rounds).items():
        fails = [text for text, _, _, holds in checks if not holds]
        good &= not fails
        told = []
        for text, unit, values, holds in checks:
            mean, half = interval(values)
            told.append({"text": text, "holds": holds, "paper": None, "measured": {
                "value": mean, "unit": unit, "ci95_half_width": half if rounds > 1 else None, "metrics": {}}})
            if not as_records:
                print(f"| {claim} | {text} | {'yes' if holds else 'NO'} | {mean:.4g} +- {half:.2g} | {unit} |")
        if as_records:
            record = {"checks": told, "id": claim, "machine": machine, "reason": "; ".join(fails) or None, "seeds": rounds,
                      "status": "fails" if fails else "holds"}
            print(json.dumps(record, separators=(",", ":"), sort_keys=True))
    return good
