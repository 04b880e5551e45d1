"""Existing hosts: machines that no API creates, described by a JSON file.

`rehearsal/enter --hosts FILE CMD...` boots the hosts before CMD if the hosts are not running; the hosts run until
`--clear-hosts`. The operator gets what an operator of real existing machines has: a login, and the host keys in
operator/known_hosts.
"""

from __future__ import annotations

import json
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from ipaddress import ip_address, ip_network
from pathlib import Path
from typing import Any

from rehearsal.host import hosts
from rehearsal.host.images import Image
from rehearsal.kubernetes import cluster
from rehearsal.kubernetes.machines import MACHINES
from rehearsal.net import network
from rehearsal.oci.host_images import image
from rehearsal.oci.machines import RDMA_PLUGINS, equipped
from rehearsal.oci.shapes import SHAPES, Shape
from rehearsal.world.world import PUBLIC_RANGE, World, scale_for, write_whole

SITE, FABRIC = "site00", "sitefab0"
#: Networks of the site: one with public addresses on the Internet, and one behind the jump host.
PUBLIC, PRIVATE = "10.20.0.0/24", "10.20.1.0/24"

PATIENCE_SECONDS = 60
WINDOW = 2

KEYS = {"shape", "image", "hosts", "jump", "rails", "kubernetes", "secondaryNetworks", "scale"}
EGRESS = network.Rule("egress", "all", "0.0.0.0/0")
SSH = network.Rule("ingress", "6", "0.0.0.0/0", ports=(22, 22))
#: A cluster's API server is reachable from everywhere, like SSH, because an operator may use a local kubeconfig.
API_SERVER = network.Rule("ingress", "6", "0.0.0.0/0", ports=(6443, 6443))
#: First boot deletes the rules of a host's own firewall or stops it, so that the host is like a real one that has run jobs
#: before.
PREPARED = """#cloud-config
runcmd:
- if command -v iptables; then iptables -F; else systemctl stop firewalld; fi
"""


@dataclass(frozen=True)
class Site:
    """The existing hosts of one site.

    Attributes:
        shape: the hardware, a row of `rehearsal.oci.shapes` or `rehearsal.kubernetes.machines`.
        image: the image of the hosts.
        hosts: host name -> address, in launch order. The addresses are private behind a jump host, and public otherwise.
        jump: the jump host's public address; None if the hosts have public addresses themselves.
        rails: whether the shape's rails connect the hosts.
        kubernetes: name of the jump host if the hosts are a Kubernetes cluster whose control plane is the jump host; else None.
        divisor: the divisor of line rates, if the file sets one.
        secondary_networks: whether the Kubernetes cluster has Multus and whereabouts.
    """

    shape: Shape
    image: Image
    hosts: dict[str, str]
    jump: str | None
    rails: bool
    kubernetes: str | None = None
    divisor: int | None = None
    secondary_networks: bool = True

    @classmethod
    def read(cls, file: Path) -> Site:
        """Return the site that a file describes.

        Raises:
            ValueError: the file is not JSON, or its contents are invalid; the message gives the reason.
        """
        try:
            given: dict[str, Any] = json.loads(file.read_text())
        except (OSError, ValueError) as problem:
            raise ValueError(f"{file} must be a JSON object that describes existing hosts: {problem}.") from None
        if not isinstance(given, dict) or not {"shape", "image", "hosts"} <= given.keys() <= KEYS:
            raise ValueError(
                f"{file} must have shape, image and hosts; it may also have jump, kubernetes, rails, scale and "
                "secondaryNetworks, but nothing else."
            )
        shape = (SHAPES | MACHINES).get(given["shape"])
        if shape is None:
            raise ValueError(f"{file}: shape is {given['shape']!r}; the catalogue has {', '.join(sorted(SHAPES | MACHINES))}.")
        rails, control_plane = given.get("rails", True), given.get("kubernetes")
        secondary = given.get("secondaryNetworks", True)
        site = cls(
            shape, image(given["image"]), given["hosts"], given.get("jump"), rails, control_plane, given.get("scale"), secondary
        )
        inside = PRIVATE if site.jump else PUBLIC_RANGE
        for address in site.hosts.values():
            if ip_address(address) not in ip_network(inside):
                raise ValueError(f"{file} has a host at {address}, but every host must have an address in {inside}.")
        return site

    @property
    def scale(self) -> int:
        """The divisor of line rates.

        If the file sets none, the divisor is so large that this machine can carry the traffic of one rank per GPU.
        """
        return self.divisor or scale_for(len(self.hosts) * self.shape.gpus)

    def private(self, index: int, address: str) -> str:
        """Return a host's private address. A host's public address, if any, is translated to the private address."""
        return address if self.jump else str(ip_network(PUBLIC)[10 + index])


