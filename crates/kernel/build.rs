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
    for (names, cfg, variable, what) in clang::OBJECTS {
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
