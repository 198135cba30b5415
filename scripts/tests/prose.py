#!/usr/bin/env python3
"""How long the sentences of the documentation are: README.md, ARCHITECTURE.md, SECURITY.md, docs/*.md, and what modules say of
themselves.

A sentence of a page has at most 40 words, and a page at most 3 sentences over 25. Each source file of crates/*/src but those of tests
(tests.rs, and files in a directory tests/) begins with a module doc, `//!`; a sentence of it has at most 30 words. Code, tables, headings
and the targets of links do not count; a piece of code within a sentence is one word. An item of a list is a paragraph of its own."""

import glob
import itertools
import os
import re
import sys

TREE = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..")
PAGES = ["README.md", "ARCHITECTURE.md", "SECURITY.md", "docs/*.md"]
MODULES = "crates/*/src/**/*.rs"
LONG, LONGEST, MANY = 25, 40, 3
LONGEST_OF_MODULE = 30
# Pages that are counted, but not judged, and why.
UNJUDGED = {
    "docs/results.md": "generated from the records: it lists commits and sources in one sentence",
}
# Pages that may have more long sentences, how many, and why.
MORE = {
    "docs/scenarios.md": (6, "a reference that is not rewritten yet"),
}
# Beginnings of sentences that may be longer than any, and why.
LISTS = {
    "docs/validation.md": ("Not judged, as the machine was late:", "a list of cases"),
}
# Their points end no sentence.
ABBREVIATIONS = re.compile(r"\b(?:Figs?|et al|e\.g|i\.e)\.$")


def paragraphs(text):
    """(line, text) of each paragraph and each item of a list; lines count from 1."""
    found, begin, fenced, inside = [], 0, False, 0
    for at, line in enumerate(text.split("\n") + [""], 1):
        words, indent = line.strip(), len(line) - len(line.lstrip())
        fence = words.startswith("```")
        # In a paragraph, a number and a point may begin a line: only 1 begins a list there.
        item = re.match(r"(?:[-*+]|1[.)]) +" if found and not inside else r"(?:[-*+]|\d+[.)]) +", words)
        if found and (not words or fence or item or words[0] in "#|" or words.startswith("<!--")):
            yield begin, "\n".join(found)
            found = []
        if fence:
            fenced = not fenced
        if fence or fenced or not words or words[0] in "#|" or words.startswith("<!--"):
            continue
        if not found:
            if indent >= inside + 4:
                continue
            inside = indent + item.end() if item else inside if indent >= inside else 0
            begin = at
        found.append(words[item.end():] if item and not found else words)


def sentences(paragraph):
    """(lines before it, words, text) of each."""
    hide = str.maketrans(dict.fromkeys(" \n.!?", "_"))
    hidden = re.sub(r"`[^`]*`|(?<=\])\([^)]*\)", lambda code: code[0].translate(hide), paragraph)
    begin = 0
    for end in re.finditer(r"(?<=[.!?])[*_)\"]*\s+(?=[A-Z`\[\"*(0-9])|\Z", hidden):
        if end[0] and ABBREVIATIONS.search(hidden[begin:end.start()]):
            continue
        if words := sum(1 for word in hidden[begin:end.start()].split() if re.search(r"\w", word)):
            yield paragraph[:begin].count("\n"), words, " ".join(paragraph[begin:end.start()].split())
        begin = end.end()


def read(text):
    """(line, words, sentence) of each."""
    return [(line + lines, words, sentence) for line, paragraph in paragraphs(text) for lines, words, sentence in sentences(paragraph)]


def is_production(module):
    """Is it a source file that must have a module doc?"""
    *directories, name = module.split("/")
    return name != "tests.rs" and "tests" not in directories


def module_doc(source):
    """The `//!` block at the head of a source file: lines count as in the file. Empty without one."""
    lines = itertools.takewhile(lambda line: line.startswith("//!"), source.split("\n"))
    return "\n".join(line[3:].removeprefix(" ") for line in lines)


def show(path, line, words, sentence):
    return f"{path}:{line}: {words} words: {sentence[:60]}"


def judge_module(path, found):
    """What is wrong with the sentences of a module doc."""
    if not found:
        return [f"{path}:1: no module doc: begin the file with `//!` and say what it is for"]
    return [f"{show(path, *one)}: {LONGEST_OF_MODULE} are allowed: split it" for one in found if one[1] > LONGEST_OF_MODULE]


