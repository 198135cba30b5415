//! The directory of a sweep: one file a job below `jobs`, named by the job's hash, whole or absent. Several processes, on several
//! machines, may write there at a time; each job's file is the same whoever writes it.

use super::jobs::{Job, Jobs};
use crate::axes::AxisValue;
use crate::output::StagingError;
use config::ConfigError;
use serde_json::{json, Value};
use std::collections::HashSet;
use std::fs::{self, File, OpenOptions};
use std::io::{self, ErrorKind, Write};
use std::path::{Path, PathBuf};

/// What the directory has jobs of, in the order of the command that last ran all of them.
pub(crate) const INDEX: &str = "sweep.json";
/// All metrics of all jobs that are done.
pub(crate) const METRICS: &str = "metrics.parquet";
/// The same over the seeds.
pub(crate) const SUMMARY: &str = "summary.parquet";
/// Files of jobs, of metrics and of flows.
pub(crate) const JOBS: &str = "jobs";
pub(crate) const FLOWS: &str = "flows";

#[derive(Debug)]
pub(crate) struct Store {
    dir: PathBuf,
    /// Are flows kept, too?
    flows: bool,
}

impl Store {
    /// Refuses a directory that holds other things; one that is not there is made when the first file is written.
    ///
    /// # Errors
    /// Such a directory, or something else of that name.
    pub(crate) fn at(dir: &Path, flows: bool) -> Result<Store, ConfigError> {
        let fail = |problem: &str| {
            let remedy = "choose another directory with --output";
            Err(ConfigError::new(dir.display().to_string(), problem.to_owned(), remedy))
        };
        match fs::read_dir(dir) {
            Err(e) if e.kind() == ErrorKind::NotFound && dir.is_symlink() => {
                return fail("is a symbolic link to what is not there");
            }
            Err(e) if e.kind() == ErrorKind::NotFound => {}
            Err(e) if e.kind() == ErrorKind::NotADirectory => return fail("is no directory"),
            Err(e) => return fail(&format!("cannot be read: {e}")),
            Ok(entries) => {
                let names: Vec<String> =
                    entries.flatten().map(|entry| entry.file_name().to_string_lossy().into_owned()).collect();
                let ours = names.iter().any(|name| [INDEX, JOBS].contains(&name.as_str()));
                if !ours && !names.iter().all(|name| begun(name)) {
                    return fail("holds files, and none of a sweep");
                }
            }
        }
        Ok(Store { dir: dir.to_owned(), flows })
    }

    /// The file of a job, relative to the directory.
    pub(crate) fn file(hash: &str) -> String {
        format!("{JOBS}/{hash}.parquet")
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.dir.join(name)
    }

    fn flows_file(hash: &str) -> String {
        format!("{FLOWS}/{hash}.parquet")
    }

    /// A job is done once all of its files are there, because they appear whole; its metrics come last. An empty one is what a crash
    /// of the machine may leave: the job is run again.
    pub(crate) fn done(&self, hash: &str) -> bool {
        let there = |name: String| fs::metadata(self.path(&name)).is_ok_and(|meta| meta.is_file() && meta.len() > 0);
        there(Store::file(hash)) && (!self.flows || there(Store::flows_file(hash)))
    }

    /// Keeps what a job gave.
    ///
    /// # Errors
    /// As the file system gives them.
    pub(crate) fn keep(&self, hash: &str, metrics: &[u8], flows: Option<&[u8]>) -> Result<(), StagingError> {
        if let Some(flows) = flows {
            self.write(&Store::flows_file(hash), flows)?;
        }
        self.write(&Store::file(hash), metrics)
    }

    /// Puts a whole file in its place. By [`JOBS`], which comes before all files, other processes know the directory.
    ///
    /// # Errors
    /// As the file system gives them.
    pub(crate) fn write(&self, name: &str, bytes: &[u8]) -> Result<(), StagingError> {
        let path = self.path(name);
        let written = fs::create_dir_all(self.path(JOBS)).and_then(|()| replaced(&path, bytes));
        written.map_err(|source| StagingError::Sweep { path, source })
    }

