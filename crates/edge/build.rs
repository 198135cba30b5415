//! Compiles `datapath/edge.h` natively.

fn main() {
    println!("cargo::rerun-if-changed=../../datapath");
    println!("cargo::rerun-if-changed=src/native/shim.c");
    println!("cargo::rerun-if-changed=src/native/hooks.c");
    println!("cargo::rerun-if-changed=src/native/clove.c");
    println!("cargo::rerun-if-changed=src/native/hygenicc.c");
    println!("cargo::rerun-if-changed=src/native/fastlane.c");
    println!("cargo::rerun-if-changed=src/native/again.c");
    println!("cargo::rerun-if-changed=src/native/plain.c");
    println!("cargo::rerun-if-changed=src/native/toy.h");
    let mut build = cc::Build::new();
    if std::env::var_os("CARGO_FEATURE_TOY").is_some() {
        build.define("SV_BALANCE_TEST", "255");
    }
    build
        .file("src/native/shim.c")
        .file("src/native/hooks.c")
        .file("src/native/clove.c")
        .file("src/native/hygenicc.c")
        .file("src/native/fastlane.c")
        .file("src/native/again.c")
        .file("src/native/plain.c")
        .include("../../datapath")
        .std("c11")
        .warnings(true)
        .extra_warnings(true)
        .warnings_into_errors(true)
        .opt_level(2)
        .compile("selvedge_edge");
}
