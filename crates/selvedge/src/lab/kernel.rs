//! `selvedge lab kernel`: the leaf-spine fabric of `kernel_lab`.

use crate::kernel_edge;
use clap::{Args, Subcommand};
use edge::balance::{Balance, Scheme};
use kernel_lab::{Error, KernelLab, Overlay, Shape, State, Status, Up, Wire};
use std::ffi::OsString;
use std::fmt::Write;
use std::sync::atomic::Ordering;
use std::sync::LazyLock;
use units::{BitRate, Bytes};

#[derive(Debug, Subcommand)]
pub enum Kernel {
    /// Make the fabric; nothing happens if it is up already
    Up(Box<UpArguments>),
    /// Take the fabric down with all that runs in it, also one that was left half-made
    Down {
        #[command(flatten)]
        lab: Name,
    },
    /// Show nodes, links and addresses. Exit status 0 if all of it is up, 1 otherwise
    Status {
        #[command(flatten)]
        lab: Name,
        /// Print one JSON object
        #[arg(long)]
        json: bool,
    },
    /// Run a command in a node's network, and end as it ends
    Exec {
        #[command(flatten)]
        lab: Name,
        /// leaf1, spine2, host3, guest3.1: the first guest of host 3
        node: String,
        /// The command and its arguments, after --
        #[arg(last = true, required = true)]
        command: Vec<OsString>,
    },
}

/// What `--policy` says of itself.
static POLICIES: LazyLock<String> = LazyLock::new(|| {
    let mut text = "How the edge picks labels:".to_owned();
    for scheme in Scheme::of_kernel() {
        let _ = write!(text, "\n{}: {}", scheme.name, scheme.about.replace('`', ""));
        for parameter in scheme.parameters {
            let _ = write!(text, "; {}={}", parameter.name, parameter.range().replace('`', ""));
        }
    }
    text
});

fn policy(text: &str) -> Result<Balance, String> {
    let policy: Balance = text.parse()?;
    if policy.scheme().is_of_kernel() {
        return Ok(policy);
    }
    let names: Vec<&str> = Scheme::of_kernel().map(|scheme| scheme.name).collect();
    Err(format!(
        "no switch tells the kernel edge of its links' utilisation, and it runs no ticks: {} needs one of them; give {}",
        policy.scheme().name,
        names.join(", ")
    ))
}

#[derive(Debug, Args)]
pub struct Name {
    /// Which lab; several may be up at once
    #[arg(long, value_name = "NAME", default_value = "lab")]
    pub name: String,
}

#[derive(Debug, Args)]
pub struct UpArguments {
    #[command(flatten)]
    pub lab: Name,
    /// Leaf switches, 1 to 16
    #[arg(long, value_name = "N", default_value_t = Shape::default().leaves)]
    pub leaves: u16,
    /// Spine switches, 1 to 16
    #[arg(long, value_name = "N", default_value_t = Shape::default().spines)]
    pub spines: u16,
    /// Parallel links between each leaf and each spine, 1 to 8
    #[arg(long, value_name = "N", default_value_t = Shape::default().links)]
    pub links: u16,
    /// Hosts of each leaf, 1 to 32
    #[arg(long, value_name = "N", default_value_t = Shape::default().hosts)]
    pub hosts: u16,
    /// Guests of each host, 1 to 64
    #[arg(long, value_name = "N", default_value_t = Shape::default().guests)]
    pub guests: u16,
    /// MTU of the fabric's links in bytes
    #[arg(long, value_name = "BYTES", default_value_t = Shape::default().mtu)]
    pub mtu: u32,
    /// What crosses the uplinks: whole segments of up to 64 KB, or packets of the MTU as on a cable
    #[arg(long, value_name = "whole|mtu", default_value = "whole")]
    pub wire: Wire,
    /// What carries guests' packets between hosts
    #[arg(long, value_name = "routed|vxlan|edge|none", default_value = "routed")]
    pub overlay: Overlay,
    /// Run the edge on every host: the same as --overlay edge
    #[arg(long, conflicts_with = "overlay")]
    pub edge: bool,
    #[arg(long, value_name = "NAME[,KEY=VALUE]", help = POLICIES.as_str(), value_parser = policy, default_value_t = Shape::default().policy)]
    pub policy: Balance,
    /// Labels of the policy's schedule, 1 to 256
    #[arg(long, value_name = "N", default_value_t = Shape::default().labels, value_parser = clap::value_parser!(u16).range(1..=256))]
    pub labels: u16,
    /// Rate of the links between leaves and spines: one for all, or one for each link of a leaf, those to spine 1 first. Without it
    /// links are as fast as the machine
    #[arg(long, value_name = "RATE[,RATE]", value_delimiter = ',')]
    pub rate: Vec<BitRate>,
    /// What may wait at each end of a link with a rate [default: 256KB]
    #[arg(long, value_name = "SIZE")]
    pub buffer: Option<Bytes>,
    /// Routers set CE on ECN-capable packets that find more than this waiting for a link with a rate; `status` counts them
    #[arg(long, value_name = "SIZE")]
    pub mark: Option<Bytes>,
}

