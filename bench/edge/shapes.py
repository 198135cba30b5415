"""What virtual congestion control costs by the shape of packets: segments of up to 64 KB, frames of 1,500 bytes, frames of 9,000
(bench/edge/run --shapes)."""

import json
import statistics
import subprocess
import time

from rigs import inside

# Guests' MTU, the uplink's, and whether frames of the MTU cross it instead of segments.
SHAPES = {"whole": (1450, 1500, False), "mtu": (1450, 1500, True), "jumbo": (8950, 9000, False)}


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


def by_name(samples, rounds):
    """Values of each round by name, as checks of results/catalogue have them."""
    return [{f"{rig}.{key}[shape={shape}]": value for shape, all_rounds in samples.items() for rig, found in all_rounds[n].items()
             for key, value in found.items()} for n in range(rounds)]


def report(samples):
    print("\n| Shape | Edge | runs a GB | ns a GB | share of the machine | CPU-s a GB |\n|---|---|---|---|---|---|")
    for shape, all_rounds in samples.items():
        for rig in ("edge", "acdc"):
            of = lambda key: statistics.median(one[rig][key] for one in all_rounds)  # noqa: E731
            print(f"| {shape} | {rig} | {of('runs'):.0f} | {of('ns'):.3g} | {of('share'):.2%} | {of('cpu'):.3f} |")
    print("\nMedians of the rounds.")
