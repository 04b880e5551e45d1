"""A world for the tests of hosts: one VCN with a bastion and hosts of several images."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from rehearsal.aws import host_images
from rehearsal.entry import cleanup
from rehearsal.host import hosts
from rehearsal.net import network, wires
from rehearsal.oci import host_images as oci_images
from rehearsal.world.world import World
from tools.stage import left_of

#: Skips a test if the kernel refuses to create a user namespace, which is the first step of a container. The kernel refuses if
#: this machine's root is a folder of another machine (chroot).
CONTAINED = pytest.mark.skipif(
    subprocess.run(["unshare", "--user", "true"], capture_output=True, check=False).returncode != 0,
    reason="no user namespace can be made here",
)
BASTION, PUBLIC = "10.0.0.2", "203.0.113.2"
RAILS = tuple(f"enp{slot}s0f{port}" for slot in (12, 22, 72, 76, 138, 148, 195, 209) for port in (0, 1))
HCAS = tuple(f"mlx5_{number}" for number in (*range(4), *range(6, 18)))
EGRESS = network.Rule("egress", "all", "0.0.0.0/0")
SSH = network.Rule("ingress", "6", "0.0.0.0/0", ports=(22, 22))
WITHIN = network.Rule("ingress", "all", "10.0.1.0/24")
PRIVATE = (EGRESS, SSH, WITHIN)
OUT = (network.Route("0.0.0.0/0", "nat"), network.Route("240.0.0.0/4", "service"))
RDMA_PLUGINS = ("Compute HPC RDMA Auto-Configuration", "Compute HPC RDMA Authentication")
PATIENCE_SECONDS = 60


def end_world(world: World) -> None:
    """Stop and remove everything of a world, and check that nothing is left."""
    (world.path / "faults.json").unlink(missing_ok=True)  # faults that the test planted
    cleanup.demolish(world)
    left = left_of(world.path)
    assert not left, left


def vcn(rules: tuple[network.Rule, ...] = PRIVATE, routes: tuple[network.Route, ...] = OUT) -> network.VcnPlan:
    """A VCN whose private subnet has these rules and routes; its public subnet is open for SSH."""
    public = network.SubnetPlan("public", "10.0.0.0/24", (EGRESS, SSH), (network.Route("0.0.0.0/0", "internet"),))
    private = network.SubnetPlan("private", "10.0.1.0/24", rules, routes)
    return network.VcnPlan("vcn0", ("10.0.0.0/16",), (public, private), {BASTION: PUBLIC})


def host(name: str, number: int, image: str, key: str) -> hosts.HostSpec:
    """A host in the private subnet, with BM.GPU4.8's rails if its image is for GPUs; the bastion is in the public subnet."""
    subnet = "10.0.0" if name == "bastion" else "10.0.1"
    gpu = image.endswith("-gpu")
    return hosts.HostSpec(
        id=name,
        index=-1,
        hostname=name,
        image=(host_images if image.endswith("-aws") else oci_images).image(image),
        shape="BM.GPU4.8" if gpu else "VM.Optimized3.Flex",
        user_data=b"",
        ssh_authorized_keys=(key,),
        vcn_id="vcn0",
        subnet_cidr=f"{subnet}.0/24",
        address=f"{subnet}.{number}",
        gateway=f"{subnet}.1",
        search_domain=f"{'public' if name == 'bastion' else 'private'}.vcn.oraclevcn.com",
        front_name="enp45s0f0" if image == "ol7-gpu" else "eth0",
        front_hca="mlx5_4" if gpu else None,
        fabric_id="fab0" if gpu else None,
        rails=tuple(hosts.Rail(rail, hca, 100_000_000_000) for rail, hca in zip(RAILS, HCAS, strict=True)) if gpu else (),
        gpus=("NVIDIA A100-SXM4-40GB",) * 8 if gpu else (),
        nvme=(6_800_000_000_000,) * 4 if gpu else (),
        agent_plugins=RDMA_PLUGINS,
    )


class Stage:
    """A world with its operator; hosts are booted by name and reached as the operator reaches them."""

    def __init__(self, folder: Path) -> None:
        self.world = World.at(folder / "world")
        self.world.folder()
        network.ensure_operator(self.world)
        self.key = self.world.folder("operator") / "key"
        subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", self.key], check=True)
        self.public_key = self.key.with_suffix(".pub").read_text().strip()

    def faults(self, *listed: dict[str, object]) -> None:
        (self.world.path / "faults.json").write_text(json.dumps(listed))

    def boot(self, name: str, number: int, image: str, user_data: str = "", index: int = -1) -> hosts.HostSpec:
        spec = replace(host(name, number, image, self.public_key), user_data=user_data.encode(), index=index)
        hosts.boot(self.world, spec)
        return spec

    def inside(self, name: str, command: str) -> subprocess.CompletedProcess[str]:
        """Run a command as root, as on the host's console."""
        return hosts.enter(self.world, name, ["bash", "-c", command])

    def ready(self, *names: str) -> dict[str, str]:
        """The final status of each host's cloud-init."""
        # `cloud-init status` takes half a second to report what its result file contains.
        result = "/run/cloud-init/result.json"
        wait = f"for i in $(seq {10 * PATIENCE_SECONDS}); do [ -e {result} ] && exec cat {result}; sleep 0.1; done; exit 1"
        ended = {}
        for name in names:
            done = hosts.enter(self.world, name, ["bash", "-c", wait], 2 * PATIENCE_SECONDS)
            assert done.returncode == 0, f"{name} is still booting: {hosts.console(self.world, name)[-2000:]}"
            ended[name] = "status: error" if json.loads(done.stdout)["v1"]["errors"] else "status: done"
        return ended

    def ssh(self, address: str, command: str, user: str = "opc", given: str = "") -> subprocess.CompletedProcess[str]:
        """Run a command over SSH: directly at the bastion's public address, or through the bastion on any other host."""
        start = [*wires.inside(self.world.netns("op")), *self._ssh()]
        if address != PUBLIC:
            start += ["-o", f"ProxyCommand={' '.join(self._ssh())} -W %h:%p opc@{PUBLIC}"]
        argv = [*start, f"{user}@{address}", command]
        return subprocess.run(argv, capture_output=True, text=True, input=given, timeout=60, check=False)

    def _ssh(self) -> Sequence[str]:
        quiet = ["-o", "StrictHostKeyChecking=no", "-o", "UserKnownHostsFile=/dev/null", "-o", "LogLevel=ERROR"]
        return ["ssh", *quiet, "-o", "ConnectTimeout=5", "-i", str(self.key)]
