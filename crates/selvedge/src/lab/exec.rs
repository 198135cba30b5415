//! Running programs in a lab's hosts.

use super::state::{Record, MARK};
use super::LabFailure;
use lab::HostNamespace;
use std::convert::Infallible;
use std::ffi::OsString;
use std::os::unix::process::CommandExt;
use std::process::Command;

/// Becomes the program, in the host's network. Arguments that name a host become its address.
///
/// # Errors
/// No such lab or host; a program that does not start.
pub(super) fn exec(lab: &str, host: &str, command: &[OsString]) -> Result<Infallible, LabFailure> {
    let record = Record::read(lab)?;
    let host = record.host(host)?;
    if !record.is_alive() {
        return Err(LabFailure::Dead(lab.to_owned()));
    }
    let namespace = HostNamespace::open(&host.namespace, host.inode).map_err(LabFailure::io("the host's namespace"))?;
    namespace.join().map_err(LabFailure::io("the host's namespace"))?;
    let (program, arguments) = command.split_first().ok_or(LabFailure::NoCommand)?;
    let mut process = Command::new(program);
    for argument in arguments {
        match argument.to_str().and_then(|name| record.find(name)) {
            Some(named) => process.arg(&named.address),
            None => process.arg(argument),
        };
    }
    let source = process.env(MARK, &record.id).exec();
    Err(LabFailure::Program { program: program.to_string_lossy().into_owned(), source })
}
