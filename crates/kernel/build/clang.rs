//! Compiles C for BPF: for the build script, and for the test that tries every clang.

use std::path::Path;
use std::process::Command;

/// The reason, in one line, if it cannot be done.
pub(crate) fn compile_bpf(clang: &str, arch: &str, source: &str, object: &Path) -> Result<(), String> {
    let output = Command::new(clang)
        .args(["-target", "bpf", "-mcpu=v3", "-O2", "-g", "-std=gnu11", "-Wall", "-Wextra", "-Wno-unused-parameter"])
        // Else a helper that a header does not know becomes a call that only the verifier refuses.
        .args(["-Werror=implicit-function-declaration", "-Werror=int-conversion"])
        // Debian keeps <asm/types.h> per architecture, where clang does not look when it compiles for BPF.
        // No path of the building machine in what the programs say of their source.
        .args([
            concat!("-ffile-prefix-map=", env!("CARGO_MANIFEST_DIR"), "=crates/kernel"),
            "-fdebug-compilation-dir=crates/kernel",
        ])
        .args(["-D__bpf__", &format!("-I/usr/include/{arch}-linux-gnu"), "-c", source, "-o"])
        .arg(object)
        .output()
        .map_err(|error| format!("{clang} does not run ({error}) when this was built"))?;
    if output.status.success() {
        return Ok(());
    }
    let text = String::from_utf8_lossy(&output.stderr);
    let first = text.lines().find(|line| line.contains("error")).unwrap_or("no message");
    Err(format!("{clang} could not compile {source}: {first}"))
}
