"""What virtual congestion control costs: the edge plain and with it, in alternating rounds (bench/edge/run --congestion)."""

import json
import math
import statistics
import subprocess
import time

# Two-sided 95 % points of Student's t by degrees of freedom; beyond the last the normal distribution will do.
T95 = {1: 12.71, 2: 4.30, 3: 3.18, 4: 2.78, 5: 2.57, 6: 2.45, 7: 2.36, 8: 2.31, 9: 2.26, 10: 2.23, 12: 2.18, 14: 2.14,
       16: 2.12, 19: 2.09, 24: 2.06, 29: 2.05, 39: 2.02, 59: 2.00}
# Bars: a share of the machine, CPU-seconds per GB with it over without, and what one flow may lose of its speed.
BPF_BAR, CPU_BAR, LOSS_BAR = 0.01, 1.03, 0.05


def interval(values):
    """Mean and half the width of its 95 % confidence interval."""
    if len(values) < 2:
        return values[0], math.inf
    known = [t for df, t in sorted(T95.items()) if df <= len(values) - 1]
    return statistics.mean(values), known[-1] * statistics.stdev(values) / math.sqrt(len(values))


def measure(load, rig, flows, seconds, rate, cpus):
    """CPU per byte of everything, and the share of the machine that the programs take, at `rate` bit/s."""
    command = load.client("send", rig.address, load.PORT, flows, seconds + 1, int(rate), 65536)
    client = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    try:
        client.stdout.readline()
        begin, before = time.monotonic(), rig.programs()
        time.sleep(seconds)
        elapsed, after = time.monotonic() - begin, rig.programs()
        sent = json.loads(client.communicate(timeout=120)[0])
    finally:
        client.kill()
    return {"cpu": sent["busy_seconds"] / (sent["bytes"] * 1e-9), "gbps": sent["bytes"] * 8e-9 / sent["seconds"],
            "bpf": (after[0] - before[0]) * 1e-9 / (elapsed * cpus)}


def compare(loads, rigs, rounds, seconds, rate, counts, cpus, say):
    """Samples by number of flows: pairs of the plain edge and of the other in the same round. A rate of 0: full speed."""
    samples = {flows: [] for flows in counts}
    for n in range(rounds):
        for flows in counts:
            pair = {}
            for kind in ("edge", "acdc") if n % 2 == 0 else ("acdc", "edge"):
                pair[kind] = measure(loads[kind], rigs[kind], flows, seconds, rate, cpus)
            samples[flows].append(pair)
        say(f"# congestion, {'2 Gb/s' if rate else 'full speed'}, round {n + 1} of {rounds}")
    return samples


def report(samples, full):
    """Prints both tables. True if all bars hold, by the upper end of the interval."""
    print("\n## Virtual congestion control at 2 Gb/s\n")
    print("| Flows | Rounds | Gb/s plain, with | added BPF run time of the machine | bar | CPU per byte, with / plain | bar |"
          "\n|---|---|---|---|---|---|---|")
    good = True
    for flows, pairs in samples.items():
        added, added_by = interval([p["acdc"]["bpf"] - p["edge"]["bpf"] for p in pairs])
        ratio, ratio_by = interval([p["acdc"]["cpu"] / p["edge"]["cpu"] for p in pairs])
        rates = [statistics.median(p[kind]["gbps"] for p in pairs) for kind in ("edge", "acdc")]
        holds = (added + added_by <= BPF_BAR, ratio + ratio_by <= CPU_BAR)
        good &= all(holds)
        verdicts = ["yes" if h else "NO" for h in holds]
        print(f"| {flows} | {len(pairs)} | {rates[0]:.2f}, {rates[1]:.2f} | {added:.2%} +- {added_by:.2%} | <= {BPF_BAR:.0%}: "
              f"{verdicts[0]} | {ratio:.3f} +- {ratio_by:.3f} | <= {CPU_BAR}: {verdicts[1]} |")
    for flows, pairs in full.items():
        loss, loss_by = interval([1 - p["acdc"]["gbps"] / p["edge"]["gbps"] for p in pairs])
        rates = [statistics.median(p[kind]["gbps"] for p in pairs) for kind in ("edge", "acdc")]
        holds = loss + loss_by < LOSS_BAR
        good &= holds
        print(f"\nFull speed, {flows} flow, {len(pairs)} rounds: {rates[0]:.1f} and {rates[1]:.1f} Gb/s, throughput lost "
              f"{loss:.1%} +- {loss_by:.1%}; bar < {LOSS_BAR:.0%}: {'yes' if holds else 'NO'}")
    print("\nMean and 95 % confidence interval over the rounds; a bar holds if the interval's upper end is within it. Both hosts'"
          "\nprograms are on this one machine.")
    return good
