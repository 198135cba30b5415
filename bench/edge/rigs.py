"""What bench/edge/run compares: two guests in namespaces, and what lies between them. README.md draws it."""

import json
import os
import re
import shutil
import signal
import subprocess
import time
from pathlib import Path

NETNS = Path("/run/netns")
BPFFS = Path("/sys/fs/bpf")
NETWORK = 7


class Impossible(Exception):
    """This path cannot be made here; says why."""


def ip(line):
    result = subprocess.run(["ip", *line.split()], capture_output=True, text=True)
    if result.returncode:
        raise Impossible(f"ip {line}: {result.stderr.strip()}")


def inside(namespace, *command, **options):
    """Without `ip netns exec`, which would hide the bpffs behind another mount namespace."""
    return subprocess.run(["nsenter", f"--net={NETNS}/{namespace}", *map(str, command)], check=True, **options)


def ended(process):
    if process.poll() is None:
        process.send_signal(signal.SIGTERM)
        try:
            process.wait(timeout=5)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def remove_leftovers():
    """Of runs that were killed: names carry the process."""
    for directory in (NETNS, BPFFS):
        for path in directory.glob("svb*"):
            owner = re.match(r"svb(\d+)[a-z]", path.name)
            if owner and not Path(f"/proc/{owner[1]}").exists():
                if directory == NETNS:
                    subprocess.run(["ip", "netns", "del", path.name], check=False)
                else:
                    shutil.rmtree(path, ignore_errors=True)


class Rig:
    """Guests g0 and g1, each behind a host, the hosts joined by a veth pair."""

    letter = "?"
    hosts_between = True
    guest_mtu, uplink_mtu = 1450, 1500
    # The address that the client sends to.
    address = "10.7.0.2"
    # Of load.c's clients.
    environment = ()

    def __init__(self, mtu_frames, selvedge, directory):
        self.mtu_frames, self.selvedge = mtu_frames, selvedge
        tag = f"svb{os.getpid()}{self.letter}"
        self.guests = [f"{tag}g{i}" for i in (0, 1)]
        self.hosts = [f"{tag}h{i}" for i in (0, 1)] if self.hosts_between else []
        self.pins = [BPFFS / f"{tag}{i}" for i in (0, 1)]
        self.directory = directory / tag
        self.processes = []

    def make(self):
        shutil.rmtree(self.directory, ignore_errors=True)
        self.directory.mkdir()
        for name in self.guests + self.hosts:
            ip(f"netns add {name}")
        if self.hosts_between:
            ip(f"link add u0 netns {self.hosts[0]} type veth peer name u0 netns {self.hosts[1]}")
            for host, guest in zip(self.hosts, self.guests):
                ip(f"link add g netns {host} type veth peer name eth0 netns {guest}")
        else:
            ip(f"link add eth0 netns {self.guests[0]} type veth peer name eth0 netns {self.guests[1]}")
        for i, guest in enumerate(self.guests):
            ip(f"-n {guest} link set eth0 address {self.mac(i)} mtu {self.guest_mtu} up")
            ip(f"-n {guest} addr add 10.7.0.{i + 1}/24 dev eth0")
        for i, host in enumerate(self.hosts):
            ip(f"-n {host} addr add 192.168.99.{i + 1}/24 dev u0")
            ip(f"-n {host} link set u0 mtu {self.uplink_mtu} up")
            ip(f"-n {host} link set g mtu {self.guest_mtu} up")
        if self.mtu_frames:
            for name in self.hosts or self.guests:
                self.cut_frames(name, "u0" if self.hosts_between else "eth0")
        for i in range(len(self.hosts)):
            self.join(i)

    @staticmethod
    def cut_frames(namespace, device):
        inside(namespace, "ethtool", "-K", device, "tso", "off", "gso", "off", "tx-udp_tnl-segmentation", "off", "gro",
               "on", capture_output=True)

    @staticmethod
    def mac(i):
        return f"02:00:0a:07:00:0{i + 1}"

    def join(self, i):
        """Connect guest and uplink of host i."""

    def start(self, host, *command):
        process = subprocess.Popen(["nsenter", f"--net={NETNS}/{host}", *map(str, command)], stdin=subprocess.DEVNULL,
                                   stdout=open(self.directory / "log", "a"), stderr=subprocess.STDOUT)
        self.processes.append(process)
        return process

    def close(self):
        for process in self.processes:
            ended(process)
        for name in self.guests + self.hosts:
            subprocess.run(["ip", "netns", "del", name], check=False, capture_output=True)
        for pins in self.pins:
            shutil.rmtree(pins, ignore_errors=True)


class Direct(Rig):
    """One veth pair and nothing else: what a network costs at least here."""

    letter = "d"
    hosts_between = False
    guest_mtu = 1500


