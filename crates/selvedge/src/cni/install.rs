//! `selvedge cni install` and `uninstall`: the plugin where a runtime finds it, and on the runtime's list.

use super::list::{self, Wanted};
use crate::say;
use agent_api::config::{MAX_RATE, MIN_RATE};
use clap::{Args, Subcommand};
use files::{read_regular, replace_as};
use nix::errno::Errno;
use nix::fcntl::{Flock, FlockArg};
use std::fs::{self, File};
use std::io;
use std::os::unix::fs::{chown, symlink, MetadataExt};
use std::path::{Path, PathBuf};
use std::sync::mpsc::{channel, Receiver, RecvTimeoutError};
use std::time::Duration;
use units::BitRate;

/// Where runtimes look for plugins: most of them, Debian's podman and containerd, Fedora's.
const PLACES: [&str; 3] = ["/opt/cni/bin", "/usr/lib/cni", "/usr/libexec/cni"];
/// A longer list is a mistake; so is a longer program.
const MAX_LIST: u64 = 1 << 20;
const MAX_PROGRAM: u64 = 256 << 20;
/// Between two looks at the lists: a network that is being set up writes its own at any time.
const LOOK: Duration = Duration::from_secs(1);
/// How often it is tried to lock the directory of lists, and the time between: ten seconds in all.
const LOCKS: u32 = 100;
const LOCK_PAUSE: Duration = Duration::from_millis(100);

#[derive(Debug, Subcommand)]
pub enum Cni {
    /// Give runtimes the plugin, and put it on their list of plugins
    Install(Install),
    /// Take both away, and put back what `--replace-bandwidth` took out
    Uninstall(Place),
}

#[derive(Debug, Args)]
pub struct Place {
    /// Where runtimes look for plugins [default: which of /opt/cni/bin, /usr/lib/cni and /usr/libexec/cni has the list's plugins]
    #[arg(long, value_name = "DIR")]
    bin_dir: Option<PathBuf>,
    /// Where runtimes look for lists; they take the first
    #[arg(long, value_name = "DIR", default_value = "/etc/cni/net.d")]
    conf_dir: PathBuf,
    /// This list instead of the first
    #[arg(long, value_name = "FILE")]
    list: Option<PathBuf>,
}

#[derive(Debug, Args)]
pub struct Install {
    #[command(flatten)]
    place: Place,
    /// Copy this program, for hosts that do not see ours [default: a link to this one]
    #[arg(long, value_name = "FILE")]
    program: Option<PathBuf>,
    /// Socket of the agent, if it is not where the plugin looks by itself
    #[arg(long, value_name = "PATH")]
    socket: Option<String>,
    /// Of what containers send for which the runtime names no rate, such as 300Mbps
    #[arg(long, value_name = "RATE", value_parser = rate)]
    egress: Option<BitRate>,
    /// Of what they get
    #[arg(long, value_name = "RATE", value_parser = rate)]
    ingress: Option<BitRate>,
    /// Take the plugin `bandwidth` out of the list: two limiters are one too many
    #[arg(long)]
    replace_bandwidth: bool,
    /// Stay, and do it again when program or lists have changed, until SIGTERM
    #[arg(long)]
    watch: bool,
}

/// Each names the file.
#[derive(Debug, thiserror::Error)]
pub enum InstallError {
    #[error("cannot read {0}: {1}")]
    Read(PathBuf, io::Error),
    #[error("cannot write {0}: {1}; {remedy}", remedy = remedy(.1))]
    Write(PathBuf, io::Error),
    #[error(
        "{0} has no list of plugins (*.conflist): set up the network first, or name another directory with --conf-dir"
    )]
    NoList(PathBuf),
    #[error(
        "{0} comes first for runtimes and is no list of plugins: make it a .conflist, or name the list with --list"
    )]
    NotFirst(PathBuf),
    #[error("{0}: {1}")]
    List(PathBuf, String),
    #[error("there is no directory {0}: make it, or name the one where your runtime looks for plugins with --bin-dir")]
    NoDirectory(PathBuf),
    #[error(
        "no plugin of {0} is in {places}: install the network's plugins first, or name where your runtime looks for them with --bin-dir",
        places = PLACES.join(", ")
    )]
    NoPlace(PathBuf),
    #[error("{0} is locked: somebody else changes lists of plugins; try again")]
    Locked(PathBuf),
    #[error("{0} stays, for a list may still name it: mend what is said above, and try again")]
    Kept(PathBuf),
    #[error("cannot listen for signals: {0}")]
    Signals(String),
}

