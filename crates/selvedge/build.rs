//! Embeds `scenarios/**/*.toml`, `results/catalogue/*.toml` and `results/*.jsonl`, so that `selvedge repro` works wherever
//! the binary is.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::{env, fs, io};

fn main() -> io::Result<()> {
    let root = Path::new(&env::var("CARGO_MANIFEST_DIR").unwrap_or_default()).join("../..");
    let results = root.join("results");
    let scenarios = list("FILES", &root.join("scenarios"), "toml", true)?;
    let claims = list("CATALOGUE", &results.join("catalogue"), "toml", false)?;
    let records = list("RECORDS", &results, "jsonl", false)?;
    let out = PathBuf::from(env::var("OUT_DIR").map_err(io::Error::other)?);
    fs::write(out.join("scenarios.rs"), scenarios)?;
    fs::write(out.join("catalogue.rs"), claims)?;
    fs::write(out.join("records.rs"), records)
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
