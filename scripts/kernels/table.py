#!/usr/bin/env python3
"""table.py DIRECTORY: what each kernel passed, from the results in it, as text; the same as JSON in DIRECTORY/table.json. Then, as
Markdown that docs/kernels.md can carry, which capability each kernel has; that alone in DIRECTORY/capabilities.md.

Exit status 1 if a test failed, a group passed none, or a machine or a group ended before all its tests did.
"""
import json
import os
import re
import sys


# What a kernel can do if these tests pass: groups of scripts/kernels/test, `group:words` those of a group's tests whose names begin so.
CAPABILITIES = [
    ("Programs load, built by each clang", ["kernels"]),
    ("Overlay: IPv4, IPv6, TCP, UDP, guests' tunnels", ["guests", "conformance", "traffic", "sums", "agent:packets", "agent:pmtu"]),
    ("Uplinks on a bridge, a bond, a VLAN", ["agent:stacked"]),
    ("Guests behind netkit pairs", ["agent:netkit"]),
    ("Beside others' programs and filters", ["chain", "agent:beside", "agent:instead"]),
    ("Tenants are safe from one another", ["injection", "crossing", "hostile", "recycled", "agent:learning", "agent:reload"]),
    ("Quotas of the tables", ["quotas", "agent:quotas"]),
    ("Version 2 of the wire, and edges of version 1", ["wire", "versions"]),
    ("Flowcells and the receiver", ["receiver", "agent:receiver"]),
    ("Virtual congestion control", ["congestion", "timers", "agent:congestion"]),
    ("Rate limits and their laws", ["limits", "agent:limits", "agent:alone"]),
    ("Shares of the uplink (`[tenants]`)", ["tenants", "agent:tenants", "agent:united"]),
    ("Uplinks without a tunnel", ["plain", "agent:plain"]),
    ("Discovered paths, `clove`", ["probes", "paths", "agent:far", "agent:uplinks"]),
    ("FastLane", ["fastlane", "told", "agent:fastlane", "agent:reports"]),
    ("The agent, all its tests", ["agent"]),
    ("The kernel lab", ["kernel_lab", "ports"]),
    ("DCTCP guests in the lab", ["dctcp"]),
]
# Names of tests that are none.
HELPERS = ("peer_process",)


def verdicts(kernel, selectors):
    """Verdict and reason of each test that they select; None for a group that was not run."""
    found = []
    for selector in selectors:
        wanted, _, prefix = selector.partition(":")
        chosen = []
        for group, ran in kernel["groups"].items():
            name, selected, _ = group.partition(":")
            if name != wanted:
                continue
            chosen += [test for name, test in ran["tests"].items()
                       if name not in HELPERS and test[0] != "ignored" and (not prefix or name.startswith(prefix + "::"))]
            if selected or ran["ended"] is None:
                chosen.append(None)  # `group:words` is a part of it, and so is what a machine ran that ended early
        found += chosen or [None]
    return found


def cell(found):
    """One capability of one kernel, in words that claim no more than what was run."""
    ran = [test for test in found if test]
    if not ran:
        return "not run"
    counts = {}
    for verdict, _ in ran:
        counts[verdict] = counts.get(verdict, 0) + 1
    passed, skipped = counts.get("passed", 0), counts.get("skipped", 0)
    bad = len(ran) - passed - skipped
    if bad:
        return f"**NO**: {bad} of {len(ran)} failed"
    since = [found[0] for found in (re.search(r"\bLinux \d+\.\d+", why) for verdict, why in ran if verdict == "skipped") if found]
    if not passed and since:
        return f"no ({max(since, key=lambda release: [int(part) for part in release.split()[1].split('.')])})"
    if not passed:
        return f"not run: {skipped} skipped"
    words = [f"{passed} of {len(ran)}"]
    if skipped:
        words.append(f"{skipped} skipped")
    if None in found:
        words.append("not all run")
    return ("yes: " if passed and not skipped and None not in found else "in part: ") + ", ".join(words)


def capabilities(matrix):
    """Lines of Markdown: capability x kernel."""
    lines = ["| Capability | " + " | ".join(matrix) + " |", "|---|" + "---|" * len(matrix)]
    for capability, selectors in CAPABILITIES:
        cells = [cell(verdicts(kernel, selectors)) for kernel in matrix.values()]
        lines.append(f"| {capability} | " + " | ".join(cells) + " |")
    return lines