def start(world: World, file: Path) -> None:
    """Boot the hosts that a file describes, unless the hosts are running.

    Raises:
        RuntimeError: this machine's kernel refused something, or a host has no host key within a minute.
        ValueError: the file is invalid, or the world has existing hosts that the file does not describe.
    """
    site, record = Site.read(file), world.folder() / "existing.json"
    text = file.read_text()
    if record.exists() and record.read_text() != text:
        raise ValueError(
            f"this world's existing hosts do not match {file}; `rehearsal/enter --clear-hosts true` ends these hosts."
        )
    specs = _specs(world, site)
    if record.exists() and all(hosts.alive(world, spec.id) for spec in specs):
        return
    write_whole(record, text)
    network.apply_vcn(world, _plan(site))
    if site.rails:
        network.apply_fabric(world, FABRIC, len(site.shape.ports))
    with ThreadPoolExecutor(WINDOW) as window:
        list(window.map(lambda spec: hosts.boot(world, spec), specs))
    if site.kubernetes and site.jump:
        for spec in specs:
            _host_key(world, spec.id)  # this call waits until the host's sshd runs
        cluster.start(world, specs[-1], specs[:-1], site.jump, secondary_networks=site.secondary_networks)
    called = {site.private(index, address): address for index, address in enumerate(site.hosts.values())}
    if site.jump:
        called[_jump_address()] = site.jump
    lines = [f"{called[spec.address]} {_host_key(world, spec.id)}\n" for spec in specs]
    write_whole(world.folder("operator") / "known_hosts", "".join(lines))


def stop(world: World) -> None:
    """Stop the existing hosts and remove their network; idempotent."""
    record = world.path / "existing.json"
    if not record.exists():
        return
    for host_id in _ids(world):
        hosts.stop(world, host_id)
    network.delete_vcn(world, SITE)
    network.delete_fabric(world, FABRIC)
    (world.path / "operator" / "known_hosts").unlink(missing_ok=True)
    record.unlink()


def _ids(world: World) -> list[str]:
    """Return the ids of the site's hosts that have a record."""
    return [one.parent.name for one in world.path.glob("hosts/*/spec.json") if json.loads(one.read_text())["vcn_id"] == SITE]


def _jump_address() -> str:
    return str(ip_network(PUBLIC)[2])


def _plan(site: Site) -> network.VcnPlan:
    publics = {site.private(index, address): address for index, address in enumerate(site.hosts.values())}
    publics = {_jump_address(): site.jump} if site.jump else publics
    internet = (network.Route("0.0.0.0/0", "internet"),)
    out = (network.Route("0.0.0.0/0", "nat"), network.Route("240.0.0.0/4", "service"))
    # A cluster's control plane and nodes may reach each other on every port.
    theirs = tuple(network.Rule("ingress", "all", cidr) for cidr in (PUBLIC, PRIVATE)) if site.kubernetes else ()
    api = (API_SERVER,) if site.kubernetes else ()
    open_ = network.SubnetPlan("sitepub", PUBLIC, (EGRESS, SSH, *api, *theirs), internet)
    inside = network.Rule("ingress", "all", PRIVATE)
    closed = network.SubnetPlan("sitepriv", PRIVATE, (EGRESS, SSH, *(theirs or (inside,))), out)
    return network.VcnPlan(SITE, (PUBLIC, PRIVATE), (open_, closed), publics)


def _specs(world: World, site: Site) -> list[hosts.HostSpec]:
    key = (world.path / "operator" / "id_ed25519.pub").read_text().strip()
    found = [
        _spec(site, key, index, name, site.private(index, address)) for index, (name, address) in enumerate(site.hosts.items())
    ]
    return found if site.jump is None else [*found, _jump(site, key)]


def _spec(site: Site, key: str, index: int, name: str, address: str) -> hosts.HostSpec:
    subnet = PRIVATE if site.jump else PUBLIC
    spec = hosts.HostSpec(
        id=f"site{index:02}",
        index=index,
        hostname=name,
        image=site.image,
        shape=site.shape.name,
        user_data=PREPARED.encode(),
        ssh_authorized_keys=(key,),
        vcn_id=SITE,
        subnet_cidr=subnet,
        address=address,
        gateway=network.gateway(subnet),
        search_domain="site.example",
        fabric_id=FABRIC if site.rails else None,
        agent_plugins=RDMA_PLUGINS,
        programs=_programs(site),
    )
    return equipped(spec, site.shape)


def _jump(site: Site, key: str) -> hosts.HostSpec:
    return hosts.HostSpec(
        id="sitejump",
        index=-1,
        hostname=site.kubernetes or "jump",
        image=image(site.image.name.removesuffix("-gpu")),
        shape="VM.Standard.E5.Flex",
        user_data=PREPARED.encode() if site.kubernetes else b"",
        ssh_authorized_keys=(key,),
        vcn_id=SITE,
        subnet_cidr=PUBLIC,
        address=_jump_address(),
        gateway=network.gateway(PUBLIC),
        search_domain="site.example",
        front_name="ens3",
        programs=_programs(site),
    )


def _programs(site: Site) -> dict[str, str]:
    return {"opt/kubernetes": str(cluster.programs())} if site.kubernetes else {}


def _host_key(world: World, host_id: str) -> str:
    """Return a host's public SSH host key, which root reads inside the host."""
    end = time.monotonic() + PATIENCE_SECONDS
    while time.monotonic() < end:
        found = hosts.enter(world, host_id, ["cat", "/etc/ssh/ssh_host_ed25519_key.pub"])
        # At first boot, cloud-init replaces the key, and sshd starts afterwards.
        if found.returncode == 0 and hosts.enter(world, host_id, ["test", "-e", "/run/sshd.pid"]).returncode == 0:
            return " ".join(found.stdout.split()[:2])
        time.sleep(0.1)
    raise RuntimeError(f"host {host_id} has no host key after {PATIENCE_SECONDS} s; see its console in the world's folder.")
