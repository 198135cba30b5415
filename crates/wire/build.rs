//! Compiles `datapath/parse.h` and `datapath/hidden.h` natively.

fn main() {
    println!("cargo::rerun-if-changed=../../datapath");
    println!("cargo::rerun-if-changed=src/shim.c");
    println!("cargo::rerun-if-changed=src/hidden.c");
    cc::Build::new()
        .file("src/shim.c")
        .file("src/hidden.c")
        .include("../../datapath")
        .std("c11")
        .warnings(true)
        .extra_warnings(true)
        .warnings_into_errors(true)
        .opt_level(2)
        .compile("selvedge_wire");
}