    /// What the directory now has jobs of.
    ///
    /// # Errors
    /// As the file system gives them.
    pub(crate) fn index(&self, jobs: &Jobs) -> Result<(), StagingError> {
        let all: Vec<Value> = jobs.all.iter().map(|job| described(jobs, job)).collect();
        let index = json!({"format": 1, "version": env!("CARGO_PKG_VERSION"), "axes": jobs.axes, "jobs": all});
        self.write(INDEX, format!("{index:#}\n").as_bytes())
    }

    /// Removes what killed processes left half-written of jobs that are done. A process that still writes one of them finds it
    /// done.
    pub(crate) fn tidy(&self, jobs: &Jobs) {
        let done: HashSet<&str> = jobs.all.iter().map(|job| job.hash.as_str()).filter(|hash| self.done(hash)).collect();
        for directory in [JOBS, FLOWS] {
            for entry in fs::read_dir(self.path(directory)).into_iter().flatten().flatten() {
                let name = entry.file_name();
                let hash = name.to_str().and_then(|name| name.strip_prefix('.')?.split_once(".parquet.new-"));
                if hash.is_some_and(|(hash, _)| done.contains(hash)) {
                    let _ = fs::remove_file(entry.path()); // tried again by the next call
                }
            }
        }
    }
}

/// Is it what may be there before [`JOBS`] is seen? Other processes write while a directory is listed; earlier versions wrote these first,
/// and may have been killed.
fn begun(name: &str) -> bool {
    let half = name.strip_prefix('.').and_then(|name| name.split_once(".new-")).map(|(whole, _)| whole);
    [FLOWS, METRICS, SUMMARY].contains(&name) || half.is_some_and(|whole| [INDEX, METRICS, SUMMARY].contains(&whole))
}

/// How many jobs are done that the directory's table of metrics is without: of those that the index lists, and of those that were done after
/// it. `table` has the hashes of its jobs.
pub(crate) fn ungathered(dir: &Path, table: &HashSet<&str>) -> usize {
    let listed = listed(&dir.join(INDEX)).unwrap_or_default();
    let modified = |meta: &fs::Metadata| meta.modified().ok();
    let made = fs::metadata(dir.join(METRICS)).ok().as_ref().and_then(modified);
    let lacking = |entry: &fs::DirEntry| {
        let name = entry.file_name();
        let Some(hash) = name.to_str().and_then(|name| name.strip_suffix(".parquet")) else { return false };
        let done = || entry.metadata().ok().filter(|meta| meta.is_file() && meta.len() > 0);
        !table.contains(hash) && done().is_some_and(|meta| listed.contains(hash) || modified(&meta) > made)
    };
    fs::read_dir(dir.join(JOBS)).into_iter().flatten().flatten().filter(lacking).count()
}

/// The hashes in an index.
fn listed(index: &Path) -> Option<HashSet<String>> {
    #[derive(serde::Deserialize)]
    struct Index {
        jobs: Vec<Entry>,
    }
    #[derive(serde::Deserialize)]
    struct Entry {
        job: String,
    }
    let bytes = files::read_regular(index, frame::MOST_BYTES).ok()?;
    let index: Index = serde_json::from_slice(&bytes).ok()?;
    Some(index.jobs.into_iter().map(|entry| entry.job).collect())
}

/// A job as index and listing name it.
pub(crate) fn described(jobs: &Jobs, job: &Job) -> Value {
    let point = &jobs.points[job.point];
    let values: serde_json::Map<String, Value> =
        jobs.axes.iter().cloned().zip(point.values.iter().map(AxisValue::json)).collect();
    json!({"job": job.hash, "point": point.label, "values": values, "scheme": job.scheme, "seed": job.seed})
}

/// Writes beside and renames, so that a reader finds the whole file or none. The name beside is this call's alone, on any machine.
fn replaced(path: &Path, bytes: &[u8]) -> io::Result<()> {
    let directory = path.parent().unwrap_or(Path::new("."));
    fs::create_dir_all(directory)?;
    let (partial, mut file) = fresh(path)?;
    let written = file.write_all(bytes).and_then(|()| file.sync_all()).and_then(|()| fs::rename(&partial, path));
    match written {
        // Somebody else finished the same file, and tidied.
        Err(e) if e.kind() == ErrorKind::NotFound && path.is_file() => Ok(()),
        Err(e) => {
            let _ = fs::remove_file(&partial); // it would be tidied once the file is there
            Err(e)
        }
        Ok(()) => File::open(directory)?.sync_all(),
    }
}