def read(path):
    """The kernel, and for each group its tests: name -> (verdict, reason)."""
    kernel, groups, complaints = "?", {}, []
    group = test = None
    over = False
    with open(path, errors="replace") as file:
        for line in file:
            line = line.rstrip("\n")
            if line.startswith("== "):
                words = line.split()
                if words[1] == "kernel":
                    kernel = words[2]
                elif words[1] == "begin":
                    group = groups.setdefault(words[2], {"tests": {}, "seconds": None, "ended": None})
                    test = None
                elif words[1] == "end":
                    group["ended"], group["seconds"] = int(words[3]), int(words[4])
                    group = None
                elif words[1] == "complaint":
                    complaints.append(line[len("== complaint "):])
                elif words[1] == "over":
                    over = True
                continue
            if group is None:
                continue
            line = line[2:]
            found = re.match(r"test (\S+) \.\.\. ?(.*)", line)
            if found:
                test, line = found[1], found[2]
                group["tests"][test] = ["unfinished", ""]
            if test is None:
                continue
            entry = group["tests"].get(test)
            skipped = re.search(r"skipped: (.*)", line)
            verdict = re.search(r"(?:^|\s)(ok|FAILED|ignored)\b.*$", line)
            if skipped and entry:
                entry[1] = skipped[1]
            if verdict and entry and entry[0] == "unfinished":
                entry[0] = {"ok": "passed", "FAILED": "failed", "ignored": "ignored"}[verdict[1]]
    # With --show-output, what a test printed stands behind a line with its name.
    section = panicked = None
    with open(path, errors="replace") as file:
        for line in file:
            line = line.rstrip("\n")
            head = re.match(r"\| ---- (\S+) std(?:out|err) ----", line)
            if head:
                section = head[1]
            elif section:
                text = line[2:]
                for group in groups.values():
                    entry = group["tests"].get(section)
                    if entry and text.startswith("skipped: ") and not entry[1]:
                        entry[1] = text[len("skipped: "):]
                    # What a test says stands below the place where it does.
                    if entry and entry is panicked and not entry[1]:
                        entry[1] = text
                    if entry and "panicked at" in text:
                        panicked = entry
    for group in groups.values():
        for entry in group["tests"].values():
            if entry[0] == "passed" and entry[1]:
                entry[0] = "skipped"
            if entry[0] == "unfinished":
                entry[1] = entry[1] or "did not end in time"
    return kernel, groups, complaints, over


def main():
    directory = sys.argv[1]
    matrix, bad = {}, []
    for name in sorted(os.listdir(directory)):
        if name.endswith((".console", ".json", ".txt", ".md")):
            continue
        kernel, groups, complaints, over = read(os.path.join(directory, name))
        here = matrix.setdefault(kernel, {"groups": {}, "complaints": []})
        here["complaints"] += complaints
        here["groups"].update(groups)
        if not over:
            bad.append(f"{name}: the machine ended early")
    order = []
    for kernel in matrix.values():
        order += [group for group in kernel["groups"] if group not in order]
    lines = ["| Tests | " + " | ".join(matrix) + " |", "|---|" + "---|" * len(matrix)]
    for group in order:
        cells = []
        for kernel in matrix.values():
            found = kernel["groups"].get(group)
            if found is None:
                cells.append("not run")
                continue
            tests = {name: test for name, test in found["tests"].items() if name != "peer_process"}
            counts = {}
            for verdict, _ in tests.values():
                counts[verdict] = counts.get(verdict, 0) + 1
            cells.append(", ".join(f"{counts[v]} {v}" for v in ("passed", "skipped", "failed", "unfinished") if v in counts)
                         or "nothing ran")
        lines.append(f"| {group} | " + " | ".join(cells) + " |")
    for name, kernel in matrix.items():
        for group, found in kernel["groups"].items():
            tests = [test for name, test in found["tests"].items() if name != "peer_process" and test[0] != "ignored"]
            verdicts = [verdict for verdict, _ in tests]
            # What a kernel is too old for is no fault of its own; the lines above say so.
            old = tests and all(verdict == "skipped" and re.search(r"\bLinux \d", why) for verdict, why in tests)
            if "passed" not in verdicts and not old:
                bad.append(f"{name} {group}: no test ran and passed")
            # A test that failed is named below; anything else that ends a group is not.
            if found["ended"] != 0 and "failed" not in verdicts and "unfinished" not in verdicts:
                bad.append(f"{name} {group}: ended with status {found['ended']}")
            for test, (verdict, why) in sorted(found["tests"].items()):
                if verdict in ("failed", "unfinished"):
                    bad.append(f"{name} {group} {test}: {verdict}: {why}")
                elif verdict == "skipped":
                    lines.append(f"skipped: {name} {group} {test}: {why}")
        bad += [f"{name}: the kernel says: {complaint}" for complaint in kernel["complaints"]]
    lines += [f"FAILED: {line}" for line in bad]
    text, markdown = "\n".join(lines), "\n".join(capabilities(matrix))
    print(text)
    print(f"\n{markdown}")
    with open(os.path.join(directory, "capabilities.md"), "w") as file:
        file.write(markdown + "\n")
    with open(os.path.join(directory, "table.txt"), "w") as file:
        file.write(text + "\n")
    with open(os.path.join(directory, "table.json"), "w") as file:
        json.dump({"kernels": matrix, "failed": bad}, file, indent=1)
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
