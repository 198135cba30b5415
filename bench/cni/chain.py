"""What a container runtime does with a CNI chain, for all that is here: namespaces, plugins in turn, an agent."""

import json
import os
import shutil
import subprocess
import time
from pathlib import Path

PLUGINS = Path(os.environ.get("CNI_PATH", "/usr/lib/cni"))
NETNS = Path("/run/netns")
VERSION = "1.0.0"
# Limiter: the chain's last plugin, and what the agent's configuration says of limits.
LIMITERS = {
    "none": (None, ""),
    "bandwidth": ("bandwidth", ""),
    "htb": ("selvedge", '[limits]\nlaw = "off"\nsparse_first = false\n'),
    "spring-alone": ("selvedge", "[limits]\nsparse_first = false\n"),
    "spring": ("selvedge", ""),
}


class Impossible(Exception):
    """Why this cannot run here."""


class Refused(Exception):
    """A plugin's error, as it printed it."""

    def __init__(self, plugin, verb, answer):
        super().__init__(f"{plugin} {verb}: {answer.get('msg')} (code {answer.get('code')})")
        self.code = answer.get("code")


def obstacle(plugins=("bridge", "host-local", "portmap", "bandwidth"), tools=("ip", "tc", "nsenter", "chrt", "bpftool", "iptables")):
    """Why nothing can run here, or None."""
    if os.geteuid() != 0:
        return "needs root"
    for name in plugins:
        if not (PLUGINS / name).exists():
            return f"needs the plugin {name} in {PLUGINS} (Debian: containernetworking-plugins)"
    for tool in tools:
        if not shutil.which(tool):
            return f"needs {tool}"
    if not os.path.ismount("/sys/fs/bpf"):
        return "needs a BPF file system: mount -t bpf bpf /sys/fs/bpf"
    return None


def ip(text):
    subprocess.run(["ip", *text.split()], check=True, capture_output=True, text=True)


def said(namespace, *command):
    """What a command prints in a namespace, nothing if it fails."""
    done = subprocess.run(["nsenter", f"--net={NETNS / namespace}", *command], capture_output=True, text=True)
    return done.stdout if done.returncode == 0 else ""


class Host:
    """A namespace that stands for the host, with an agent for limits only; made anew, or that of this process (`own`)."""

    def __init__(self, name, selvedge, directory, own=False):
        self.name, self.selvedge, self.directory, self.own = name, str(selvedge), Path(directory), own
        self.inside = [] if own else ["nsenter", f"--net={NETNS / name}"]
        self.pins, self.socket = Path("/sys/fs/bpf") / name, self.directory / "ctl.sock"
        self.config, self.log = self.directory / "agent.toml", self.directory / "agent.log"
        self.agent = None
        self.config.write_text(f'[agent]\npins = "{self.pins}"\nsocket = "{self.socket}"\nunchecked = true\n')
        if not own:
            ip(f"netns add {name}")
            ip(f"-n {name} link set lo up")

    def start(self):
        """An agent; waits until it answers."""
        with self.log.open("a") as log:
            command = [*self.inside, self.selvedge, "agent", "run", "--config", str(self.config)]
            self.agent = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=log, stderr=log)
        for _ in range(600):
            if self.agent.poll() is not None:
                raise Impossible(f"the agent has ended: {self.log.read_text()[-400:]}")
            if self.ctl("status"):
                return
            time.sleep(0.05)
        raise Impossible("the agent does not answer")

    def kill(self):
        if self.agent:
            self.agent.kill()
            self.agent.wait()
        self.agent = None

    def ctl(self, *words):
        command = [self.selvedge, "ctl", *words, "--json", "--socket", str(self.socket)]
        done = subprocess.run(command, capture_output=True, text=True)
        return json.loads(done.stdout) if done.returncode == 0 else None

    def close(self):
        """The edge, and the namespace."""
        self.kill()
        subprocess.run([*self.inside, self.selvedge, "agent", "stop", "--config", str(self.config)], capture_output=True)
        if not self.own:
            subprocess.run(["ip", "netns", "del", self.name], capture_output=True)


class Chain:
    """A network: its name and plugins, the last of which may limit containers."""

    def __init__(self, host, network, limiter):
        ipam = {"type": "host-local", "dataDir": str(host.directory / "ipam"), "ranges": [[{"subnet": "10.88.0.0/16"}]]}
        bridge = {"type": "bridge", "bridge": "cni0", "isGateway": True, "ipMasq": False, "ipam": ipam}
        self.host, self.network = host, network
        self.plugins = [bridge, {"type": "portmap", "capabilities": {"portMappings": True}}]
        if limiter == "selvedge":
            self.plugins.append({"type": "selvedge", "capabilities": {"bandwidth": True}, "socket": str(host.socket)})
        elif limiter:
            self.plugins.append({"type": limiter, "capabilities": {"bandwidth": True}})

    def command(self, plugin):
        return self.host.selvedge if plugin == "selvedge" else str(PLUGINS / plugin)

    def call(self, plugin, verb, container, namespace, capabilities, previous):
        """One plugin; its result, None where it prints none."""
        network = {**plugin, "cniVersion": VERSION, "name": self.network}
        wanted = network.pop("capabilities", {})
        network["runtimeConfig"] = {key: value for key, value in capabilities.items() if wanted.get(key)}
        if previous:
            network["prevResult"] = previous
        environment = {
            "PATH": os.environ["PATH"], "CNI_COMMAND": verb, "CNI_CONTAINERID": container, "CNI_IFNAME": "eth0",
            "CNI_NETNS": str(NETNS / namespace), "CNI_PATH": str(PLUGINS),
        }
        # Not nsenter: the plugins look into /sys/class/net, which `ip netns exec` mounts for the namespace.
        command = [*([] if self.host.own else ["ip", "netns", "exec", self.host.name]), self.command(plugin["type"])]
        done = subprocess.run(command, input=json.dumps(network), env=environment, capture_output=True, text=True)
        answer = json.loads(done.stdout) if done.stdout.strip() else None
        if done.returncode:
            raise Refused(plugin["type"], verb, answer or {"msg": done.stderr.strip() or f"status {done.returncode}"})
        return answer

    def add(self, container, namespace, capabilities):
        result = None
        for plugin in self.plugins:
            result = self.call(plugin, "ADD", container, namespace, capabilities, result)
        return result

    def check(self, container, namespace, capabilities, result):
        # portmap 1.1.1 looks for rules of IPv6 that it has not made.
        for plugin in (plugin for plugin in self.plugins if plugin["type"] != "portmap"):
            self.call(plugin, "CHECK", container, namespace, capabilities, result)

    def delete(self, container, namespace, capabilities, result):
        for plugin in reversed(self.plugins):
            self.call(plugin, "DEL", container, namespace, capabilities, result)


def bandwidth(bps, burst_bits=2_000_000):
    """The capability of that name, both directions alike."""
    return {"ingressRate": bps, "ingressBurst": burst_bits, "egressRate": bps, "egressBurst": burst_bits}
