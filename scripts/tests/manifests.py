#!/usr/bin/env python3
"""packaging/kubernetes: the manifests agree with one another, with the image and with the agent's unit, and no container has more
rights than it needs. Whether the program understands their arguments is tested by crates/selvedge/tests/documents.rs, whether
agent.toml is valid by tests/schema."""

import copy
import re
import sys
from pathlib import Path

import yaml

ROOT = Path(__file__).resolve().parent.parent.parent
KUBERNETES = ROOT / "packaging" / "kubernetes"


def text(path):
    return (ROOT / path).read_text(encoding="utf-8")


def only(pattern, path):
    found = re.findall(pattern, text(path), re.MULTILINE)
    assert len(found) >= 1, f"{path}: nothing matches {pattern}"
    return found[0]


def facts():
    """What other files of this tree say."""
    capabilities = only(r"^CapabilityBoundingSet=(.*)$", "packaging/selvedge.service").split()
    version = only(r'^version = "(.*)"$', "Cargo.toml")
    return {
        "image": f"localhost/selvedge:{version}",
        "capabilities": {name.removeprefix("CAP_") for name in capabilities},
        "programs": {f"/{path}" for path in re.findall(r'"(usr/[a-z/-]+)"', text("scripts/oci-image"))},
        "pins": only(r'^pub const PINS: &str = "(.*)";', "crates/selvedge/src/agent/file/tables.rs"),
        "socket": only(r'^pub const SOCKET: &str = "(.*)";', "crates/agent-api/src/protocol.rs"),
    }


def overlay(directory):
    """A kustomization, and the objects of its files."""
    kustomization = yaml.safe_load((directory / "kustomization.yaml").read_text(encoding="utf-8"))
    objects = {}
    for name in kustomization["resources"]:
        for one in yaml.safe_load_all((directory / name).read_text(encoding="utf-8")):
            objects[one["kind"]] = one
    files = {path.name for path in directory.iterdir()} - {"kustomization.yaml"}
    return {"kustomization": kustomization, "objects": objects, "files": files}


def generated(one):
    """Files of each ConfigMap that kustomize makes."""
    return {entry["name"]: entry["files"] for entry in one["kustomization"].get("configMapGenerator", [])}


def below(path, mounts):
    return any(path == mount or path.startswith(f"{mount}/") for mount in mounts)


def check_files(one):
    named = set(one["kustomization"]["resources"]) | {file for files in generated(one).values() for file in files}
    for file in sorted(named ^ one["files"]):
        yield f"{file}: named by kustomization.yaml and no file, or a file that it does not name"


def check_objects(one):
    objects, namespace = one["objects"], one["kustomization"]["namespace"]
    if set(objects) != {"Namespace", "ServiceAccount", "DaemonSet"}:
        yield f"has {sorted(objects)}"
        return
    if objects["Namespace"]["metadata"]["name"] != namespace:
        yield "the namespace is another than the kustomization's"
    for kind in ("ServiceAccount", "DaemonSet"):
        if objects[kind]["metadata"].get("namespace") != namespace:
            yield f"{kind} is in another namespace"
    spec = objects["DaemonSet"]["spec"]
    pod, labels = spec["template"]["spec"], spec["template"]["metadata"]["labels"]
    if not spec["selector"]["matchLabels"].items() <= labels.items():
        yield "the selector does not select the pods"
    if pod["serviceAccountName"] != objects["ServiceAccount"]["metadata"]["name"]:
        yield "no such service account"
    if pod.get("automountServiceAccountToken") is not False or objects["ServiceAccount"].get("automountServiceAccountToken") is not False:
        yield "gives its pods a token"
    if not pod.get("hostNetwork") or pod.get("hostPID") or pod.get("hostIPC"):
        yield "of the host's namespaces, the pods need that of the network and no other"
    if {"operator": "Exists"} not in pod["tolerations"]:
        yield "does not run on every node"


def check_volumes(one):
    pod = one["objects"]["DaemonSet"]["spec"]["template"]["spec"]
    volumes = [volume["name"] for volume in pod["volumes"]]
    used = set()
    for container in containers(pod):
        paths = [mount["mountPath"] for mount in container["volumeMounts"]]
        if len(set(paths)) != len(paths):
            yield f"{container['name']}: two mounts at one path"
        for mount in container["volumeMounts"]:
            used.add(mount["name"])
            if "mountPropagation" in mount:
                yield f"{container['name']}: no mount has to reach the host"
    for name in sorted(used ^ set(volumes)):
        yield f"volume {name}: mounted and not there, or there and not mounted"
    for volume in pod["volumes"]:
        if "configMap" in volume and volume["configMap"]["name"] not in generated(one):
            yield f"volume {volume['name']}: no such ConfigMap"


def containers(pod):
    return pod.get("initContainers", []) + pod["containers"]


