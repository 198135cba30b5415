//! Where the demonstration's traffic flows: a container and a server on a bridge of a host, in three namespaces without names.

use lab::{HostNamespace, LabError};
use std::io;
use std::net::{IpAddr, Ipv4Addr};

/// The host's end of the container's veth pair.
pub(super) const PORT: &str = "veth1";
/// The server's, behind which the rest of the network would be.
const BEYOND: &str = "veth2";
pub(super) const CONTAINER: IpAddr = IpAddr::V4(Ipv4Addr::new(10, 88, 0, 2));
pub(super) const SERVER: IpAddr = IpAddr::V4(Ipv4Addr::new(10, 88, 0, 1));

/// Gone when dropped, and with this process.
pub(super) struct Network {
    pub(super) host: HostNamespace,
    pub(super) container: HostNamespace,
    pub(super) server: HostNamespace,
}

impl Network {
    /// # Errors
    /// What the kernel refuses, or that there is no `ip`.
    pub(super) fn new() -> Result<Network, String> {
        let namespace = || HostNamespace::new().map_err(|e| forbidden(&e));
        let network = Network { host: namespace()?, container: namespace()?, server: namespace()? };
        network.set_up().map_err(|e| e.to_string())?;
        Ok(network)
    }

    fn set_up(&self) -> Result<(), LabError> {
        let mut host = "link add br0 type bridge\nlink set br0 up\n".to_owned();
        for (port, guest) in [(PORT, &self.container), (BEYOND, &self.server)] {
            host += &format!("link add {port} type veth peer name eth0 netns {}\n", guest.path());
            host += &format!("link set {port} master br0\nlink set {port} up\n");
        }
        self.host.batch("ip", &host)?;
        for (guest, address) in [(&self.container, CONTAINER), (&self.server, SERVER)] {
            guest.batch("ip", &format!("link set lo up\naddr add {address}/24 dev eth0\nlink set eth0 up\n"))?;
        }
        Ok(())
    }
}

fn forbidden(error: &io::Error) -> String {
    format!("network namespaces cannot be made here: {error}")
}
