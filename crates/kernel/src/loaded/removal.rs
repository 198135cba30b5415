//! Taking an edge off the host without loading one.

use super::attach;
use super::pins::{entries, holds_maps, remove_pins, INSIDE, KEPT};
use super::{Error, Result};
use std::fs;
use std::io;
use std::path::Path;

/// Takes the programs of the edge below `pins` off their interfaces, and removes what edges of any version pinned there and nothing
/// else; `pins` too, unless others use it. No program is loaded for that. Fine if there is nothing.
///
/// # Errors
/// The first pin that does not go.
pub fn remove_edge(pins: &Path) -> Result<()> {
    for (ifindex, role) in attach::attachments(pins) {
        attach::detach(pins, ifindex, role)?;
    }
    let own = |path: &Path| holds_maps(path) || ["links", "filters", KEPT].iter().any(|own| path.ends_with(own));
    entries(pins).iter().filter(|path| own(path)).try_for_each(|dir| remove_pins(dir))?;
    for pin in [INSIDE.to_owned(), format!("{INSIDE}{}", attach::NEW)].map(|name| pins.join(name)) {
        match fs::remove_file(&pin) {
            Err(e) if e.kind() != io::ErrorKind::NotFound => return Err(Error::Io("remove", pin, e)),
            _ => {}
        }
    }
    match fs::remove_dir(pins) {
        Err(e) if e.kind() != io::ErrorKind::DirectoryNotEmpty && e.kind() != io::ErrorKind::NotFound => {
            Err(Error::Io("remove", pins.into(), e))
        }
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::super::pins::other_edges;
    use super::*;

    #[test]
    fn only_what_is_an_edges_is_removed() {
        let dir = tempfile::tempdir().unwrap();
        let pins = dir.path().join("pins");
        for own in ["v3", "v3-1024", "v12", "links", "filters", "kept"] {
            fs::create_dir_all(pins.join(own)).unwrap();
            fs::write(pins.join(own).join("x"), "").unwrap();
        }
        fs::write(pins.join("inside"), "").unwrap();
        fs::write(pins.join("inside-new"), "").unwrap();
        for others in ["virtual", "v", "v3-", "v3a", "tc"] {
            fs::create_dir_all(pins.join(others)).unwrap();
        }
        let (beside, other) = (pins.with_extension("beside"), pins.with_extension("other"));
        fs::create_dir_all(beside.join("v3")).unwrap();
        fs::create_dir_all(other.join("virtual")).unwrap();
        let others = other_edges(&pins);
        assert!(others.contains(&beside) && !others.contains(&other) && !others.contains(&pins), "{others:?}");
        remove_edge(&pins).unwrap();
        let mut left: Vec<_> = entries(&pins).iter().map(|path| path.file_name().unwrap().to_owned()).collect();
        left.sort();
        assert_eq!(left, ["tc", "v", "v3-", "v3a", "virtual"]);
        fs::remove_dir_all(&pins).unwrap();
        remove_edge(&pins).expect("fine if there is nothing");
    }
}
