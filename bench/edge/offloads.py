"""What a connection over one veth pair has without TSO at the sender, and without GRO at the receiver (bench/edge/run --offloads)."""

import json
import statistics
import subprocess
import time
from pathlib import Path

from rigs import inside

# TSO at the sender, the most segments that its TCP sends as one packet, GRO at the receiver. Without TSO but with many, the stack cuts them at the device.
SETTINGS = {"whole": ("on", 65535, "on"), "tso_off": ("off", 1, "on"), "gro_on": ("off", 65535, "on"), "gro_off": ("off", 65535, "off")}


def use(rig, setting):
    tso, most, gro = SETTINGS[setting]
    sender, receiver = rig.guests
    inside(sender, "ethtool", "-K", "eth0", "tso", tso, "gso", tso, capture_output=True)
    inside(sender, "ip", "link", "set", "eth0", "gso_max_segs", most)
    inside(receiver, "ethtool", "-K", "eth0", "gro", gro, capture_output=True)


def cores():
    """Of CPU 0 and 1: ticks that were busy, and all."""
    lines = Path("/proc/stat").read_text().split("\n")[1:3]
    fields = [[int(x) for x in line.split()[1:9]] for line in lines]
    return [(sum(one) - one[3] - one[4], sum(one)) for one in fields]


def measure(load, rig, seconds):
    """One connection at full speed: its rate, and the busy share of the cores on which sender and receiver run."""
    client = subprocess.Popen(load.client("send", rig.address, load.PORT, 1, seconds + 0.6, 0, 65536), stdout=subprocess.PIPE, text=True)
    try:
        client.stdout.readline()
        time.sleep(0.3)
        before = cores()
        time.sleep(seconds)
        shares = [(new[0] - old[0]) / max(new[1] - old[1], 1) for new, old in zip(cores(), before)]
        sent = json.loads(client.communicate(timeout=120)[0])
    finally:
        client.kill()
    return {"gbps": sent["bytes"] * 8e-9 / sent["seconds"], "sender_core": shares[0], "receiver_core": shares[1]}


def report(samples):
    print("\n| Setting | Gb/s | sender's core | receiver's core |\n|---|---|---|---|")
    for setting in SETTINGS:
        of = lambda key: statistics.median(round_[setting][key] for round_ in samples)  # noqa: E731
        print(f"| {setting} | {of('gbps'):.2f} | {of('sender_core'):.0%} | {of('receiver_core'):.0%} |")
    print("\nMedians of the rounds. CPU 0 is the sender's, and the kernel's part of both ends runs there; CPU 1 has the receiving program.")
