"""What bench/limits/run holds its samples against. README.md has the bars."""

import math
import statistics

from beside import interval

SEGMENT = 65536
# What two packets take on the wire, bits.
TWO_PACKETS = 2 * 1514 * 8
# Points of the machine that sparse flows first may take more than HTB at 2 Gb/s, by the number of flows.
MORE_CPU = {1: 0.02, 8: 0.08}


def median(samples, key):
    values = [s[key] for s in samples if s.get(key) is not None]
    return statistics.median(values) if values else None


def delay(samples, key="p50"):
    """Queueing delay, us: what the round trip takes longer than on an idle limiter."""
    return statistics.median(s[key] - s["idle"] for s in samples)


def by_round(samples, other, what):
    return [what(a, b) for a, b in zip(samples, other)]


def ratio(key):
    return lambda a, b: a[key] / b[key] if b[key] else math.inf


def of_laws(at, samples, htb):
    """Bars of spring and dem, which act on all that a limit holds: what, values by round, bar, and whether their median holds it."""
    topology, rate, flows, _ = at
    most = max(0.3, 2 * SEGMENT * 8e-6 / rate)
    yield "queueing delay p50, ms", [(s["p50"] - s["idle"]) / 1e3 for s in samples], "<=", most
    plain = delay(htb) / 1e3
    shorter = by_round(htb, samples, ratio("p50"))
    if topology == "routed":
        yield "RTT of htb over it", shorter, ">=", 10
    elif plain > 2.5:
        yield "RTT of htb over it", shorter, ">=", 5
    yield "throughput over htb", by_round(samples, htb, ratio("gbps")), ">=", 0.97
    yield "CV of 100 ms throughput", [s["cv"] for s in samples], "<", 0.05
    if flows == 8:
        yield "Jain", [s["jain"] for s in samples], ">=", 0.95
    if rate == 2:
        yield "CPU of the machine added to htb", by_round(samples, htb, lambda a, b: a["cpu"] - b["cpu"]), "<", 0.01
        yield "share of the machine that the limits' programs take", [s["bpf"] for s in samples], "<", 0.01


def of_first(at, samples, htb):
    """Bars of the default, sparse flows first, in the same form."""
    _, rate, flows, _ = at
    most = 0.3 + TWO_PACKETS * 1e-6 / rate
    yield "RTT p50, ms", [s["p50"] / 1e3 for s in samples], "<=", most
    yield "RTT p99, ms", [s["p99"] / 1e3 for s in samples], "<=", 3 * most
    yield "throughput over htb", by_round(samples, htb, ratio("gbps")), ">=", 0.98
    if flows > 1:
        yield "Jain", [s["jain"] for s in samples], ">=", 0.95
    if rate == 2 and flows in MORE_CPU:
        yield "CPU of the machine added to htb", by_round(samples, htb, lambda a, b: a["cpu"] - b["cpu"]), "<=", MORE_CPU[flows]


def holds(value, sign, bar):
    return {"<=": value <= bar, "<": value < bar, ">=": value >= bar}[sign]


def plain(cell, scheme):
    """What a scheme is held against: HTB with the same guests, and where the agent puts it, if that was measured."""
    congestion = "".join(scheme.partition("/")[1:])
    names = [name + of for of in (congestion, "") for name in (("agent", "htb") if scheme.startswith(("first", "held")) else ("htb",))]
    return next((cell[name] for name in names if name in cell), None)


def verdicts(found):
    """Topology, rate, flows, scheme, what, median, mean and half of its 95% interval (None with one round), bar, whether it holds."""
    out = []
    for (topology, rate, flows), cell in found.items():
        for scheme, samples in cell.items():
            law = scheme.partition("/")[0].partition("@")[0]
            bars, htb = {"spring": of_laws, "dem": of_laws, "first": of_first, "held": of_first}.get(law), plain(cell, scheme)
            if not bars or not htb:
                continue
            at = (topology, rate, flows, scheme)
            for what, values, sign, bar in bars(at, samples, htb):
                mean, half = interval(values)
                middle = statistics.median(values)
                out.append((*at, what, middle, mean, half if len(values) > 1 else None, f"{sign} {bar:.2f}", holds(middle, sign, bar)))
            if bars is of_first:
                drops = max(s["drops"] for s in samples)
                out.append((*at, "segments dropped, most of a round", drops, drops, None, "0", drops == 0))
    return out