/// # Errors
/// What the fabric cannot do, in one line.
pub fn run(command: &Kernel) -> Result<bool, Error> {
    match command {
        Kernel::Up(arguments) => up(arguments),
        Kernel::Down { lab } => {
            match KernelLab::new(&lab.name)?.down()? {
                true => say!("lab {} is down", lab.name),
                false => say!("lab {} was not up", lab.name),
            }
            Ok(true)
        }
        Kernel::Status { lab, json } => {
            let lab = KernelLab::new(&lab.name)?;
            let mut status = lab.status()?;
            if status.state == State::Up {
                status.read_marks(&lab, kernel_edge::marks)?;
            }
            match json {
                true => crate::say::json(&serde_json::json!(status)),
                false => say_on!("{}", print(&status)),
            }
            Ok(status.state == State::Up)
        }
        Kernel::Exec { lab, node, command } => Err(KernelLab::new(&lab.name)?.exec(node, command)),
    }
}

fn up(arguments: &UpArguments) -> Result<bool, Error> {
    let lab = KernelLab::new(&arguments.lab.name)?;
    let shape = Shape {
        leaves: arguments.leaves,
        spines: arguments.spines,
        links: arguments.links,
        hosts: arguments.hosts,
        guests: arguments.guests,
        mtu: arguments.mtu,
        wire: arguments.wire,
        overlay: if arguments.edge { Overlay::Edge } else { arguments.overlay },
        policy: arguments.policy,
        labels: arguments.labels,
        rates: arguments.rate.clone(),
        buffer: arguments.buffer,
        mark: arguments.mark,
    };
    if shape.overlay == Overlay::Edge {
        kernel_edge::available().map_err(Error::NoEdge)?;
    }
    let program = std::env::current_exe().map_err(|e| Error::Io("find", e, "/proc/self/exe".into()))?;
    let interrupted = crate::interrupt::flag();
    let done = match lab.up(&shape, &program, &kernel_edge::mark, &|| interrupted.load(Ordering::Relaxed))? {
        Up::Made => "is up",
        Up::Was => "was up already",
    };
    let name = lab.name();
    say!(
        "lab {name} {done}: {} leaves, {} spines, {} links between each two, {} hosts, {} guests; overlay: {}",
        shape.leaves,
        shape.spines,
        shape.links,
        shape.host_count(),
        shape.host_count() * shape.guests,
        shape.overlay
    );
    let (other, _) = kernel_lab::guest_address(shape.host_count(), 1);
    if shape.overlay != Overlay::None {
        say!("try: selvedge lab kernel exec --name {name} guest1.1 -- ping -c 3 {other}");
    }
    Ok(true)
}

/// For people.
fn print(status: &Status) -> String {
    let state = match status.state {
        State::Up => "up",
        State::Partial => "partly there: take it down",
        State::Down => "down",
    };
    let mut text = format!("lab {}: {state}\n", status.name);
    for node in &status.nodes {
        let missing = if node.present { "" } else { "  MISSING" };
        let agent = match node.agent {
            Some(true) => "  agent answers",
            Some(false) => "  agent DOES NOT ANSWER",
            None => "",
        };
        let _ = writeln!(text, "{:<10}{}{missing}{agent}", node.name, node.namespace); // strings take all
        for interface in &node.interfaces {
            let state = if interface.up { "up" } else { "DOWN" };
            let addresses = interface.addresses.join(" ");
            let _ = writeln!(text, "  {:<8}{state:<6}mtu {:<7}{addresses}", interface.name, interface.mtu);
        }
    }
    for link in status.links.iter().filter(|link| !link.up) {
        let _ = writeln!(text, "link {} - {} is DOWN", link.ends[0], link.ends[1]);
    }
    for link in &status.links {
        for (end, marks) in link.ends.iter().zip(link.marks.iter().flatten()) {
            let _ = writeln!(
                text,
                "queue of {end:<12} {} of {} packets marked, {} without room; {} now, {} at most",
                marks.marked, marks.packets, marks.full, marks.queue, marks.longest
            );
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn schemes_that_the_kernel_has_not_are_refused_before_anything_is_built() {
        for name in ["flowlet", "clove"] {
            assert_eq!(policy(name).map(|balance| balance.scheme().name), Ok(name));
        }
        let refused = policy("clove-int,flowlet_gap=1ms").unwrap_err();
        assert!(refused.contains("utilisation") && refused.contains("give ecmp, "), "{refused}");
        assert!(POLICIES.contains("\nclove:") && !POLICIES.contains("clove-int"), "{}", *POLICIES);
    }
}
