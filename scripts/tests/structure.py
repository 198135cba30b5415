#!/usr/bin/env python3
"""How the sources are cut: no circles of imports between files, no file that is too long. And tests clean up: those that failed, too.

Circles are looked for in crates that are done (CLEAN); lengths in all of them, without the tests at a file's end, and in the C of
datapath/, where the median and the 90th percentile are Rust's alone."""

import os
import re
import statistics
import sys

TREE = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..")
ROOT = os.path.join(TREE, "crates")
CLEAN = ["agent", "host"]
LONGEST, MEDIAN, P90 = 600, 200, 350


def production(path):
    with open(path, encoding="utf-8") as file:
        return re.split(r"\n#\[cfg\(test\)\]\n(?:pub\(crate\) )?mod \w+ \{", file.read())[0]


def sources(crate):
    """Module path -> text; the crate's root is ''."""
    root, found = os.path.join(ROOT, crate, "src"), {}
    for directory, _, names in os.walk(root):
        for name in names:
            if name.endswith(".rs") and "test" not in name:
                path = os.path.join(directory, name)
                module = os.path.relpath(path, root)[:-3].replace(os.sep, "::")
                module = re.sub(r"(^|::)(mod|lib)$", "", module)
                found[module] = production(path)
    return found


def leaves(tree, prefix=()):
    """The paths of a `use` tree without white space."""
    head, brace, rest = tree.partition("{")
    path = prefix + tuple(part for part in head.split("::") if part)
    if not brace:
        return [path]
    items, depth, begin, inner = [], 0, 0, rest[:-1]
    for at, letter in enumerate(inner + ","):
        depth += {"{": 1, "}": -1}.get(letter, 0)
        if letter == "," and depth == 0:
            items.append(inner[begin:at])
            begin = at + 1
    return [leaf for item in items if item for leaf in leaves(item, path)]


def imports(module, text, modules):
    """The modules that one names; the crate's root, which names all of them, is none."""
    text = re.sub(r"//.*", "", text)
    uses = re.findall(r"\buse ((?:super|crate|self)\b[^;]*);", text)
    names = re.findall(r"\b((?:super|crate)(?:::\w+)+)", text)
    found = set()
    for path in (leaf for use in uses + names for leaf in leaves(re.sub(r"\s+", "", use.split(" as ")[0]))):
        base, rest = module.split("::"), list(path)
        if rest[0] == "crate":
            base, rest = [], rest[1:]
        while rest and rest[0] in ("super", "self"):
            base, rest = (base[:-1] if rest[0] == "super" else base), rest[1:]
        full = base + rest
        known = ("::".join(full[:length]) for length in range(len(full), 0, -1))
        found.add(next((name for name in known if name in modules), ""))
    return found - {module, ""}


def leaving():
    """Files with tests that name what they make below the directory for temporary files; tempfile's is gone whatever comes."""
    for directory, _, names in os.walk(ROOT):
        for path in (os.path.join(directory, name) for name in sorted(names) if name.endswith(".rs")):
            with open(path, encoding="utf-8") as file:
                text = file.read()
            tests = text if "tests" in os.path.relpath(path, ROOT) else text[len(production(path)):]
            if "env::temp_dir()" in tests:
                yield os.path.relpath(path, TREE)


def circle(graph):
    """One circle, as a list of modules, or None."""
    done, path = set(), []

    def visit(node):
        if node in path:
            return path[path.index(node):] + [node]
        if node in done:
            return None
        path.append(node)
        for other in sorted(graph.get(node, ())):
            if found := visit(other):
                return found
        done.add(path.pop())
        return None

    return next((found for found in map(visit, sorted(graph)) if found), None)


def main():
    faults, lengths = [], []
    assert circle({"a": {"b"}, "b": {"c"}, "c": {"a"}}) == ["a", "b", "c", "a"] and not circle({"a": {"b", "c"}, "b": {"c"}})
    assert leaves("a::{b::{c,d},e}") == [("a", "b", "c"), ("a", "b", "d"), ("a", "e")]
    for crate in sorted(os.listdir(ROOT)):
        modules = sources(crate)
        for module, text in modules.items():
            lines = text.count("\n")
            lengths.append(lines)
            if lines > LONGEST:
                faults.append(f"crates/{crate}: {module or 'lib'} has {lines} lines, {LONGEST} are allowed: split it")
        if crate in CLEAN:
            found = circle({module: imports(module, text, modules) for module, text in modules.items()})
            if found:
                faults.append(f"crates/{crate}: files import one another in a circle: {' -> '.join(found)}")
    for directory, _, names in os.walk(os.path.join(TREE, "datapath")):
        for name in sorted(name for name in names if name.endswith((".h", ".c"))):
            path = os.path.join(directory, name)
            lines = production(path).count("\n")
            if lines > LONGEST:
                faults.append(f"{os.path.relpath(path, TREE)} has {lines} lines, {LONGEST} are allowed: split it")
    faults += [f"{path}: a test that fails leaves what it made: take it from the crate tempfile" for path in leaving()]
    lengths.sort()
    median, p90 = statistics.median(lengths), lengths[len(lengths) * 9 // 10]
    if median >= MEDIAN or p90 >= P90:
        faults.append(f"files have a median of {median} lines and a 90th percentile of {p90}: below {MEDIAN} and {P90} are allowed")
    print(f"structure: {len(lengths)} files, lines median {median:.0f}, 90th percentile {p90}, most {lengths[-1]}")
    for fault in faults:
        print(fault, file=sys.stderr)
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
