//! The list of files that a run wrote into its directory, which a later run with `--force` may remove.

use serde::{Deserialize, Serialize};
use std::collections::BTreeSet;
use std::fs;
use std::io;
use std::path::{Component, Path};

/// Hidden, so that it is in nobody's way.
pub(super) const NAME: &str = ".selvedge-files";
/// The list while it is written.
pub(super) const UNFINISHED: &str = ".selvedge-files.new";
/// More is not ours.
const MOST: u64 = 16 << 20;

#[derive(Debug, Default, Serialize, Deserialize)]
pub(super) struct Manifest {
    version: u32,
    files: BTreeSet<String>,
}

impl Manifest {
    /// Of all regular files that `dir` holds.
    ///
    /// # Errors
    /// As the file system gives them.
    pub(super) fn of(dir: &Path) -> io::Result<Manifest> {
        let mut files = BTreeSet::new();
        for entry in fs::read_dir(dir)? {
            let entry = entry?;
            if let Some(name) = entry.file_name().to_str().filter(|name| ![NAME, UNFINISHED].contains(name)) {
                files.insert(name.to_owned());
            }
        }
        Ok(Manifest { version: 0, files })
    }

    /// `None` if `dir` holds no list that this version understands. The list may be anybody's: one that names a file elsewhere is
    /// none.
    pub(super) fn read(dir: &Path) -> Option<Manifest> {
        let text = files::read_regular(&dir.join(NAME), MOST).ok()?;
        let manifest = serde_json::from_slice::<Manifest>(&text).ok()?;
        let fits = manifest.version == 0 && manifest.files.iter().all(|name| is_plain(name));
        fits.then_some(manifest)
    }

    /// In one step: a process killed meanwhile leaves the list that was there, and perhaps [`UNFINISHED`].
    ///
    /// # Errors
    /// As the file system gives them.
    pub(super) fn write(&self, dir: &Path) -> io::Result<()> {
        let mut text = serde_json::to_string_pretty(self)?;
        text.push('\n');
        let unfinished = dir.join(UNFINISHED);
        fs::write(&unfinished, text)?;
        fs::rename(unfinished, dir.join(NAME))
    }
}

/// Is it the name of an entry, and no path to somewhere else?
fn is_plain(name: &str) -> bool {
    let mut parts = Path::new(name).components();
    matches!(parts.next(), Some(Component::Normal(part)) if part == name) && parts.next().is_none()
}

/// The first entry of a directory, by name, that its list does not have; `None` if it has all.
///
/// # Errors
/// As the file system gives them: it is no directory, perhaps.
pub(super) fn foreign(dir: &Path) -> io::Result<Option<String>> {
    let manifest = Manifest::read(dir);
    let known = |name: &str| manifest.as_ref().is_some_and(|m| name == NAME || m.files.contains(name));
    let mut found: Option<String> = None;
    for entry in fs::read_dir(dir)? {
        let entry = entry?;
        let name = entry.file_name().to_string_lossy().into_owned();
        let ours = entry.file_name().to_str().is_some_and(known) && entry.file_type()?.is_file();
        if !ours && found.as_ref().is_none_or(|first| name < *first) {
            found = Some(name);
        }
    }
    Ok(found)
}

/// Removes the listed files, then the directory.
///
/// # Errors
/// As the file system gives them; files that are on no list stay, and the directory with them.
pub(super) fn remove(dir: &Path) -> io::Result<()> {
    for file in Manifest::read(dir).unwrap_or_default().files {
        match fs::remove_file(dir.join(file)) {
            Err(e) if e.kind() != io::ErrorKind::NotFound => return Err(e),
            _ => {}
        }
    }
    let _ = fs::remove_file(dir.join(NAME)); // the directory's removal tells
    fs::remove_dir(dir)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_list_that_names_files_elsewhere_removes_nothing() {
        let scratch = tempfile::tempdir().unwrap();
        let dir = scratch.path().join("results");
        let precious = dir.with_extension("precious");
        for name in [precious.display().to_string(), format!("../{}", precious.file_name().unwrap().to_string_lossy())]
        {
            fs::create_dir_all(&dir).unwrap();
            fs::write(&precious, "x").unwrap();
            let manifest = Manifest { version: 0, files: [name.clone(), "flows.csv".into()].into() };
            manifest.write(&dir).unwrap();
            assert!(Manifest::read(&dir).is_none(), "{name}");
            assert_eq!(foreign(&dir).unwrap().as_deref(), Some(NAME));
            let _ = remove(&dir);
            assert!(precious.exists(), "{name}");
            let _ = fs::remove_dir_all(&dir);
        }
    }

    #[test]
    fn only_names_of_entries_are_plain() {
        for name in ["", ".", "..", "/", "/etc/passwd", "../a", "a/b", "a/", "./a", "a/."] {
            assert!(!is_plain(name), "{name:?}");
        }
        for name in ["a", "flows.csv", "..a", ".a b"] {
            assert!(is_plain(name), "{name:?}");
        }
    }
}