def judge(page, found):
    """What is wrong with a page's sentences."""
    if page in UNJUDGED:
        return []
    listed, (allowed, _) = LISTS.get(page), MORE.get(page, (MANY, ""))
    judged = [one for one in found if not (listed and one[2].startswith(listed[0]))]
    long = [one for one in judged if one[1] > LONG]
    faults = [f"{show(page, *one)}: {LONGEST} are allowed: split it" for one in long if one[1] > LONGEST]
    if len(long) > allowed:
        faults.append(f"{page}: {len(long)} sentences over {LONG} words, {allowed} are allowed: split some of these:")
        faults += ["  " + show(page, *one) for one in long]
    if page in MORE and len(long) <= MANY:
        faults.append(f"{page} has no more long sentences than others: take it from MORE")
    if listed and len(judged) == len(found):
        faults.append(f"{page}: no sentence begins with \"{listed[0]}\": take it from LISTS")
    return faults


def check():
    text = "# A heading that is no sentence\n\nOne, see Fig. 2 of [two words](a b c.md). Two `a. B c`\nthree. \"Four\".\n\n- A\n  b.\n- C.\n"
    text += "\n      code of the item\n\nD\n\n    code\n\n```\nMore code.\n```\n\n| a | table |\n|---|---|\n\nIs it\n20. **Equal.** No\n"
    text += "\n1. An item\n   of a list:\n   ```\n   code\n   ```\n   more.\n"
    assert read(text) == [
        (3, 7, "One, see Fig. 2 of [two words](a b c.md)."), (3, 3, "Two `a. B c` three."), (4, 1, "\"Four\"."), (6, 2, "A b."), (8, 1, "C."),
        (12, 1, "D"), (23, 3, "Is it 20."), (24, 1, "**Equal."), (24, 1, "No"), (26, 5, "An item of a list:"), (31, 1, "more."),
    ]
    few, many = [(1, 26, "a")] * MANY, [(1, 26, "a")] * (MANY + 1)
    assert not judge("a", few) and len(judge("a", many)) == MANY + 2 and len(judge("a", [(1, 41, "a")])) == 1
    assert not judge("docs/results.md", [(1, 41, "a")]) and judge("docs/scenarios.md", few) and judge("docs/validation.md", few)
    source = "//! One two.\n//!\n//! Three\n//! four. Five.\n//!\n//!     code\n//! ```\n//! code\n//! ```\n\n//! Not at the head.\nuse a;\n"
    assert read(module_doc(source)) == [(1, 2, "One two."), (3, 2, "Three four."), (4, 1, "Five.")]
    assert module_doc("use a;\n//! Not at the head.\n") == "" and module_doc("/// Of an item.\nstruct A;\n") == ""
    assert not judge_module("a", [(1, 30, "a")]) and len(judge_module("a", [])) == 1
    assert judge_module("a", [(1, 30, "a"), (7, 31, "b")]) == ["a:7: 31 words: b: 30 are allowed: split it"]
    names = ["crates/a/src/lib.rs", "crates/a/src/b/mytests.rs", "crates/a/src/tests.rs", "crates/a/src/b/tests/c.rs"]
    assert [is_production(name) for name in names] == [True, True, False, False]


def main():
    check()
    faults, lengths = [], []
    pages = [path for pattern in PAGES for path in sorted(glob.glob(os.path.join(TREE, pattern)))]
    names = {os.path.relpath(path, TREE) for path in pages}
    assert {*PAGES[:3], *UNJUDGED, *MORE, *LISTS} <= names, "pages of other names"
    for path in pages:
        with open(path, encoding="utf-8") as file:
            found = read(file.read())
        lengths += [words for _, words, _ in found]
        faults += judge(os.path.relpath(path, TREE), found)
    modules = [path for path in sorted(glob.glob(MODULES, root_dir=TREE, recursive=True)) if is_production(path)]
    assert modules, "no modules"
    of_modules = []
    for path in modules:
        with open(os.path.join(TREE, path), encoding="utf-8") as file:
            found = read(module_doc(file.read()))
        of_modules += [words for _, words, _ in found]
        faults += judge_module(path, found)
    print(f"prose: {len(lengths)} sentences, {sum(words > LONG for words in lengths)} over {LONG} words")
    over = sum(words > LONG for words in of_modules)
    print(f"modules: {len(modules)} files, {len(of_modules)} sentences, {over} over {LONG} words")
    for fault in faults:
        print(fault, file=sys.stderr)
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