fn fresh(path: &Path) -> io::Result<(PathBuf, File)> {
    let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
    let mut n = 0;
    loop {
        let partial = path.with_file_name(format!(".{name}.new-{}-{n}", std::process::id()));
        match OpenOptions::new().write(true).create_new(true).open(&partial) {
            Err(e) if e.kind() == ErrorKind::AlreadyExists && n < 10_000 => n += 1,
            opened => return opened.map(|file| (partial, file)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_are_whole_and_only_what_is_done_is_tidied() {
        let scratch = tempfile::tempdir().unwrap();
        let dir = scratch.path().join("sweep");
        let store = Store::at(&dir, true).unwrap();
        assert!(!store.done("aa") && !dir.exists());
        store.keep("aa", b"metrics", Some(b"flows")).unwrap();
        store.keep("aa", b"metrics", Some(b"flows")).unwrap();
        assert!(store.done("aa"));
        assert_eq!(fs::read_dir(dir.join(JOBS)).unwrap().count(), 1, "nothing half-written stays");
        store.write(&Store::file("ee"), b"").unwrap();
        assert!(!Store::at(&dir, false).unwrap().done("ee"), "an empty file");
        store.keep("bb", b"metrics", None).unwrap();
        assert!(!store.done("bb") && Store::at(&dir, false).unwrap().done("bb"));
        // Two left by killed processes: of a job that is done, and of one that somebody may still be writing.
        let left = [dir.join(JOBS).join(".aa.parquet.new-1-0"), dir.join(JOBS).join(".cc.parquet.new-1-0")];
        left.iter().for_each(|path| fs::write(path, "half").unwrap());
        let job = |hash: &str| Job { hash: hash.to_owned(), point: 0, scheme: "ecmp".to_owned(), seed: 1 };
        store.tidy(&Jobs::of(vec![job("aa"), job("cc")]));
        assert!(!left[0].exists() && left[1].exists());
    }

    #[test]
    fn a_directory_that_others_begin_or_left_half_made_is_ours() {
        let scratch = tempfile::tempdir().unwrap();
        for half in ["flows/.aa.parquet.new-99-0", ".sweep.json.new-99-0", ".metrics.parquet.new-99-0"] {
            let dir = scratch.path().join(half.replace('/', "-"));
            let file = dir.join(half);
            fs::create_dir_all(file.parent().unwrap()).unwrap();
            fs::write(&file, "").unwrap();
            assert!(Store::at(&dir, true).is_ok(), "{half}");
            fs::write(dir.join("thesis.tex"), "").unwrap();
            assert!(Store::at(&dir, true).is_err(), "{half}, and something else");
        }
        // Whatever is written first, the jobs' directory is before it.
        let dir = scratch.path().join("new");
        let store = Store::at(&dir, true).unwrap();
        fs::create_dir(&dir).unwrap();
        fs::write(dir.join(FLOWS), "in the way").unwrap();
        assert!(store.keep("aa", b"metrics", Some(b"flows")).is_err());
        assert!(dir.join(JOBS).is_dir());
    }

    #[test]
    fn a_directory_of_other_things_is_refused() {
        let dir = tempfile::tempdir().unwrap();
        let dir = dir.path();
        assert!(Store::at(dir, false).is_ok(), "an empty one will do");
        fs::write(dir.join("thesis.tex"), "").unwrap();
        let said = Store::at(dir, false).unwrap_err().to_string();
        assert!(said.contains("holds files, and none of a sweep; choose another directory"), "{said}");
        let said = Store::at(&dir.join("thesis.tex"), false).unwrap_err().to_string();
        assert!(said.contains("is no directory"), "{said}");
        std::os::unix::fs::symlink("nowhere", dir.join("link")).unwrap();
        let said = Store::at(&dir.join("link"), false).unwrap_err().to_string();
        assert!(said.contains("is a symbolic link to what is not there; choose another"), "{said}");
    }
}
