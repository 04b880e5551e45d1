"""Every target's cluster passes the same kinds of values to acceptance, which knows nothing else of the cluster."""

from __future__ import annotations

import ipaddress

import pytest
from conftest import HOST_KEY
from target_programs import Seen, aws, hosts, kubernetes, kubernetes_from_here, oci

OCI_POOL = {"shape": "BM.GPU4.8", "imageFamily": "ol7", "image": "ocid1.image.oc1..rehearsed-ol7-gpu"}


@pytest.fixture(params=[oci, aws, hosts, kubernetes, kubernetes_from_here], ids=lambda its: its.__name__)
def seen(request, monkeypatch, tmp_path) -> Seen:
    found: Seen = request.param(monkeypatch, tmp_path)
    return found


def test_every_target_passes_the_same_kinds_of_values_to_acceptance(seen):
    planned = {one.name: one for one in seen.cluster.planned}
    sets = {one.name: one for one in seen.inventory.sets}
    assert len(planned) == len(seen.cluster.planned), "names of node sets are unique"
    assert list(sets) == list(planned), "the planned sets exist, with the same names in the same order"
    for name, one in planned.items():
        found = sets[name]
        assert len(found.nodes) == one.nodes, "as many nodes as were planned"
        assert len({node.name for node in found.nodes}) == len({node.address for node in found.nodes}) == one.nodes
        assert all(ipaddress.ip_address(node.address) for node in found.nodes)
        assert found.identity, "a set has an identity"
        assert one.shape is not None or one.ask, "where the shape is not known, the nodes are asked"
        for places in (one.launcher.homes.mpi, one.launcher.homes.cuda, one.launcher.homes.nccl):
            assert places, "the target says where MPI, CUDA and NCCL are"
            assert all(place.startswith("/") for place in places)
    head = seen.inventory.sets[0].nodes[0].address
    assert seen.shell.startswith(("ssh ", "sh -c 'kubectl ")), "a person can get onto the head node"
    pinned = dict(line.split(" ", 1) for line in seen.known_hosts.splitlines())
    if seen.shell.startswith("sh -c"):  # kubectl on this machine, which checks the API server's certificate itself
        assert not pinned
    elif "'kubectl " in seen.shell:  # a pod has no SSH; kubectl runs commands in it
        assert set(pinned) == {"10.138.61.49", "203.0.113.9"}
    else:
        assert seen.shell.endswith(f"@{head}")
        assert pinned[head] == HOST_KEY
    assert all(key.startswith("ssh-") for key in pinned.values()), "every machine on the way is pinned"
    if seen.inventory.login is not None:
        assert pinned[seen.inventory.login.address] == seen.inventory.login.host_key
    # Resources that do not wait for each other are registered in any order, so the order is not compared.
    copied = set() if seen.shell.startswith("sh -c") else {"acceptance-runner-program", "acceptance-runner-file"}
    assert {name for name in seen.commands if name.startswith("acceptance-")} == copied | {
        "acceptance-ready-contact",
        "acceptance-build",
        "acceptance-measure",
        "acceptance-measure-nonce",
        "acceptance-search",
        "acceptance-accept-verdict",
    }


def nothing_rented(monkeypatch, tmp_path) -> dict[str, Seen]:
    machines = [{"name": "p5", "type": "p5.48xlarge", "static": 0, "dynamic": 4}]
    return {
        "oci": oci(monkeypatch, tmp_path, oci={"pools": [OCI_POOL | {"name": "gpu", "nodes": 0}]}, members=0),
        "aws": aws(monkeypatch, tmp_path, aws={"queues": [{"name": "gpu", "machines": machines}]}),
    }


@pytest.mark.parametrize("target", ["oci", "aws"])
def test_a_cluster_without_nodes_is_not_measured_and_its_verdict_is_unknown(monkeypatch, tmp_path, target):
    found = nothing_rented(monkeypatch, tmp_path)[target]
    assert not found.inventory.nodes()
    assert found.measured["verdict"] == "unknown"
    assert "has no nodes yet" in found.measured["reasons"][0]
    assert not [name for name in found.commands if name.startswith("acceptance-")]


def test_all_pools_are_created_and_the_named_pool_is_measured(monkeypatch, tmp_path):
    pools = [OCI_POOL | {"name": "small", "nodes": 2}, OCI_POOL | {"name": "large", "nodes": 2}]
    found = oci(monkeypatch, tmp_path, oci={"pools": pools}, measure={"pool": "large"})
    assert [one.name for one in found.inventory.sets] == ["small", "large"]
    assert {node["pool"] for node in found.inventory.nodes()} == {"small", "large"}
    assert found.measured["pool"] == "large"