class Edge(Rig):
    """The agent of this project on both hosts, flowcells over eight labels."""

    letter = "e"
    balance = 'policy = "flowcell"\nflowcell = "64KB"\nlabels = 8'
    more = ""

    def join(self, i):
        other = 1 - i
        config = self.directory / f"agent{i}.toml"
        socket = self.directory / f"ctl{i}.sock"
        config.write_text(f"""[agent]
pins = "{self.pins[i]}"
socket = "{socket}"

[uplink]
interface = "u0"
address = "192.168.99.{i + 1}"

[balance]
{self.balance}

[[port]]
interface = "g"
network = {NETWORK}
addresses = ["10.7.0.{i + 1}"]
mac = "{self.mac(i)}"

[[peer]]
name = "other"
address = "192.168.99.{other + 1}"
guests = [{{ network = {NETWORK}, prefix = "10.7.0.{other + 1}/32", mac = "{self.mac(other)}" }}]
{self.more}""")
        agent = self.start(self.hosts[i], self.selvedge, "agent", "run", "--config", config)
        # Loading takes seconds on a machine that has other things to do.
        deadline = time.monotonic() + 90
        while not socket.exists():
            if agent.poll() is not None or time.monotonic() > deadline:
                raise Impossible(f"the agent does not start: {(self.directory / 'log').read_text().strip()[-400:]}")
            time.sleep(0.05)

    def programs(self, name="flows"):
        """Run time in ns and runs so far of this rig's programs: those that use a map which its agents pinned."""
        return tuple(map(sum, zip(*self.programs_by_host(name))))

    def programs_by_host(self, name="flows"):
        found, all_programs = [], bpftool("prog", "show")
        for pins in self.pins:
            maps = {bpftool("map", "show", "pinned", path)["id"] for path in pins.glob(f"v*/{name}")}
            ours = [p for p in all_programs if maps & set(p.get("map_ids", []))]
            found.append((sum(p.get("run_time_ns", 0) for p in ours), sum(p.get("run_cnt", 0) for p in ours)))
        return found


class Node(Edge):
    """The same on hosts that forward for their other interfaces, as Kubernetes' nodes do: the edge keeps next hops there."""

    letter = "n"

    def join(self, i):
        inside(self.hosts[i], "sh", "-c", "echo 1 > /proc/sys/net/ipv4/ip_forward")
        super().join(i)


class Before(Edge):
    """The same by another binary: of the version that a change is held against."""

    letter = "b"


class Congested(Edge):
    """The same with virtual congestion control for all connections."""

    letter = "c"
    more = "\n[congestion]\n"


class Classes(Edge):
    """The plain edge, and in front of guest 0 an HTB class for each connection: what the bookkeeping costs, as they hold nothing back."""

    letter = "k"
    COUNT = 10000
    environment = ("PRIORITY=65537",)  # 1:1, and so on

    def make(self):
        super().make()
        batch = self.directory / "classes"
        batch.write_text("qdisc add dev eth0 root handle 1: htb\n" + "".join(
            f"class add dev eth0 parent 1: classid 1:{n:x} htb rate 1gbit burst 256k cburst 256k quantum 65536\n" for n in range(1, self.COUNT + 1)))
        result = subprocess.run(["nsenter", f"--net={NETNS}/{self.guests[0]}", "tc", "-batch", batch], capture_output=True, text=True)
        if result.returncode:
            raise Impossible(f"tc: {result.stderr.strip()[:400]}")


class Clove(Edge):
    """The same with Clove instead of flowcells; no router marks, so weights stay equal."""

    letter = "w"
    balance = f'policy = "clove"\nlabels = {list(range(50000, 50008))}'  # listed, as nothing here discovers them


class Shares(Edge):
    """The same with HyGenICC's shares, faster than anything here, and no marks: what they cost, not what they hold back."""

    letter = "s"
    more = '''
[tenants]
uplink_rate = "100Gbps"
rtt = "200us"
'''


class Statistics:
    """kernel.bpf_stats_enabled, put back as it was."""

    FILE = Path("/proc/sys/kernel/bpf_stats_enabled")

    def __enter__(self):
        self.before = self.FILE.read_text()
        self.FILE.write_text("1")

    def __exit__(self, *_):
        self.FILE.write_text(self.before)


def bpftool(*args):
    command = ["bpftool", "-j", *map(str, args)]
    return json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout)


class Vxlan(Rig):
    """A bridge and the kernel's VXLAN device on each host."""

    letter = "v"

    def join(self, i):
        host = self.hosts[i]
        ip(f"-n {host} link add vx type vxlan id {NETWORK} local 192.168.99.{i + 1} remote 192.168.99.{2 - i} "
           "dstport 4789 dev u0")
        ip(f"-n {host} link add b0 type bridge")
        for device in ("vx", "g"):
            ip(f"-n {host} link set {device} master b0 mtu {self.guest_mtu} up")
        ip(f"-n {host} link set b0 up")


