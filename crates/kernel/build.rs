//! Compiles what loader and programs share natively, and the programs for BPF where clang is present.

use std::path::Path;

#[path = "build/clang.rs"]
mod clang;

fn main() {
    println!("cargo::rerun-if-changed=../../datapath");
    println!("cargo::rerun-if-changed=src/shim.c");
    println!("cargo::rustc-check-cfg=cfg(bpf_object, dctcp_object, fastlane_object, limits_object, marker_object, unruly_object)");
    println!("cargo::rerun-if-env-changed=SELVEDGE_CLANG");
    if std::env::var_os("CARGO_FEATURE_LIBBPF").is_none() {
        return;
    }
    cc::Build::new()
        .file("src/shim.c")
        .include("../../datapath")
        .std("c11")
        .warnings(true)
        .extra_warnings(true)
        .warnings_into_errors(true)
        .opt_level(2)
        .compile("selvedge_kernel");

    let out = std::env::var("OUT_DIR").expect("cargo sets OUT_DIR");
    let clang = std::env::var("SELVEDGE_CLANG").unwrap_or_else(|_| "clang".into());
    let arch = std::env::var("CARGO_CFG_TARGET_ARCH").unwrap_or_default();
    let objects = [
        (&["edge"][..], "bpf_object", "SELVEDGE_NO_BPF", "the kernel edge"),
        (&["limits", "limits_plain"], "limits_object", "SELVEDGE_NO_LIMITS", "rate limits in the kernel"),
        (&["fastlane"], "fastlane_object", "SELVEDGE_NO_FASTLANE", "FastLane in the kernel"),
        (&["dctcp"], "dctcp_object", "SELVEDGE_NO_DCTCP", "DCTCP for the kernel"),
        (&["marker"], "marker_object", "SELVEDGE_NO_MARKER", "routers of a lab that mark"),
        (&["unruly"], "unruly_object", "SELVEDGE_NO_UNRULY", "guests that ignore their window"),
    ];
    for (names, cfg, variable, what) in objects {
        let built = names.iter().try_for_each(|name| {
            let source = format!("../../datapath/kernel/{name}.bpf.c");
            clang::compile_bpf(&clang, &arch, &source, &Path::new(&out).join(format!("{name}.bpf.o")))
        });
        match built {
            Ok(()) => println!("cargo::rustc-cfg={cfg}"),
            Err(why) => {
                println!("cargo::warning=without {what}: {why}");
                println!("cargo::rustc-env={variable}={why}");
            }
        }
    }
}