fn remedy(error: &io::Error) -> &'static str {
    match error.kind() {
        io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => "free some space, and try again",
        io::ErrorKind::PermissionDenied => {
            "run as root, or name directories where you may write with --bin-dir and --conf-dir"
        }
        _ => "name directories that can be written with --bin-dir and --conf-dir",
    }
}

/// # Errors
/// A directory that cannot be read or written, or what is no list. With `--watch` these are told, and tried again.
pub fn run(command: &Cni) -> Result<(), InstallError> {
    match command {
        Cni::Install(arguments) if arguments.watch => watch(arguments),
        Cni::Install(arguments) => {
            let Done { target, list, network } = once(arguments, &mut None)?;
            say!("{}: runtimes find the plugin.", target.display());
            say!("{}: the plugin is on the list of network {network}.", list.display());
            Ok(())
        }
        Cni::Uninstall(place) => uninstall(place),
    }
}

fn watch(arguments: &Install) -> Result<(), InstallError> {
    let ended = signals()?;
    let (mut copied, mut said) = (None, String::new());
    loop {
        let state = match once(arguments, &mut copied) {
            Ok(Done { list, network, .. }) => {
                format!("the plugin is on {}, the list of network {network}", list.display())
            }
            Err(error) => format!("waiting: {error}"),
        };
        if state != said {
            say::note(&state);
            said = state;
        }
        match ended.recv_timeout(LOOK) {
            Err(RecvTimeoutError::Timeout) => {}
            Ok(()) | Err(RecvTimeoutError::Disconnected) => return Ok(()),
        }
    }
}

/// A message when the program is to end. The first process of a container is not ended by signals that it does not listen for.
fn signals() -> Result<Receiver<()>, InstallError> {
    let (to, from) = channel();
    let listening = ctrlc::set_handler(move || _ = to.send(()));
    listening.map_err(|e| InstallError::Signals(e.to_string()))?;
    Ok(from)
}

/// Where the plugin is, and which network has it.
struct Done {
    target: PathBuf,
    list: PathBuf,
    network: String,
}

/// `copied`: the programs, if they were found to be the same.
fn once(arguments: &Install, copied: &mut Option<[Stamp; 2]>) -> Result<Done, InstallError> {
    let _alone = alone(&arguments.place)?;
    if let Some(missing) = arguments.place.bin_dir.as_ref().filter(|directory| !directory.is_dir()) {
        return Err(InstallError::NoDirectory(missing.clone()));
    }
    // Who stays has the program there before there is a network, whose list may name it already.
    if let (true, Some(directory)) = (arguments.watch, &arguments.place.bin_dir) {
        put(arguments, &directory.join(list::NAME), copied)?;
    }
    let list = chosen(&arguments.place)?;
    let before = read(&list, MAX_LIST)?;
    let of_list = |why| InstallError::List(list.clone(), why);
    let target = match &arguments.place.bin_dir {
        Some(directory) => directory.clone(),
        None => {
            let plugins = list::others(&before).map_err(of_list)?;
            place_of(&plugins, &PLACES.map(Path::new)).ok_or_else(|| InstallError::NoPlace(list.clone()))?
        }
    };
    let target = target.join(list::NAME);
    let wanted = Wanted {
        socket: arguments.socket.as_deref(),
        replace_bandwidth: arguments.replace_bandwidth,
        egress_bps: arguments.egress.map(BitRate::as_bps),
        ingress_bps: arguments.ingress.map(BitRate::as_bps),
    };
    let (text, network) = list::with_plugin(&before, wanted).map_err(of_list)?;
    if text.as_ref().is_some_and(|text| text.len() as u64 > MAX_LIST) {
        return Err(InstallError::List(list, format!("it would be longer than {MAX_LIST} bytes")));
    }
    // The program first: no runtime is to look for one that is not there.
    let was_there = fs::symlink_metadata(&target).is_ok();
    put(arguments, &target, copied)?;
    if let Some(Err(error)) = text.map(|text| rewrite(&list, &text)) {
        // Who stays tries again.
        if !was_there && !arguments.watch {
            let _ = fs::remove_file(&target); // the first error is the one to tell
        }
        return Err(error);
    }
    Ok(Done { target, list, network })
}

fn put(arguments: &Install, target: &Path, copied: &mut Option<[Stamp; 2]>) -> Result<(), InstallError> {
    match &arguments.program {
        Some(program) => copy(program, target, copied),
        None => link(target),
    }
}

/// The directory that has most of the list's plugins, for there the runtime looks; of several the first. `None`: no directory has any.
fn place_of(plugins: &[String], places: &[&Path]) -> Option<PathBuf> {
    let has = |place: &&&Path| plugins.iter().filter(|plugin| place.join(plugin).exists()).count();
    let best = places.iter().rev().max_by_key(has).filter(|place| has(place) > 0);
    best.map(|place| place.to_path_buf())
}

