//! The end of labs, and removal of a killed lab's remains.

use super::control::{answering, ask, ask_unrecorded, Request, CONTROL};
use super::state::{all, directory, is_of_gone, lock, Record};
use super::LabFailure;
use crate::Failure;
use std::time::Duration;

/// # Errors
/// No such lab, or one that does not go away.
pub(super) fn down(name: &str, every: bool) -> Result<bool, Failure> {
    let names = if every { all()? } else { vec![name.to_owned()] };
    if every && names.is_empty() {
        say!("no labs are up");
    }
    for name in names {
        one(&name)?;
    }
    Ok(true)
}

fn one(name: &str) -> Result<(), LabFailure> {
    let _lock = lock()?;
    let record = match Record::read(name) {
        Ok(record) => record,
        Err(e) if e.is_request() => return Err(e),
        Err(_) => return unrecorded(name),
    };
    if !record.is_alive() {
        let ended = remove(name)?;
        say!("lab {name} is down; its process had gone, {ended} of its programs were ended");
        return Ok(());
    }
    let asked = match ask(name, &Request::Down) {
        Ok(_) => true,
        Err(LabFailure::Dead(_)) => false, // it was killed and is still ending
        Err(e) => return Err(e),
    };
    for _ in 0..500 {
        if !record.is_alive() {
            let ended = remove(name)?;
            match asked {
                true => say!("lab {name} is down"),
                false => say!("lab {name} is down; its process had gone, {ended} of its programs were ended"),
            }
            return Ok(());
        }
        std::thread::sleep(Duration::from_millis(10));
    }
    Err(LabFailure::Stuck { name: name.to_owned(), pid: record.pid })
}

/// The same of a lab whose record is damaged or gone: it still answers if its process lives.
fn unrecorded(name: &str) -> Result<(), LabFailure> {
    let Some(process) = answering(name)? else {
        let begun = directory(name)?.join(CONTROL).exists();
        let ended = lab::end_marked(&|entry| is_of_gone(name, entry));
        remove(name)?;
        match begun || ended > 0 {
            true => say!("lab {name} is down; its process had gone, {ended} of its programs were ended"),
            false => say!("lab {name} is down; it had never come up"),
        }
        return Ok(());
    };
    match ask_unrecorded(name, &Request::Down) {
        Ok(_) | Err(LabFailure::Dead(_)) => {}
        Err(e) => return Err(e),
    }
    for _ in 0..500 {
        if !process.is_alive() {
            remove(name)?;
            say!("lab {name} is down; its record was damaged or missing");
            return Ok(());
        }
        std::thread::sleep(Duration::from_millis(10));
    }
    Err(LabFailure::Stuck { name: name.to_owned(), pid: process.pid })
}

/// Ends what still runs in a lab whose process is gone, and removes its directory. How many programs there were.
///
/// # Errors
/// As the file system gives them.
pub(super) fn remove(name: &str) -> Result<usize, LabFailure> {
    let mut ended = 0;
    if let Ok(record) = Record::read(name) {
        ended = lab::end_processes(Some(&record.mark()), &record.inodes());
    }
    let dir = directory(name)?;
    match std::fs::remove_dir_all(&dir) {
        Err(e) if e.kind() != std::io::ErrorKind::NotFound => Err(LabFailure::io("the lab's directory")(e)),
        _ => Ok(ended),
    }
}
