//! Compiles what agent and kernel share natively, and the kernel edge for BPF where clang is present.

use std::path::Path;
use std::process::Command;

fn main() {
    println!("cargo::rerun-if-changed=../../datapath");
    println!("cargo::rerun-if-changed=src/shim.c");
    println!("cargo::rustc-check-cfg=cfg(bpf_object, dctcp_object, limits_object, unruly_object)");
    println!("cargo::rerun-if-env-changed=SELVEDGE_CLANG");
    cc::Build::new()
        .file("src/shim.c")
        .include("../../datapath")
        .std("c11")
        .warnings(true)
        .extra_warnings(true)
        .warnings_into_errors(true)
        .opt_level(2)
        .compile("selvedge_live");

    if std::env::var_os("CARGO_FEATURE_KERNEL").is_none() {
        println!("cargo::rustc-env=SELVEDGE_NO_BPF=built without the feature `kernel`");
        return;
    }
    let out = std::env::var("OUT_DIR").expect("cargo sets OUT_DIR");
    let objects = [
        ("edge", "bpf_object", "SELVEDGE_NO_BPF", "the kernel edge"),
        ("limits", "limits_object", "SELVEDGE_NO_LIMITS", "rate limits in the kernel"),
        ("dctcp", "dctcp_object", "SELVEDGE_NO_DCTCP", "DCTCP for the kernel"),
        ("unruly", "unruly_object", "SELVEDGE_NO_UNRULY", "guests that ignore their window"),
    ];
    for (name, cfg, variable, what) in objects {
        let source = format!("../../datapath/kernel/{name}.bpf.c");
        match compile_bpf(&source, &Path::new(&out).join(format!("{name}.bpf.o"))) {
            Ok(()) => println!("cargo::rustc-cfg={cfg}"),
            Err(why) => {
                println!("cargo::warning=without {what}: {why}");
                println!("cargo::rustc-env={variable}={why}");
            }
        }
    }
}

/// The reason, in one line, if it cannot be done.
fn compile_bpf(source: &str, object: &Path) -> Result<(), String> {
    let clang = std::env::var("SELVEDGE_CLANG").unwrap_or_else(|_| "clang".into());
    let arch = std::env::var("CARGO_CFG_TARGET_ARCH").unwrap_or_default();
    let output = Command::new(&clang)
        .args(["-target", "bpf", "-mcpu=v3", "-O2", "-g", "-std=gnu11", "-Wall", "-Wextra", "-Wno-unused-parameter"])
        // Else a helper that a header does not know becomes a call that only the verifier refuses.
        .args(["-Werror=implicit-function-declaration", "-Werror=int-conversion"])
        // Debian keeps <asm/types.h> per architecture, where clang does not look when it compiles for BPF.
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
