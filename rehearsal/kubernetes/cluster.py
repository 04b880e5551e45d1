"""Starts Kubernetes on rehearsed hosts: certificates, files, the control plane, the nodes, and the GPUs that nodes offer."""

from __future__ import annotations

import json
import os
import subprocess
import time
from pathlib import Path
from typing import Any

from rehearsal.host import cgroups, hosts
from rehearsal.host.spec import HostSpec
from rehearsal.kubernetes import archive, texts
from rehearsal.net import wires
from rehearsal.world.world import World

VERSION = "1.28.15"
_NODE = Path(__file__).with_name("node")
_USER = "ubuntu"
_PATIENCE_S = 120
_PLUGINS = ("bridge", "host-device", "host-local", "loopback", "portmap")
_NEEDED = (
    "kube-apiserver",
    "kube-controller-manager",
    "kube-scheduler",
    "kubelet",
    "kube-proxy",
    "kubectl",
    *("multus", "thin_entrypoint", "install_multus"),
    *("whereabouts", "ip-control-loop", "install-cni.sh"),
)
#: Programs that whereabouts's installation script runs; in an image that is based on Alpine, BusyBox provides these programs.
_SHELL = ("sh", "base64", "cat", "chmod", "cp", "date", "echo", "mkdir", "sed", "sleep", "touch", "tr")


