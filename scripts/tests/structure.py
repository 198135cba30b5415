#!/usr/bin/env python3
"""How the sources are cut: no circles of imports, no file that is too long, an agent without the simulator. And tests clean up, those
that failed, too; and what made them fail once is tried again.

A module and all that is below it are one unit: a parent uses its children, and they it. Circles are looked for among the units of one
parent, at each level, and through what modules re-export; modules for tests are left out. In agent and host each file is a unit, too.
Lengths are counted in all crates, without the tests at a file's end, and in the C of datapath/."""

import os
import re
import statistics
import sys
import tomllib

TREE = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..")
ROOT = os.path.join(TREE, "crates")
# Beside crates/*.
OTHERS = ["conformance", os.path.join("fuzz", "drivers")]
LONGEST, MEDIAN, P90 = 600, 200, 350
# Crates without circles among their files.
BY_FILE = {"crates/agent", "crates/host"}
# What no crate may need, directly or by others, but for its tests.
WITHOUT = {"agent": {"fabric", "host", "sim"}}


def production(path):
    with open(path, encoding="utf-8") as file:
        return re.split(r"\n#\[cfg\(test\)\]\n(?:#\[.*\]\n)*(?:pub(?:\(\w+\))? )?mod \w+ \{", file.read())[0]


def sources(crate):
    """Module path -> text; the crate's root is ''."""
    root, found = os.path.join(TREE, crate, "src"), {}
    for directory, _, names in os.walk(root):
        for name in names:
            if name.endswith(".rs") and "test" not in name:
                path = os.path.join(directory, name)
                module = os.path.relpath(path, root)[:-3].replace(os.sep, "::")
                module = re.sub(r"(^|::)(mod|lib)$", "", module)
                found[module] = production(path)
    return found


def without_tests(modules):
    """Those that are not compiled for tests alone."""
    tests = []
    for module, text in modules.items():
        for name in re.findall(r"#\[cfg\(test\)\]\n(?:pub(?:\(\w+\))? )?mod (\w+);", text):
            tests.append(f"{module}::{name}" if module else name)
    return {module: text for module, text in modules.items() if not any((module + "::").startswith(test + "::") for test in tests)}


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


class Crate:
    """Which module of a crate imports which. Modules are named by their paths; the root's is ''."""

    def __init__(self, modules):
        self.modules = modules
        self.paths, self.names = {}, {}
        for module, text in modules.items():
            self.paths[module], self.names[module] = self.read(module, text)
        self.graph = {module: {self.find(path) for path in paths} - {module} for module, paths in self.paths.items()}

    def absolute(self, module, path):
        """A path from the crate's root; None if it leads out of the crate."""
        base, rest = [part for part in module.split("::") if part], list(path)
        if rest[0] == "crate":
            return rest[1:]
        if rest[0] in ("self", "super"):
            while rest and rest[0] in ("self", "super"):
                base, rest = (base[:-1] if rest[0] == "super" else base), rest[1:]
            return base + rest
        return base + rest if "::".join(base + rest[:1]) in self.modules else None

    def read(self, module, text):
        """The paths that a module's text names, and what the names are of that its `use` brings."""
        text, paths, names = re.sub(r"//.*", "", text), [], {}
        for use in re.findall(r"\buse ([^;]*);", text):
            for leaf in leaves(re.sub(r"\s+", "", re.sub(r"\s+as\s+", "@", use))):
                leaf, alias = leaf[:-1] + (leaf[-1].split("@")[0],), leaf[-1].split("@")[-1]
                if path := self.absolute(module, leaf):
                    paths.append(path)
                    names[alias] = path
        for name in re.findall(r"(?<![\w:])(\w+(?:::\w+)+)", re.sub(r"\buse [^;]*;", "", text)):
            if path := self.absolute(module, name.split("::")):
                paths.append(path)
        return paths, names

    def find(self, path, depth=0):
        """The module in which that is which a path names: through what others re-export."""
        here = 0
        while here < len(path) and "::".join(path[:here + 1]) in self.modules:
            here += 1
        module = "::".join(path[:here])
        exported = self.names.get(module, {}).get(path[here]) if here < len(path) else None
        return self.find(exported + path[here + 1:], depth + 1) if exported and depth < 8 else module

    def circle(self):
        """A circle among the children of one module, each with all that is below it; as "one -> other (file -> file)"."""
        for parent in sorted({""} | set(self.modules)):
            depth, graph, why = len([part for part in parent.split("::") if part]), {}, {}
            below = [module for module in self.modules if module and (not parent or module.startswith(parent + "::"))]
            for module in below:
                unit = "::".join(module.split("::")[:depth + 1])
                for other in self.graph[module].intersection(below):
                    to = "::".join(other.split("::")[:depth + 1])
                    if to != unit:
                        graph.setdefault(unit, set()).add(to)
                        why[unit, to] = f"{unit} -> {to} ({module} names {other})"
            if found := circle(graph):
                return ", ".join(why[pair] for pair in zip(found, found[1:]))
        return None

    def circle_of_files(self):
        """The same among files."""
        found = circle({module: {other for other in others if other in self.modules} for module, others in self.graph.items()})
        return found and " -> ".join(module or "lib" for module in found)