class Routed(Rig):
    """As many veth pairs as the edge has, with nothing but the kernel's forwarding between them."""

    letter = "r"
    guest_mtu = 1500
    address = "10.8.0.2"

    def join(self, i):
        host, guest = self.hosts[i], self.guests[i]
        subnet = ("10.7.0", "10.8.0")
        ip(f"-n {guest} addr flush dev eth0")
        ip(f"-n {guest} addr add {subnet[i]}.2/24 dev eth0")
        ip(f"-n {guest} route add default via {subnet[i]}.1")
        ip(f"-n {host} addr add {subnet[i]}.1/24 dev g")
        ip(f"-n {host} route add {subnet[1 - i]}.0/24 via 192.168.99.{2 - i}")
        inside(host, "sh", "-c", "echo 1 > /proc/sys/net/ipv4/ip_forward")


class Ovs(Rig):
    """Open vSwitch with its userspace datapath, a VXLAN tunnel between the hosts."""

    letter = "o"

    def make(self):
        for program in ("ovs-vswitchd", "ovsdb-server", "ovsdb-tool", "ovs-vsctl"):
            if not shutil.which(program):
                raise Impossible(f"{program} is not installed (Debian: openvswitch-switch)")
        if not Path("/dev/net/tun").exists():
            raise Impossible("/dev/net/tun is missing")
        super().make()

    def join(self, i):
        host, here = self.hosts[i], self.directory / f"ovs{i}"
        here.mkdir()
        # Its sockets and files are its own; a switch that this machine may run is left alone.
        self.environment = dict(os.environ, OVS_RUNDIR=str(here), OVS_LOGDIR=str(here), OVS_DBDIR=str(here))
        database, socket = here / "conf.db", f"unix:{here}/db.sock"
        schema = next((p for p in map(Path, ("/usr/share/openvswitch/vswitch.ovsschema",
                                             "/usr/local/share/openvswitch/vswitch.ovsschema")) if p.exists()), None)
        if schema is None:
            raise Impossible("the schema of Open vSwitch's database is missing")
        subprocess.run(["ovsdb-tool", "create", database, schema], check=True)
        self.start(host, "env", f"OVS_RUNDIR={here}", "ovsdb-server", database, f"--remote=p{socket}")
        self.wait(here / "db.sock")
        self.control(socket, "--no-wait", "init")
        self.start(host, "env", f"OVS_RUNDIR={here}", "ovs-vswitchd", socket)
        # The uplink belongs to the switch, and its address to the switch's own port: the tunnel is routed there.
        ip(f"-n {host} addr flush dev u0")
        self.control(socket, "add-br", "phy", "--", "set", "bridge", "phy", "datapath_type=netdev", "--", "add-port",
                     "phy", "u0")
        self.control(socket, "add-br", "int", "--", "set", "bridge", "int", "datapath_type=netdev", "--", "add-port",
                     "int", "g", "--", "add-port", "int", "vx", "--", "set", "interface", "vx", "type=vxlan",
                     f"options:remote_ip=192.168.99.{2 - i}", f"options:key={NETWORK}")
        ip(f"-n {host} addr add 192.168.99.{i + 1}/24 dev phy")
        ip(f"-n {host} link set phy up")
        # Its packet sockets see frames as they are: neither unfinished checksums nor segments get through.
        inside(self.guests[i], "ethtool", "-K", "eth0", "tx", "off", "tso", "off", "gso", "off", capture_output=True)
        if i == 1:
            self.try_it()

    def try_it(self):
        for _ in range(10):
            try:
                inside(self.guests[0], "ping", "-c", "1", "-W", "1", "10.7.0.2", capture_output=True)
                return
            except subprocess.CalledProcessError:
                continue
        raise Impossible(f"nothing gets through: {(self.directory / 'log').read_text().strip()[-300:]}")

    def wait(self, path):
        for _ in range(200):
            if path.exists():
                return
            time.sleep(0.02)
        raise Impossible(f"{path.name} does not appear: {(self.directory / 'log').read_text().strip()[-300:]}")

    @staticmethod
    def control(socket, *args):
        result = subprocess.run(["ovs-vsctl", "--timeout=20", f"--db={socket}", *args], capture_output=True, text=True)
        if result.returncode:
            raise Impossible(f"ovs-vsctl {' '.join(args)}: {result.stderr.strip()}")


RIGS = {"direct": Direct, "edge": Edge, "node": Node, "before": Before, "acdc": Congested, "classes": Classes, "clove": Clove,
        "shares": Shares, "vxlan": Vxlan, "ovs": Ovs, "routed": Routed}