def programs() -> Path:
    """Return the folder in the user's cache that tools/setup fills.

    Raises:
        RuntimeError: a program is missing in that folder.
    """
    # Tests set XDG_CACHE_HOME to a cache of their own, which lacks these programs, so the user's cache is searched, too.
    caches = [Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"), Path.home() / ".cache"]
    folders = [cache / "busbar" / f"kubernetes-{VERSION}" for cache in caches]
    found = [folder for folder in folders if all((folder / name).is_file() for name in _NEEDED)]
    if not found:
        raise RuntimeError(f"{folders[0]} lacks a program of Kubernetes; `tools/setup kubernetes` builds all these programs")
    return found[0]


def start(
    world: World, control_plane: HostSpec, nodes: list[HostSpec], reached_at: str, *, secondary_networks: bool = True
) -> None:
    """Start the cluster, with its API at the public address `reached_at`; return when every node is ready and offers its GPUs.

    Without `secondary_networks`, the cluster has neither Multus nor whereabouts, but its nodes have the images of both.

    Raises:
        RuntimeError: the cluster did not start in time; the message has the last lines of each host's log.
    """
    own = _certificates(world, control_plane, reached_at)
    server = f"https://{control_plane.address}:6443"
    shared = own | {"admin.conf": texts.kubeconfig(server).encode()}
    _lay(world, control_plane, "etc/kubernetes", shared)
    home = f"/home/{_USER}/.kube"
    own_kubectl = f"mkdir -p {home} && cp /etc/kubernetes/admin.conf {home}/config && chown -R {_USER} {home}"
    readable = "ln -s /opt/kubernetes/kubectl /usr/local/bin/kubectl && chmod 644 /etc/kubernetes/admin.key"
    _run(world, control_plane, f"{own_kubectl} && {readable}")
    _begin(world, control_plane, "control-plane", [control_plane.address])
    images = [*_images(world), *([] if secondary_networks else _vendors_images(world))]
    for number, node in enumerate(nodes, 1):
        _lay(world, node, "etc/kubernetes", {name: shared[name] for name in ("ca.crt", "admin.crt", "admin.key", "admin.conf")})
        _lay(
            world,
            node,
            "etc/kubernetes",
            {"containerd.toml": texts.CONTAINERD.encode(), "kubelet.yaml": texts.KUBELET.encode()},
        )
        _lay(world, node, "etc/kubernetes", {"runc": (_NODE / "runc").read_bytes()}, 0o755)
        _lay(world, node, "etc/kubernetes/images", {path.name: path.read_bytes() for path in images})
        plugins = [f"/opt/kubernetes/debian/usr/lib/cni/{name}" for name in _PLUGINS]
        if secondary_networks:
            _lay(world, node, "etc/cni/net.d", {"00-multus.conf": texts.multus(number).encode()})
            _lay(world, node, "etc/cni/net.d/whereabouts.d", {"whereabouts.conf": texts.WHEREABOUTS.encode()})
            plugins += ["/opt/kubernetes/multus", "/opt/kubernetes/whereabouts"]
        else:
            _lay(world, node, "etc/cni/net.d", {"10-pods.conflist": json.dumps(texts.network(number)).encode()})
        linked = " ".join(plugins)
        _run(
            world, node, f"mkdir -p /opt/cni/bin && ln -s {linked} /opt/cni/bin/; ln -sfn /usr/mpi/gcc/openmpi-* /usr/local/mpi"
        )
        peers = [one.address for one in nodes if one.id != node.id]
        _begin(world, node, "worker", [node.hostname, node.address, str(number), *peers])
    _settle(world, control_plane, nodes, texts.RESOURCES if secondary_networks else "")


def kubectl(world: World, control_plane: str, *words: str, given: str = "") -> str:
    """Run kubectl as the cluster's administrator, on the control plane's console; return its output."""
    pid = (world.path / "hosts" / control_plane / "pid").read_text()
    argv = [
        "nsenter",
        "-t",
        pid,
        "-m",
        "-n",
        "-p",
        "-r",
        "--wdns=/",
        "/opt/kubernetes/kubectl",
        "--kubeconfig",
        "/etc/kubernetes/admin.conf",
    ]
    return wires.call([*argv, *words], given)


def _certificates(world: World, control_plane: HostSpec, reached_at: str) -> dict[str, bytes]:
    """Create the cluster's own certificate authority; return certificates and keys by file name.

    The returned files are the authority's certificate, and the certificates and keys of the cluster.
    """
    folder = world.folder("kubernetes")
    names = f"subjectAltName=IP:{control_plane.address},IP:{reached_at},IP:127.0.0.1,IP:10.96.0.1,DNS:kubernetes.default.svc"
    script = f"""
    openssl req -x509 -newkey rsa:2048 -nodes -days 30 -subj /CN=rehearsed -keyout ca.key -out ca.crt
    sign() {{
      openssl req -newkey rsa:2048 -nodes -subj "$2" -keyout $1.key -out $1.csr
      printf '%s\\n' "$3" > $1.ext
      openssl x509 -req -days 30 -in $1.csr -CA ca.crt -CAkey ca.key -CAcreateserial -extfile $1.ext -out $1.crt
    }}
    sign server /CN=kubernetes "{names}"
    sign admin /O=system:masters/CN=admin extendedKeyUsage=clientAuth
    openssl genrsa -out sa.key 2048
    """
    wires.call(["sh", "-ec", f"cd {folder}\n{script}"])
    return {
        name: (folder / name).read_bytes()
        for name in ("ca.crt", "server.crt", "server.key", "admin.crt", "admin.key", "sa.key")
    }


def _images(world: World) -> list[Path]:
    folder = world.folder("kubernetes", "images")
    pause = folder / "pause"
    if not pause.exists():
        wires.call(["gcc", "-O2", "-static", "-s", "-o", str(pause), str(Path(__file__).with_name("pause.c"))])
    archive.write(folder / "pause.tar", texts.PAUSE, archive.files({"pause": pause.read_bytes()}), ["/pause"])
    archive.write(folder / "ranks.tar", texts.IMAGE, archive.root(), ["/usr/bin/env"])
    return [folder / "pause.tar", folder / "ranks.tar"]


def _vendors_images(world: World) -> list[Path]:
    """Return the images of Multus and whereabouts, with the programs and files that the vendors' Dockerfiles name.

    The programs are built from the vendors' sources.
    """
    folder, built = world.folder("kubernetes", "images"), programs()
    held = {name: (built / name).read_bytes() for name in ("thin_entrypoint", "install_multus")}
    held["usr/src/multus-cni/bin/multus"] = (built / "multus").read_bytes()
    archive.write(folder / "multus.tar", texts.MULTUS, archive.files(held), ["/thin_entrypoint"])
    held = {name: (built / name).read_bytes() for name in ("whereabouts", "ip-control-loop", "install-cni.sh")}
    held["bin/busybox"] = (built / "debian/bin/busybox").read_bytes()
    layer = archive.files(held, {f"bin/{name}": "busybox" for name in _SHELL})
    archive.write(folder / "whereabouts.tar", texts.WHEREABOUTS_IMAGE, layer, ["/install-cni.sh"])
    return [folder / "multus.tar", folder / "whereabouts.tar"]


def _lay(world: World, spec: HostSpec, folder: str, files: dict[str, bytes], mode: int = 0o644) -> None:
    pid = (world.path / "hosts" / spec.id / "pid").read_text()
    top = Path("/proc", pid, "root", folder)
    top.mkdir(parents=True, exist_ok=True)
    for name, data in files.items():
        (top / name).write_bytes(data)
        (top / name).chmod(mode)


def _run(world: World, spec: HostSpec, script: str) -> None:
    done = hosts.enter(world, spec.id, ["bash", "-c", script])
    if done.returncode != 0:
        raise RuntimeError(f"{spec.hostname}: {done.stderr.strip()}")


def _begin(world: World, spec: HostSpec, program: str, words: list[str]) -> None:
    """Start a program in a host's namespaces and in a new cgroup namespace; the program ends when the host is stopped."""
    _lay(world, spec, "usr/local/sbin", {f"kubernetes-{program}": (_NODE / program).read_bytes()}, 0o755)
    pid = (world.path / "hosts" / spec.id / "pid").read_text()
    into = ["nsenter", "-t", pid, "-m", "-u", "-i", "-n", "-p", "-T", "-r", "--wdns=/", "unshare", "-C"]
    script = f'{cgroups.join(world, spec.id)}\nexec env -i PATH=/usr/sbin:/usr/bin:/sbin:/bin HOME=/root "$@"'
    start = ["setsid", "--fork", "sh", "-ec", script, "sh", *into, f"/usr/local/sbin/kubernetes-{program}", *words]
    subprocess.run(start, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, check=True)


def _is_ready(node: dict[str, Any]) -> bool:
    return any(one["type"] == "Ready" and one["status"] == "True" for one in node["status"]["conditions"])


def _settle(world: World, control_plane: HostSpec, nodes: list[HostSpec], resources: str) -> None:
    """Create `resources`, wait until every node is ready, and advertise each node's GPUs."""
    end, last = time.monotonic() + _PATIENCE_S, "nothing was tried"
    while time.monotonic() < end:
        try:
            kubectl(world, control_plane.id, "get", "--raw", "/readyz")
            if resources:
                kubectl(world, control_plane.id, "apply", "-f", "-", given=resources)
            found = json.loads(kubectl(world, control_plane.id, "get", "nodes", "-o", "json"))["items"]
            ready = {one["metadata"]["name"] for one in found if _is_ready(one)}
            last = f"ready nodes: {', '.join(sorted(ready)) or 'none'}"
            if {node.hostname for node in nodes} <= ready:
                break
        except RuntimeError as problem:
            last = str(problem)
        time.sleep(0.5)
    else:
        logs = [
            hosts.enter(world, one.id, ["tail", "-n", "3", "/var/log/kubernetes.log"]).stdout for one in (control_plane, *nodes)
        ]
        raise RuntimeError(f"the cluster did not start within {_PATIENCE_S} s: {last}; {' | '.join(logs)}")
    for node in nodes:
        # No device plugin advertises rehearsed GPUs, so this program writes the GPUs into each node's status, as extended
        # resources.
        gpus = {"nvidia.com/gpu": str(len(node.gpus))}
        offered = json.dumps({"status": {"capacity": gpus, "allocatable": gpus}})
        kubectl(world, control_plane.id, "patch", "node", node.hostname, "--subresource=status", "--type=merge", "-p", offered)