def dependencies(manifest):
    """The packages that a package needs, but for its tests and its build."""
    for table in [manifest, *manifest.get("target", {}).values()]:
        for name, value in table.get("dependencies", {}).items():
            yield value.get("package", name) if isinstance(value, dict) else name


def way(graph, start, unwanted):
    """How `start` comes to need one of `unwanted`, as a list of packages, or None."""
    ways, seen = [[start]], {start}
    while ways:
        path = ways.pop(0)
        if path[-1] in unwanted:
            return path
        for other in sorted(graph.get(path[-1], set()) - seen):
            seen.add(other)
            ways.append(path + [other])
    return None


def needless():
    """Crates that need what they must do without."""
    graph = {}
    for crate in [os.path.join("crates", crate) for crate in sorted(os.listdir(ROOT))] + OTHERS:
        with open(os.path.join(TREE, crate, "Cargo.toml"), "rb") as file:
            manifest = tomllib.load(file)
        graph[manifest["package"]["name"]] = set(dependencies(manifest))
    for crate, unwanted in WITHOUT.items():
        assert crate in graph and unwanted <= set(graph), "crates of other names"
        if found := way(graph, crate, unwanted):
            yield " -> ".join(found)


def orphans():
    """Files of what once made a test fail whose test is elsewhere now: proptest looks for them by the test's path."""
    for crate in sorted(os.listdir(ROOT)):
        kept = os.path.join(ROOT, crate, "proptest-regressions")
        for directory, _, names in os.walk(kept):
            for path in (os.path.join(directory, name) for name in sorted(names)):
                if not os.path.exists(os.path.join(ROOT, crate, "src", os.path.relpath(path, kept)[:-len(".txt")] + ".rs")):
                    yield os.path.relpath(path, TREE)


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
    small = {
        "": "mod a; mod b; pub use b::Deep;",
        "a": "use crate::Deep as D;",
        "b": "mod c; use c::X; pub use c::Deep;",
        "b::c": "fn f(_: super::super::a::Y) {}",
    }
    assert Crate(small).circle() == "a -> b (a names b::c), b -> a (b::c names a)"
    assert not Crate({**small, "b::c": "use super::Z;"}).circle(), "a module and its children are one"
    assert Crate({**small, "b::c": "use super::Z;"}).circle_of_files() == "b::c -> b -> b::c"
    assert set(dependencies({"dependencies": {"a": {"package": "b"}, "c": "1"}, "dev-dependencies": {"d": "1"}})) == {"b", "c"}
    assert way({"a": {"b", "c"}, "b": {"d"}, "c": set()}, "a", {"d", "e"}) == ["a", "b", "d"]
    assert way({"a": {"b"}, "b": {"a"}, "d": {"e"}}, "a", {"d"}) is None
    assert list(without_tests({"": "#[cfg(test)]\nmod a;\nmod b;", "a": "", "a::b": "", "b": ""})) == ["", "b"]
    for crate in [os.path.join("crates", crate) for crate in sorted(os.listdir(ROOT))] + OTHERS:
        modules = sources(crate)
        for module, text in modules.items():
            lines = text.count("\n")
            lengths.append(lines)
            if lines > LONGEST:
                faults.append(f"{crate}: {module or 'lib'} has {lines} lines, {LONGEST} are allowed: split it")
        if found := Crate(without_tests(modules)).circle():
            faults.append(f"{crate}: modules import one another in a circle: {found}")
        if crate in BY_FILE and (found := Crate(without_tests(modules)).circle_of_files()):
            faults.append(f"{crate}: files import one another in a circle: {found}")
    for directory, _, names in os.walk(os.path.join(TREE, "datapath")):
        for name in sorted(name for name in names if name.endswith((".h", ".c"))):
            path = os.path.join(directory, name)
            lines = production(path).count("\n")
            lengths.append(lines)
            if lines > LONGEST:
                faults.append(f"{os.path.relpath(path, TREE)} has {lines} lines, {LONGEST} are allowed: split it")
    faults += [f"{path}: a test that fails leaves what it made: take it from the crate tempfile" for path in leaving()]
    faults += [f"{found}: a crate that must do without needs the last one" for found in needless()]
    faults += [f"{path}: the test is not there any more: move the file beside its new path" for path in orphans()]
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
