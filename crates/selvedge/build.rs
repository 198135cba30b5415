//! Embeds `scenarios/**/*.toml`, `results/catalogue/*.toml`, `results/printed/*.csv`, `results/prose/*.md` and
//! `results/*.jsonl`, so that `selvedge repro` works wherever
//! the binary is. Hashes the sources that decide what a run yields, for its records.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::{env, fs, io};

/// Directories whose C and Rust sources decide what a run yields: datapath, the simulator, and what scenarios mean to it.
const MODELS: [&str; 11] = [
    "datapath",
    "crates/units/src",
    "crates/wire/src",
    "crates/aqm/src",
    "crates/edge/src",
    "crates/topology/src",
    "crates/discovery/src",
    "crates/sim/src",
    "crates/fabric/src",
    "crates/host/src",
    "crates/selvedge/src/scenario",
];

fn main() -> io::Result<()> {
    let root = Path::new(&env::var("CARGO_MANIFEST_DIR").unwrap_or_default()).join("../..");
    println!("cargo::rustc-env=SELVEDGE_SOURCES={:016x}", sources(&root)?);
    let results = root.join("results");
    let scenarios = list("FILES", &root.join("scenarios"), "toml", true)?;
    let claims = list("CATALOGUE", &results.join("catalogue"), "toml", false)?;
    let records = list("RECORDS", &results, "jsonl", false)?;
    let printed = list("PRINTED", &results.join("printed"), "csv", false)?;
    let prose = list("PROSE", &results.join("prose"), "md", false)?;
    let out = PathBuf::from(env::var("OUT_DIR").map_err(io::Error::other)?);
    fs::write(out.join("scenarios.rs"), scenarios)?;
    fs::write(out.join("catalogue.rs"), claims)?;
    fs::write(out.join("printed.rs"), printed)?;
    fs::write(out.join("prose.rs"), prose)?;
    fs::write(out.join("records.rs"), records)
}

/// FNV-1a over names and texts, in the order of names. The kernel's part of the datapath is no part of a simulation.
fn sources(root: &Path) -> io::Result<u64> {
    let mut hash = 0xcbf2_9ce4_8422_2325_u64;
    for dir in MODELS {
        let mut files = Vec::new();
        for extension in ["c", "h", "rs"] {
            collect(&root.join(dir), extension, dir != "datapath", &mut files)?;
        }
        files.sort();
        for file in files {
            let name = file.strip_prefix(root).unwrap_or(&file).to_string_lossy().replace('\\', "/");
            for byte in name.bytes().chain(fs::read(&file)?) {
                hash = (hash ^ u64::from(byte)).wrapping_mul(0x100_0000_01b3);
            }
        }
    }
    Ok(hash)
}

/// A constant with (path below `root`, text) of every file with that extension.
fn list(constant: &str, root: &Path, extension: &str, deep: bool) -> io::Result<String> {
    let mut files = Vec::new();
    collect(root, extension, deep, &mut files)?;
    files.sort();
    let mut code = format!("pub(super) const {constant}: &[(&str, &str)] = &[\n");
    for file in &files {
        let name = file.strip_prefix(root).unwrap_or(file).to_string_lossy().replace('\\', "/");
        let path = fs::canonicalize(file)?;
        // Writing to a string cannot fail.
        let _ = writeln!(code, "    ({name:?}, include_str!({:?})),", path.display().to_string());
    }
    code.push_str("];\n");
    Ok(code)
}

fn collect(dir: &Path, extension: &str, deep: bool, files: &mut Vec<PathBuf>) -> io::Result<()> {
    println!("cargo::rerun-if-changed={}", dir.display());
    for entry in fs::read_dir(dir)? {
        let path = entry?.path();
        if path.is_dir() {
            if deep {
                collect(&path, extension, deep, files)?;
            }
        } else if path.extension().is_some_and(|e| e == extension) {
            println!("cargo::rerun-if-changed={}", path.display());
            files.push(path);
        }
    }
    Ok(())
}
