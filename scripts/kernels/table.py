#!/usr/bin/env python3
"""table.py DIRECTORY: what each kernel passed, from the results in it, as text; the same as JSON in DIRECTORY/table.json.

Exit status 1 if a test failed, a group passed none, or a machine or a group ended before all its tests did.
"""
import json
import os
import re
import sys


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
        if name.endswith((".console", ".json", ".txt")):
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
            verdicts = [verdict for verdict, _ in found["tests"].values()]
            if "passed" not in verdicts:
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
    text = "\n".join(lines)
    print(text)
    with open(os.path.join(directory, "table.txt"), "w") as file:
        file.write(text + "\n")
    with open(os.path.join(directory, "table.json"), "w") as file:
        json.dump({"kernels": matrix, "failed": bad}, file, indent=1)
    return 1 if bad else 0


sys.exit(main())
