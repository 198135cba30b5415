//! Programs of a test's own for tc(8): built by this machine's clang, or taken from where another machine has put them, as
//! `scripts/kernels/test` does for machines that have no clang.
#![allow(dead_code, reason = "each test file uses a part")]

use std::path::{Path, PathBuf};
use std::process::Command;

/// A source, and the name of its object among those of other tests.
pub(crate) struct Filter {
    pub(crate) source: &'static str,
    pub(crate) object: &'static str,
}

impl Filter {
    /// Where another machine built it, or is to put it for one.
    fn kept(&self) -> Option<PathBuf> {
        std::env::var_os("SELVEDGE_BPF_OBJECTS").map(|directory| PathBuf::from(directory).join(self.object))
    }

    /// False if there is no clang.
    fn compile(&self, to: &Path) -> bool {
        let include = format!("-I/usr/include/{}-linux-gnu", std::env::consts::ARCH);
        let mut clang = Command::new(std::env::var("SELVEDGE_CLANG").unwrap_or_else(|_| "clang".into()));
        clang.args(["-target", "bpf", "-O2", "-g", "-D__bpf__", &include, "-c", self.source, "-o"]).arg(to);
        match clang.output() {
            Ok(output) => {
                let said = String::from_utf8_lossy(&output.stderr);
                assert!(output.status.success(), "clang refuses {}: {said}", self.source);
                true
            }
            Err(_) => false,
        }
    }

    /// For the test `objects_for_another_machine` that each user has, which is none of its own.
    pub(crate) fn build_for_another_machine(&self) {
        assert!(self.compile(&self.kept().expect("SELVEDGE_BPF_OBJECTS names a directory")), "clang runs");
    }

    /// Puts the object at `to`.
    ///
    /// # Errors
    /// Why it cannot be had here.
    pub(crate) fn put(&self, to: &Path) -> Result<(), String> {
        match self.kept() {
            Some(kept) => drop(std::fs::copy(&kept, to).unwrap_or_else(|e| panic!("{}: {e}", kept.display()))),
            None if !self.compile(to) => return Err("clang is not installed".into()),
            None => {}
        }
        Ok(())
    }
}
