//! The data path compiles for BPF as it does natively, wherever clang is present.

use std::path::Path;
use std::process::Command;

/// ELF machine number of BPF.
const EM_BPF: [u8; 2] = [247, 0];

#[test]
fn datapath_compiles_for_bpf() {
    if let Err(error) = Command::new("clang").arg("--version").output() {
        eprintln!("skipped: clang does not run here ({error})");
        return;
    }
    let manifest = Path::new(env!("CARGO_MANIFEST_DIR"));
    let object = Path::new(env!("CARGO_TARGET_TMPDIR")).join("edge.bpf.o");
    let output = Command::new("clang")
        .args(["-target", "bpf", "-mcpu=v3", "-O2", "-g", "-std=gnu11", "-Wall", "-Wextra", "-Werror", "-c"])
        .arg("-I")
        .arg(manifest.join("../../datapath"))
        .arg("-o")
        .arg(&object)
        .arg(manifest.join("tests/bpf/edge.bpf.c"))
        .output()
        .expect("clang ran a moment ago");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let elf = std::fs::read(&object).expect("clang wrote an object");
    assert_eq!(elf.get(..4), Some(b"\x7fELF".as_slice()));
    assert_eq!(elf.get(18..20), Some(EM_BPF.as_slice()));
}