def check_containers(one, known):
    pod = one["objects"]["DaemonSet"]["spec"]["template"]["spec"]
    configurations = {volume["name"]: volume["configMap"]["name"] for volume in pod["volumes"] if "configMap" in volume}
    for container in containers(pod):
        name, arguments = container["name"], container["args"]
        mounts = {mount["mountPath"]: mount["name"] for mount in container["volumeMounts"]}
        if container["image"] != known["image"]:
            yield f"{name}: the image is {container['image']}, not {known['image']}"
        if not container["resources"]["requests"].keys() >= {"cpu", "memory"}:
            yield f"{name}: requests no resources"
        yield from (f"{name}: {fault}" for fault in check_rights(container["securityContext"], arguments[0] == "agent", known))
        if arguments[0] == "agent":
            for path in (known["pins"], known["socket"]):
                if not below(path, mounts):
                    yield f"{name}: {path} is in no volume"
        for option, value in zip(arguments, arguments[1:]):
            if option in ("--bin-dir", "--conf-dir") and value not in mounts:
                yield f"{name}: {value} is no volume"
            if option == "--program" and value not in known["programs"]:
                yield f"{name}: the image has no {value}"
            if option == "--config":
                directory, _, file = value.rpartition("/")
                if file not in generated(one).get(configurations.get(mounts.get(directory)), []):
                    yield f"{name}: {value} is in no ConfigMap"
        for probe in (value for key, value in container.items() if key.endswith("Probe")):
            if probe["exec"]["command"][0] not in known["programs"]:
                yield f"{name}: the image has no {probe['exec']['command'][0]}"


def check_rights(context, is_agent, known):
    if context.get("privileged") or context.get("allowPrivilegeEscalation") is not False:
        yield "is privileged, or may become so"
    if context.get("readOnlyRootFilesystem") is not True:
        yield "may write to its root"
    if context["capabilities"].get("drop") != ["ALL"]:
        yield "does not drop all capabilities"
    added = set(context["capabilities"].get("add", []))
    if added != (known["capabilities"] if is_agent else set()):
        yield f"adds the capabilities {sorted(added)}"


def check_removal(limits, remove):
    """What limits puts on a node, remove takes from it."""
    for file in ("namespace.yaml", "service-account.yaml"):
        if (KUBERNETES / "limits" / file).read_bytes() != (KUBERNETES / "remove" / file).read_bytes():
            yield f"{file} differs"
    placed, removed = (one["objects"]["DaemonSet"] for one in (limits, remove))
    if placed["metadata"] != removed["metadata"] or placed["spec"]["selector"] != removed["spec"]["selector"]:
        yield "the removal does not take the DaemonSet's place"
    of_host = lambda one: [v for v in one["spec"]["template"]["spec"]["volumes"] if "hostPath" in v]  # noqa: E731
    if of_host(placed) != of_host(removed):
        yield "the directories of the host differ"
    done = [container["args"][:2] for container in containers(removed["spec"]["template"]["spec"])]
    if done[:2] != [["cni", "uninstall"], ["agent", "stop"]]:
        yield "the plugin goes first, then the edge"


def check(limits, remove, known):
    for name, one in (("limits", limits), ("remove", remove)):
        for part in (check_files(one), check_objects(one), check_volumes(one), check_containers(one, known)):
            yield from (f"{name}: {fault}" for fault in part)
    yield from (f"remove: {fault}" for fault in check_removal(limits, remove))


def each_check_finds_its_fault(limits, remove, known):
    """Puts one fault after the other into what is right."""
    def agent(one):
        return one["objects"]["DaemonSet"]["spec"]["template"]["spec"]["containers"][0]

    faults = [
        lambda one: one["files"].add("other.yaml"),
        lambda one: one["objects"]["DaemonSet"]["metadata"].update(namespace="default"),
        lambda one: one["objects"]["DaemonSet"]["spec"]["template"]["metadata"].update(labels={"a": "b"}),
        lambda one: one["objects"]["DaemonSet"]["spec"]["template"]["spec"].update(hostPID=True),
        lambda one: one["objects"]["DaemonSet"]["spec"]["template"]["spec"]["volumes"].pop(),
        lambda one: one["kustomization"]["configMapGenerator"][0].update(name="other"),
        lambda one: one["kustomization"]["configMapGenerator"][0].update(files=["other.toml"]),
        lambda one: agent(one).update(image="localhost/selvedge:0.0.0"),
        lambda one: agent(one)["securityContext"].update(privileged=True),
        lambda one: agent(one)["securityContext"]["capabilities"]["add"].append("SYS_ADMIN"),
        lambda one: agent(one)["volumeMounts"].pop(),
        lambda one: agent(one)["readinessProbe"]["exec"].update(command=["/bin/selvedge"]),
        lambda one: agent(one).update(args=["agent", "run", "--config", "/etc/agent.toml"]),
        lambda one: agent(one).update(args=["cni", "install", "--program", "/usr/bin/other"]),
    ]
    for number, fault in enumerate(faults):
        wrong = copy.deepcopy(limits)
        fault(wrong)
        assert list(check(wrong, remove, known)), f"fault {number} is not found"
    return len(faults)


def main():
    for path in sorted((ROOT / "packaging").rglob("*.y*ml")):
        with path.open(encoding="utf-8") as file:
            list(yaml.safe_load_all(file))
    limits, remove, known = overlay(KUBERNETES / "limits"), overlay(KUBERNETES / "remove"), facts()
    found = list(check(limits, remove, known))
    for fault in found:
        print(f"packaging/kubernetes/{fault}", file=sys.stderr)
    if found:
        return 1
    print(f"manifests: agree; {each_check_finds_its_fault(limits, remove, known)} faults are found")
    return 0


if __name__ == "__main__":
    sys.exit(main())