/// What the agent grants: with another rate no container would begin.
fn rate(text: &str) -> Result<BitRate, String> {
    let rate: BitRate = text.parse().map_err(|e: units::ParseError| e.to_string())?;
    match (MIN_RATE..=MAX_RATE).contains(&rate) {
        true => Ok(rate),
        false => Err(format!("give {MIN_RATE} to {MAX_RATE}")),
    }
}

/// No link into nowhere.
fn is_there(target: &Path) -> bool {
    fs::metadata(target).is_ok()
}

/// Without a directory that is named, only a link to this program goes, or one into nowhere: a copy is somebody else's, such as the DaemonSet's.
fn uninstall(place: &Place) -> Result<(), InstallError> {
    // Without a directory of lists none names the plugin.
    let none = place.list.is_none() && !place.conf_dir.exists();
    let _alone = if none { None } else { Some(alone(place)?) };
    let places = place.bin_dir.as_ref().map_or_else(|| PLACES.map(PathBuf::from).to_vec(), |place| vec![place.clone()]);
    let targets = places.iter().map(|place| place.join(list::NAME));
    let (ours, others): (Vec<PathBuf>, Vec<PathBuf>) = targets
        .filter(|target| fs::symlink_metadata(target).is_ok())
        .partition(|target| place.bin_dir.is_some() || is_own(target) || !is_there(target));
    // A list may mean either, and where it is ours, nothing would be behind it.
    let nothing_is_ours = ours.is_empty() && !others.is_empty();
    if let Some(other) = others.first() {
        let lists = if nothing_is_ours { ", and so do lists that name it" } else { "" };
        say::note(&format!("{}: somebody else's; it stays{lists}", other.display()));
    }
    // The lists first: no runtime is to look for a program that has gone.
    let lists = match &place.list {
        Some(list) => vec![list.clone()],
        None if none || nothing_is_ours => Vec::new(),
        None => configurations(&place.conf_dir)?.into_iter().filter(|file| is_list(file)).collect(),
    };
    let mut unsure = false;
    for list in lists {
        let text = read(&list, MAX_LIST);
        // What cannot be understood may name the plugin all the same, as one that is being written.
        let names = text.as_ref().map_or(true, |text| String::from_utf8_lossy(text).contains(list::NAME));
        match text.map(|text| list::without_plugin(&text)) {
            Ok(Ok(Some(text))) => {
                rewrite(&list, &text)?;
                say!("{}: the plugin is gone.", list.display());
            }
            Ok(Ok(None)) => {}
            Ok(Err(why)) => {
                unsure |= names;
                say::note(&format!("{}: left alone: {why}", list.display()));
            }
            Err(error) => {
                unsure = true;
                say::note(&format!("left alone: {error}"));
            }
        }
    }
    let mut failed = None;
    for target in ours {
        if unsure {
            return Err(InstallError::Kept(target));
        }
        match fs::remove_file(&target) {
            Ok(()) => say!("{}: removed.", target.display()),
            Err(e) => failed = Some(InstallError::Write(target, e)),
        }
    }
    failed.map_or(Ok(()), Err)
}

/// A link to this program.
fn is_own(target: &Path) -> bool {
    let own = std::env::current_exe().and_then(fs::canonicalize);
    own.is_ok_and(|own| fs::canonicalize(target).is_ok_and(|there| there == own))
}

/// Others who change lists wait, until this is dropped. Anybody may lock what anybody can read, so nobody waits for ever.
fn alone(place: &Place) -> Result<Flock<File>, InstallError> {
    let directory = match &place.list {
        Some(list) => list.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new(".")),
        None => &place.conf_dir,
    };
    let failed = |e| InstallError::Read(directory.into(), e);
    let mut opened = File::open(directory).map_err(failed)?;
    for _ in 0..LOCKS {
        match Flock::lock(opened, FlockArg::LockExclusiveNonblock) {
            Ok(locked) => return Ok(locked),
            Err((again, Errno::EWOULDBLOCK)) => opened = again,
            Err((_, e)) => return Err(failed(e.into())),
        }
        std::thread::sleep(LOCK_PAUSE);
    }
    Err(InstallError::Locked(directory.into()))
}

/// Which content a file has, without reading it.
type Stamp = (u64, u64, i64, i64);

fn stamp(path: &Path) -> io::Result<Stamp> {
    fs::metadata(path).map(|meta| (meta.ino(), meta.len(), meta.mtime(), meta.mtime_nsec()))
}

