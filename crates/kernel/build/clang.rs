//! Compiles C for BPF: for the build script, and for the test that tries every clang.

use std::path::Path;
use std::process::Command;

/// Sources of `datapath/kernel` that are built together; the cfg if they were; the variable that says why they were not; what they are.
pub(crate) const OBJECTS: [(&[&str], &str, &str, &str); 6] = [
    (&["edge"], "bpf_object", "SELVEDGE_NO_BPF", "the kernel edge"),
    (&["limits", "limits_plain", "inside"], "limits_object", "SELVEDGE_NO_LIMITS", "rate limits in the kernel"),
    (&["fastlane"], "fastlane_object", "SELVEDGE_NO_FASTLANE", "FastLane in the kernel"),
    (&["dctcp"], "dctcp_object", "SELVEDGE_NO_DCTCP", "DCTCP for the kernel"),
    (&["marker"], "marker_object", "SELVEDGE_NO_MARKER", "routers of a lab that mark"),
    (&["unruly"], "unruly_object", "SELVEDGE_NO_UNRULY", "guests that ignore their window"),
];

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
