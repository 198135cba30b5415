"""What one more system costs: the edge plain and with it, in alternating rounds (bench/edge/run --beside, --congestion)."""

import json
import math
import statistics
import subprocess
import time

# Two-sided 95 % points of Student's t by degrees of freedom; beyond the last the normal distribution will do.
T95 = {1: 12.71, 2: 4.30, 3: 3.18, 4: 2.78, 5: 2.57, 6: 2.45, 7: 2.36, 8: 2.31, 9: 2.26, 10: 2.23, 12: 2.18, 14: 2.14,
       16: 2.12, 19: 2.09, 24: 2.06, 29: 2.05, 39: 2.02, 59: 2.00}
# By the rig that is held against the plain edge: its name, and bars. Those are what programs may add of the machine at 2 Gb/s, CPU-seconds per
# GB with it over without, and what connections at full speed may lose. None: reported.
SYSTEMS = {
    "acdc": ("Virtual congestion control", 0.01, 1.03, 0.05),
    "clove": ("Clove instead of flowcells", None, 1.03, 0.05),
    "shares": ("Shares", None, 1.10, 0.02),
}


def interval(values):
    """Mean and half the width of its 95 % confidence interval."""
    if len(values) < 2:
        return values[0], math.inf
    known = [t for df, t in sorted(T95.items()) if df <= len(values) - 1]
    return statistics.mean(values), known[-1] * statistics.stdev(values) / math.sqrt(len(values))


def median_interval(values):
    """Median, and the ends of its 95 % confidence interval by ranks, whatever the distribution; without ends for fewer than six values."""
    ordered, n = sorted(values), len(values)
    least, below = 0, 0.0
    for rank in range(n // 2):
        below += math.comb(n, rank) / 2**n
        if 2 * below > 0.05:
            break
        least = rank + 1
    if not least:
        return statistics.median(ordered), -math.inf, math.inf
    return statistics.median(ordered), ordered[least - 1], ordered[n - least]


def measure(load, rig, flows, seconds, rate, cpus):
    """CPU per byte of everything, and the share of the machine that the programs take, at `rate` bit/s."""
    command = load.client("send", rig.address, load.PORT, flows, seconds + 1, int(rate), 65536)
    client = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    try:
        client.stdout.readline()
        begin, before = time.monotonic(), rig.programs_by_host()
        time.sleep(seconds)
        elapsed, after = time.monotonic() - begin, rig.programs_by_host()
        sent = json.loads(client.communicate(timeout=120)[0])
    finally:
        client.kill()
    (sender, sent_runs), (receiver, received_runs) = ((new[0] - old[0], new[1] - old[1]) for new, old in zip(after, before))
    share = lambda ns: ns * 1e-9 / (elapsed * cpus)  # noqa: E731
    return {"cpu": sent["busy_seconds"] / (sent["bytes"] * 1e-9), "gbps": sent["bytes"] * 8e-9 / sent["seconds"],
            "bpf": share(sender + receiver), "sender_share": share(sender), "receiver_share": share(receiver),
            "ns_per_run": (sender + receiver) / max(sent_runs + received_runs, 1)}


def compare(loads, rigs, kinds, rounds, seconds, rate, counts, cpus, say):
    """Samples by number of flows: the kinds of edge by name, all in the same round. A rate of 0: full speed."""
    samples = {flows: [] for flows in counts}
    for n in range(rounds):
        for flows in counts:
            one, turn = {}, n % len(kinds)
            for kind in kinds[turn:] + kinds[:turn]:
                one[kind] = measure(loads[kind], rigs[kind], flows, seconds, rate, cpus)
            samples[flows].append(one)
        say(f"# {', '.join(kinds)}, {'2 Gb/s' if rate else 'full speed'}, round {n + 1} of {rounds}")
    return samples


def by_name(samples):
    """Values of each round by name, as checks of results/catalogue have them."""
    return [{f"{kind}.{key}[flows={flows}]": value for flows, all_rounds in samples.items() for kind, found in all_rounds[n].items()
             for key, value in found.items()} for n in range(len(next(iter(samples.values()))))]


def judged(median, low, high, bar, text="{:.3f}"):
    """Two cells of a table: median with interval, and the bar with its verdict by the upper end. And whether it holds."""
    holds = bar is None or high <= bar
    verdict = "-" if bar is None else f"<= {text.format(bar)}: {'yes' if holds else 'NO'}"
    interval_of = f"({text.format(low)} to {text.format(high)})" if math.isfinite(low) else "(no interval)"
    return f"{text.format(median)} {interval_of} | {verdict}", holds


def report(other, samples, full):
    """Prints both tables. True if all bars hold, by the upper end of the interval."""
    name, bpf_bar, cpu_bar, loss_bar = SYSTEMS[other]
    good = True
    for title, part in (("at 2 Gb/s", samples), ("at full speed", full)):
        print(f"\n## {name} {title}\n")
        print("| Flows | Rounds | Gb/s plain, with | added BPF run time of the machine | bar | CPU per byte, with / plain | bar | throughput lost | bar |"
              "\n|---|---|---|---|---|---|---|---|---|")
        for flows, pairs in part.items():
            rates = [statistics.median(p[kind]["gbps"] for p in pairs) for kind in ("edge", other)]
            cells = []
            # Programs' time is counted at 2 Gb/s alone, and what is lost at full speed.
            paced = part is samples
            # He 2017 compares CPU at 2 Gb/s.
            cpu_most = cpu_bar if paced or other != "acdc" else None
            for values, bar, text in (
                    ([p[other]["bpf"] - p["edge"]["bpf"] for p in pairs] if paced else None, bpf_bar, "{:.2%}"),
                    ([p[other]["cpu"] / p["edge"]["cpu"] for p in pairs], cpu_most, "{:.3f}"),
                    (None if paced else [1 - p[other]["gbps"] / p["edge"]["gbps"] for p in pairs], loss_bar, "{:.1%}")):
                cell, holds = judged(*median_interval(values), bar, text) if values else ("- | -", True)
                cells.append(cell)
                good &= holds
            print(f"| {flows} | {len(pairs)} | {rates[0]:.2f}, {rates[1]:.2f} | {' | '.join(cells)} |")
    print("\nMedian and 95 % confidence interval over the rounds; a bar holds if the interval's upper end is within it. Both hosts'"
          "\nprograms are on this one machine.")
    return good