fn copy(program: &Path, target: &Path, copied: &mut Option<[Stamp; 2]>) -> Result<(), InstallError> {
    let stamps = || Some([stamp(program).ok()?, stamp(target).ok()?]);
    if copied.is_some() && *copied == stamps() {
        return Ok(());
    }
    let new = read(program, MAX_PROGRAM)?;
    if read(target, MAX_PROGRAM).ok().as_ref() != Some(&new) {
        replace_as(target, &new, 0o755).map_err(|e| InstallError::Write(target.into(), e))?;
    }
    *copied = stamps();
    Ok(())
}

/// So that an upgrade of this program is one of the plugin.
fn link(target: &Path) -> Result<(), InstallError> {
    let failed = |e| InstallError::Write(target.into(), e);
    let own = std::env::current_exe().and_then(fs::canonicalize).map_err(failed)?;
    if fs::canonicalize(target).is_ok_and(|there| there == own) {
        return Ok(());
    }
    let partial = files::beside(target, ".new");
    let _ = fs::remove_file(&partial); // of an attempt that was interrupted
    let linked = symlink(own, &partial).and_then(|()| fs::rename(&partial, target));
    if linked.is_err() {
        let _ = fs::remove_file(&partial); // perhaps there is none
    }
    linked.map_err(failed)
}

/// The list that a runtime takes: the first by its name.
fn chosen(place: &Place) -> Result<PathBuf, InstallError> {
    if let Some(list) = &place.list {
        return Ok(list.clone());
    }
    let first = configurations(&place.conf_dir)?.into_iter().next();
    match first {
        None => Err(InstallError::NoList(place.conf_dir.clone())),
        Some(first) if !is_list(&first) => Err(InstallError::NotFirst(first)),
        Some(first) => Ok(first),
    }
}

/// What runtimes read there, in their order.
fn configurations(directory: &Path) -> Result<Vec<PathBuf>, InstallError> {
    let failed = |e| InstallError::Read(directory.into(), e);
    let mut found = Vec::new();
    for entry in fs::read_dir(directory).map_err(failed)? {
        let path = entry.map_err(failed)?.path();
        if path.is_dir() {
            continue; // runtimes do so, too
        }
        let kind = path.extension().and_then(|extension| extension.to_str());
        if matches!(kind, Some("conf" | "conflist" | "json")) {
            found.push(path);
        }
    }
    found.sort();
    Ok(found)
}

fn is_list(file: &Path) -> bool {
    file.extension().is_some_and(|extension| extension == "conflist")
}

fn read(path: &Path, most: u64) -> Result<Vec<u8>, InstallError> {
    read_regular(path, most).map_err(|e| InstallError::Read(path.into(), e))
}

/// With the permissions and the owner that it has.
fn rewrite(list: &Path, text: &[u8]) -> Result<(), InstallError> {
    let failed = |e| InstallError::Write(list.into(), e);
    // What a link leads to, rather than the link.
    let file = fs::canonicalize(list).map_err(failed)?;
    let before = fs::metadata(&file).map_err(failed)?;
    replace_as(&file, text, before.mode() & 0o777).map_err(failed)?;
    if fs::metadata(&file).is_ok_and(|now| (now.uid(), now.gid()) != (before.uid(), before.gid())) {
        let _ = chown(&file, Some(before.uid()), Some(before.gid())); // who may not give files away keeps it
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_plugin_goes_where_the_lists_plugins_are() {
        let scratch = tempfile::tempdir().unwrap();
        let [none, first, second] = ["none", "first", "second"].map(|name| scratch.path().join(name));
        let places = [none.as_path(), first.as_path(), second.as_path()];
        let of = |names: &[&str]| place_of(&names.iter().map(|n| (*n).to_owned()).collect::<Vec<_>>(), &places);
        assert_eq!(of(&["bridge"]), None);
        for directory in [&first, &second] {
            fs::create_dir(directory).unwrap();
        }
        assert_eq!(of(&["bridge"]), None, "where nobody has a plugin no runtime looks for one");
        fs::write(second.join("bridge"), "").unwrap();
        assert_eq!(of(&["bridge", "dnsname"]).as_ref(), Some(&second), "most of them");
        fs::write(first.join("portmap"), "").unwrap();
        fs::write(second.join("portmap"), "").unwrap();
        assert_eq!(of(&["bridge", "portmap"]).as_ref(), Some(&second));
        fs::write(first.join("bridge"), "").unwrap();
        assert_eq!(of(&["bridge", "portmap"]).as_ref(), Some(&first), "the first of two that have all");
    }
}
