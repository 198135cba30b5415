# SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause)
"""The dumbbells, and what each ablation changes, in the words of both sides."""

MSS = 1460
# Octets of a full packet on Ethernet.
FRAME = 1538
QUICK = {"duration_ms": 20, "warmup_ms": 10, "stagger_ms": 1, "samples": 200}
# An ablation that both sides have is listed twice.
DCTCP = [
    ("ns-3, growth as in ours", "ns-3", {"transport": "forgetful-dctcp"}),
    ("ns-3, rate reduction as in ours", "ns-3", {"recovery": "once-prr"}),
    ("ns-3, growth and reduction as in ours", "ns-3", {"transport": "forgetful-dctcp", "recovery": "once-prr"}),
    ("ns-3, cut at once", "ns-3", {"recovery": "classic"}),
    ("ns-3, growth as in ours, cut at once", "ns-3", {"transport": "forgetful-dctcp", "recovery": "classic"}),
    ("ours, cut at once", "ours", {"host.tcp.prr": "false"}),
    ("ns-3, an ACK for two", "ns-3", {"delayed-ack": 2}),
    ("ours, an ACK for two", "ours", {"host.tcp.delayed_ack": '"40ms"', "host.tcp.quickack": "0"}),
    ("ns-3, device queue of 100", "ns-3", {"device": 100}),
    ("ns-3, marked at dequeue", "ns-3", {"mark-at-dequeue": 1}),
    ("ours, interrupts 20 us late", "ours", {"host.rx_coalesce": '"20us"'}),
    ("ours, TSO and GRO", "ours", {"host.tso": "true", "host.gro": '"stock"'}),
    (
        "ours, hosts as by default",
        "ours",
        {
            "host.tso": "true",
            "host.gro": '"stock"',
            "host.rx_coalesce": '"20us"',
            "host.tcp.delayed_ack": '"40ms"',
            "host.tcp.tsq_limit": '"128KiB"',
            "host.tcp.nagle": "true",
        },
    ),
]
RENO = [
    ("ns-3, window by bytes (TcpLinuxReno)", "ns-3", {"transport": "linux-reno"}),
    ("ns-3, an ACK for two", "ns-3", {"delayed-ack": 2}),
    ("ours, an ACK for two", "ours", {"host.tcp.delayed_ack": '"40ms"', "host.tcp.quickack": "0"}),
    ("ns-3, an ACK for two, TcpLinuxReno", "ns-3", {"delayed-ack": 2, "transport": "linux-reno"}),
    ("ns-3, no SACK", "ns-3", {"sack": 0}),
    ("ours, no SACK", "ours", {"host.tcp.recovery": '"newreno"'}),
]


def case(what, ablations, **settings):
    return {"what": what, "ablations": ablations, "flows": 8, "host_delay_us": 10, "delay_us": 30, "samples": 4000, **settings}


# 10 Gbps and 100 us, and 1 Gbps and 400 us.
FAST = {"rate_gbps": 10, "buffer": 1000, "duration_ms": 150, "warmup_ms": 50, "stagger_ms": 10}
SLOW = {"host_delay_us": 40, "delay_us": 120, "rate_gbps": 1, "duration_ms": 1500, "warmup_ms": 500, "stagger_ms": 100}
CASES = {
    "dctcp-8": case("8 DCTCP flows, 10 Gbps, 100 us, K of 65 packets", DCTCP, scheme="dctcp", mark=65, **FAST),
    "dctcp-2": case("2 DCTCP flows, 10 Gbps, 100 us, K of 65 packets", [], scheme="dctcp", flows=2, mark=65, **FAST),
    "dctcp-1g": case("8 DCTCP flows, 1 Gbps, 400 us, K of 20 packets", [], scheme="dctcp", mark=20, buffer=250, **SLOW),
    "newreno-8": case(
        "8 New Reno flows, 1 Gbps, 400 us, 100 packets of buffer", RENO, scheme="newreno", mark=0, buffer=100, **SLOW
    ),
    "newreno-2": case(
        "2 New Reno flows, 1 Gbps, 400 us, 100 packets of buffer", [], scheme="newreno", flows=2, mark=0, buffer=100, **SLOW
    ),
}


def theirs(case, changes):
    """The options of ns-3's program."""
    settings = {
        "transport": case["scheme"],
        "flows": case["flows"],
        "rate-gbps": case["rate_gbps"],
        "host-rate-gbps": 4 * case["rate_gbps"],
        "host-delay-us": case["host_delay_us"],
        "delay-us": case["delay_us"],
        "mark": case["mark"],
        "buffer": case["buffer"],
        "duration-ms": case["duration_ms"],
        "warmup-ms": case["warmup_ms"],
        "stagger-ms": case["stagger_ms"],
    }
    return [f"--{key}={value}" for key, value in (settings | changes).items()]


def ours(case, changes):
    """The scheme, and what of dumbbell.toml is set."""
    flows = case["flows"]
    settings = {
        "topology.pairs": flows,
        "topology.fabric_rate": f'"{case["rate_gbps"]}Gbps"',
        "topology.rate": f'"{4 * case["rate_gbps"]}Gbps"',
        "topology.delay": f'"{case["host_delay_us"]}us"',
        "topology.fabric_delay": f'"{case["delay_us"]}us"',
        "switch.buffer": f'"{case["buffer"] * FRAME}B"',
        "workload.bulk.pairs": [[i, flows + i] for i in range(flows)],
        "workload.bulk.stagger": f'"{case["stagger_ms"]}ms"',
        "duration": f'"{case["duration_ms"]}ms"',
        "warmup": f'"{case["warmup_ms"]}ms"',
        "record.sample_every": f'"{(case["duration_ms"] - case["warmup_ms"]) * 1000 // case["samples"]}us"',
    }
    if case["mark"]:
        # Ours marks above K, ns-3's RED from K on: what arrives behind `mark` packets is marked by both.
        settings["scheme.dctcp.switch.ecn.k"] = f'"{case["mark"] * FRAME - 1}B"'
    return case["scheme"], [f"{key}={value}" for key, value in (settings | changes).items()]
