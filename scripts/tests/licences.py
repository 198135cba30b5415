#!/usr/bin/env python3
"""Tests of scripts/licences: each check finds what it is for, and lets the rest pass."""

import hashlib
import sys
import tempfile
import unittest
from importlib.machinery import SourceFileLoader
from importlib.util import module_from_spec, spec_from_loader
from pathlib import Path

sys.dont_write_bytecode = True
loader = SourceFileLoader("licences", str(Path(__file__).resolve().parent.parent / "licences"))
licences = module_from_spec(spec_from_loader("licences", loader))
loader.exec_module(licences)


def crate(name, licence, rust=None):
    return {"name": name, "version": "1.0.0", "license": licence, "license_file": None, "rust_version": rust}


class Expressions(unittest.TestCase):
    def test_what_passes(self):
        for expression in (
            "MIT", "MIT OR Apache-2.0", "MIT/Apache-2.0", "Apache-2.0 / MIT", "LGPL-2.1-only OR BSD-2-Clause",
            "(MIT OR Apache-2.0) AND Unicode-3.0", "Apache-2.0 WITH LLVM-exception", "MIT OR GPL-3.0 AND MIT",
        ):
            self.assertTrue(licences.allowed(expression), expression)

    def test_what_does_not(self):
        for expression in (
            "MPL-2.0", "MPL-2.0+", "GPL-3.0-or-later", "MIT AND GPL-3.0", "AGPL-3.0-only", "LGPL-2.1-only",
            "(MIT OR GPL-3.0) AND MPL-2.0", "Apache-2.0 WITH Some-exception", "mit",
        ):
            self.assertFalse(licences.allowed(expression), expression)

    def test_what_cannot_be_read(self):
        for expression in ("", "MIT OR", "(MIT", "MIT Apache-2.0", "AND MIT", "MIT)", "MIT WITH"):
            with self.assertRaises(ValueError, msg=expression):
                licences.allowed(expression)


class Crates(unittest.TestCase):
    def test_names_the_offender(self):
        found = list(licences.check_crates([crate("good", "MIT"), crate("bad", "MPL-2.0"), crate("none", None)]))
        self.assertEqual(len(found), 2)
        self.assertIn("bad 1.0.0: licence MPL-2.0", found[0])
        self.assertIn("none 1.0.0: no licence", found[1])

    def test_exception_holds_for_the_stated_licence_only(self):
        exceptions = {"odd": ("MPL-2.0", "why")}
        self.assertEqual(list(licences.check_crates([crate("odd", "MPL-2.0")], exceptions=exceptions)), [])
        self.assertEqual(len(list(licences.check_crates([crate("odd", "GPL-3.0")], exceptions=exceptions))), 1)

    def test_minimum_rust(self):
        crates = [crate("a", "MIT", "1.85"), crate("b", "MIT", "1.85.1"), crate("c", "MIT"), crate("d", "MIT", "1.9")]
        found = list(licences.check_minimum_rust(crates, "1.85"))
        self.assertEqual(len(found), 1)
        self.assertIn("b 1.0.0: needs Rust 1.85.1", found[0])


class Page(unittest.TestCase):
    PAGE = "| Crate | Licence |\n|---|---|\n| `a` | MIT | x |\n| `gone` | MIT | x |\n| plain | MIT |\n"

    def test_missing_wrong_and_stale(self):
        found = list(licences.check_dependency_page(self.PAGE, {"a": "ISC", "b": "MIT"}))
        self.assertEqual(len(found), 3)
        self.assertIn("a is under ISC, the page says MIT", found[0])
        self.assertIn("b (MIT) is a direct dependency and is not named", found[1])
        self.assertIn("gone is named and is no direct dependency", found[2])


class Files(unittest.TestCase):
    def setUp(self):
        self.directory = tempfile.TemporaryDirectory()
        self.addCleanup(self.directory.cleanup)
        self.root = Path(self.directory.name)

    def write(self, path, text):
        (self.root / path).parent.mkdir(parents=True, exist_ok=True)
        (self.root / path).write_text(text, encoding="utf-8")

    def test_datapath(self):
        self.write("datapath/LICENSE", "both")
        self.write("datapath/good.h", licences.DATAPATH_SPDX + "\n")
        self.assertEqual(list(licences.check_datapath(self.root)), [])
        self.write("datapath/kernel/bad.c", "int x;\n")
        self.assertEqual(len(list(licences.check_datapath(self.root))), 1)

    def test_vendored(self):
        code = "let a;"
        self.write("NOTICE", "crates/x/assets/lib\n")
        self.write("crates/x/assets/lib/lib.min.js", code)
        self.write("crates/x/assets/own.js", "ours")
        self.assertEqual(len(list(licences.check_vendored(self.root))), 2)
        self.write("crates/x/assets/lib/LICENSE", "free")
        self.write("crates/x/assets/lib/README.md", hashlib.sha256(code.encode()).hexdigest())
        self.assertEqual(list(licences.check_vendored(self.root)), [])
        self.write("crates/x/assets/lib/lib.min.js", code + " ")
        self.assertIn("is not the one in its README.md", list(licences.check_vendored(self.root))[0])
        self.write("NOTICE", "")
        self.assertEqual(len(list(licences.check_vendored(self.root))), 2)


if __name__ == "__main__":
    unittest.main()
