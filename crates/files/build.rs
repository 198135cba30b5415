//! Compiles what has to run before Rust's runtime.

fn main() {
    println!("cargo::rerun-if-changed=src/stdout.c");
    cc::Build::new()
        .file("src/stdout.c")
        .std("c11")
        .warnings(true)
        .extra_warnings(true)
        .warnings_into_errors(true)
        .compile("selvedge_files");
}
