//! The kernel edge in a build without the feature `kernel`: the names of `with.rs`, which answer that it is lacking.

use agent_api::config::Config;
use lab::HostNamespace;
use std::path::Path;

pub const BUILT: bool = false;

/// The agent is not in this build.
#[derive(Debug, thiserror::Error)]
#[error("built without the feature `kernel`: build it with `cargo build --release --features kernel`, with clang and the headers of libelf and zlib")]
pub struct Error;

impl Error {
    pub fn is_request(&self) -> bool {
        false
    }

    pub fn is_of_file(&self) -> bool {
        false
    }
}

pub fn available() -> Result<(), String> {
    Err("the kernel edge is not in this program: built without the feature `kernel`".to_owned())
}

pub fn try_edge() -> Result<(), String> {
    available()
}

pub fn try_laws() -> Result<(), String> {
    available()
}

pub fn try_drops() -> Result<(), String> {
    available()
}

pub fn has_fq() -> Option<bool> {
    None
}

pub fn has_htb() -> Option<bool> {
    None
}

pub fn has_vxlan() -> Option<bool> {
    None
}

/// The file is read all the same: what is wrong with it comes first.
pub fn run(load: &mut dyn FnMut() -> Result<Config, String>) -> Result<(), Error> {
    let _ = load();
    Err(Error)
}

pub fn resolve(_: &Config) -> Result<Vec<String>, Error> {
    Ok(vec!["interfaces were not looked up: this program was built without the feature `kernel`".to_owned()])
}

pub fn stop(_: &Path, _: &Path) -> Result<(), Error> {
    Err(Error)
}

pub fn other_edges(_: &Path) -> Vec<std::path::PathBuf> {
    Vec::new()
}

pub struct Dctcp(());

impl Dctcp {
    pub fn register() -> Result<Dctcp, String> {
        Err("this kernel has no dctcp; build Selvedge with the feature `kernel`, which brings one along".to_owned())
    }

    pub fn name(&self) -> &str {
        "dctcp"
    }
}

pub fn mark(_: &str, _: &kernel_lab::Queue, _: &Path) -> Result<(), String> {
    Err("built without the feature `kernel`: build it with `cargo build --release --features kernel`".to_owned())
}

pub fn marks(_: &Path) -> Result<kernel_lab::Marks, String> {
    Err("a build with the feature `kernel` made this lab: ask that one".to_owned())
}

pub struct Unruly(());

impl Unruly {
    pub fn load() -> Result<Unruly, String> {
        Err("hosts keep to their windows in this build; build Selvedge with the feature `kernel` for `ignore_window`"
            .to_owned())
    }

    pub fn add(&mut self, _: &HostNamespace) -> Result<(), String> {
        Ok(())
    }
}
