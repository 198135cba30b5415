#!/usr/bin/env python3
"""Follows docs/your-scheme.md literally in a copy of the source tree: writes its files, applies its changes, runs its commands.

Commands of `sh privileged` blocks run as root only; without, they are skipped with a line that says so. `--no-run` stops after
the files. The page has two schemes, and for each a table of lines, which is compared with what was really added."""

import argparse
import os
import re
import shutil
import subprocess
import sys
import tempfile

ROOT = os.path.realpath(os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", ".."))
PAGE = "docs/your-scheme.md"
# The second scheme begins here.
SECOND = "\n## 8. "
FENCE = re.compile(r"^```(\w+)([^\n]*)\n(.*?)^```$", re.M | re.S)


def fail(why):
    sys.exit(f"{PAGE}: {why}")


def copy_tree(to):
    """The files of the tree as they are now, and what was built of them, without copying that."""
    listed = subprocess.run(
        ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"], cwd=ROOT, check=True, stdout=subprocess.PIPE
    )
    for name in listed.stdout.decode().split("\0"):
        source, target = os.path.join(ROOT, name), os.path.join(to, name)
        if name and os.path.isfile(source):
            os.makedirs(os.path.dirname(target), exist_ok=True)
            shutil.copy2(source, target)
    built = os.path.join(os.environ.get("CARGO_TARGET_DIR", os.path.join(ROOT, "target")), "debug")
    for part in ("deps", "build", ".fingerprint"):
        if os.path.isdir(os.path.join(built, part)):
            os.makedirs(os.path.join(to, "target", "debug"), exist_ok=True)
            # Cargo replaces what it builds, but writes over what it knows of it: links would tell the tree that it is up to date.
            how = "-al" if part == "deps" else "-a"
            subprocess.run(["cp", how, os.path.join(built, part), os.path.join(to, "target", "debug", part)], check=True)


def follow(text, tree):
    """Writes and changes what the page says. Returns the lines added, by file, and the commands: text, privileged."""
    added, commands = {}, []
    for language, info, body in FENCE.findall(text):
        made = re.search(r"file=(\S+)", info)
        if made:
            path = os.path.join(tree, made[1])
            if os.path.exists(path):
                fail(f"{made[1]} is there already")
            with open(path, "w", encoding="utf-8") as file:
                file.write(body)
            added[made[1]] = body.count("\n")
        elif language == "diff":
            name = re.search(r"^\+\+\+ b/(\S+)$", body, re.M)[1]
            done = subprocess.run(["git", "apply", "--recount", "-"], cwd=tree, input=body, text=True, capture_output=True, check=False)
            if done.returncode:
                fail(f"the change of {name} does not apply: {done.stderr.strip()}")
            added[name] = added.get(name, 0) + len(re.findall(r"^\+(?!\+\+ )", body, re.M))
        elif language == "sh":
            commands += [(line, "privileged" in info) for line in body.splitlines() if line]
    return added, commands


def check_table(text, added):
    """A scheme's table, and the sentence below it, against the lines that were added. Returns what the sentence says."""
    rows = re.findall(r"^\| (`[^|]*`) \| (\d+) \| ([^|]*) \|$", text, re.M)
    told, counted = set(), [0, 0]
    for names, lines, _ in rows:
        files = re.findall(r"`([^`]*)`", names)
        told.update(files)
        real = sum(added.get(name, 0) for name in files)
        if int(lines) != real:
            fail(f"the table says that {', '.join(files)} gets {lines} lines; it is {real}")
        # Not counted: the algorithm, its scenario, its docs page.
        algorithm = any(name.startswith("datapath/") and name != "datapath/balance.h" for name in files)
        if not algorithm and not any(name.startswith(("examples/", "docs/")) for name in files):
            counted = [counted[0] + len(files), counted[1] + real]
    if told != set(added):
        fail(f"the table names {sorted(told)}, the page changes {sorted(added)}")
    cost = f"{['no', 'one', 'two', 'three', 'four', 'five'][counted[0]]} files and {counted[1]} lines"
    if cost not in text:
        fail(f"besides algorithm, scenario and docs there are {counted[0]} files and {counted[1]} lines; the page says otherwise")
    if counted[0] > 5 or counted[1] > 150:
        fail(f"a scheme takes {cost}; 5 and 150 are promised")
    return cost


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--no-run", action="store_true", help="only files and changes")
    options = parser.parse_args()
    with open(os.path.join(ROOT, PAGE), encoding="utf-8") as file:
        text = file.read()
    with open(os.path.join(ROOT, "README.md"), encoding="utf-8") as file:
        readme = re.sub(r"\s+", " ", file.read())
    tree = tempfile.mkdtemp(prefix="tutorial-", dir=os.environ.get("CARGO_TARGET_DIR", os.path.join(ROOT, "target")))
    try:
        copy_tree(tree)
        # In a directory below another repository `git apply` would take paths for that one's.
        subprocess.run(["git", "init", "-q"], cwd=tree, check=True)
        parts = text.partition(SECOND)
        lines, commands, costs = 0, [], []
        for part in (parts[0], parts[2]):
            added, wanted = follow(part, tree)
            costs.append(check_table(part, added))
            lines += sum(added.values())
            commands += wanted
        if costs[0] not in readme:
            fail(f"README.md does not say {costs[0]!r}")
        environment = {name: value for name, value in os.environ.items() if name != "CARGO_TARGET_DIR"}
        environment["CARGO_TERM_PROGRESS_WHEN"] = "never"
        skipped = 0
        for command, privileged in [] if options.no_run else commands:
            if privileged and os.geteuid() != 0:
                skipped += 1
                continue
            print(f"$ {command}", flush=True)
            for _ in range(3):
                done = subprocess.run(command, shell=True, cwd=tree, env=environment, text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, check=False)
                busy = done.returncode == 1 and " lab run " in command and ": NOT VALID: " in done.stdout
                if not busy:
                    break
                shutil.rmtree(os.path.join(tree, "target", "growcell-lab"))  # it has to have run: there are results
            if busy:
                # Three times the lab has run, and said that this machine had too much else to do.
                print(f"skipped: {PAGE}: the lab's results, for want of time on this machine")
            elif done.returncode:
                fail(f"`{command}` ends with status {done.returncode}:\n{done.stdout[-6000:]}")
        if skipped:
            print(f"skipped: {PAGE}: needs root ({skipped} commands)")
        report = os.path.join(tree, "target", "growcell", "report.html")
        if not options.no_run and "growcell" not in open(report, encoding="utf-8").read():
            fail("the report does not name the scheme")
        print(f"{PAGE}: followed; {lines} lines. Besides the algorithm, a scheme takes {costs[0]}, one with states of paths {costs[1]}")
    finally:
        shutil.rmtree(tree)


if __name__ == "__main__":
    main()
