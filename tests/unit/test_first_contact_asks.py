"""First contact's questions to every node follow from what the stack file sets and what it leaves out."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from catalogue import SHAPES
from catalogue.homes import Homes
from components import remote_scripts
from components.acceptance import ready
from components.inventory import Launcher, PlannedSet

GPU4 = SHAPES["BM.GPU4.8"]
NEW = PlannedSet(name="gpu", nodes=2, shape=GPU4, launcher=Launcher(Homes(("/opt/mpi",), ("/cuda",), ("/nccl",))))
STANDING = {"ask": True, "first_boot": False}
FACTS = {"facts": remote_scripts.read("facts").source}
HCAS = sorted(GPU4.rdma.hca) if GPU4.rdma else []


@pytest.mark.parametrize(
    ("changes", "asked"),
    [
        ({}, {"hcas": HCAS, "first_boot": True}),
        ({"nodes": 1}, {"hcas": [], "first_boot": True}),
        ({"shape": replace(GPU4, rdma=None)}, {"hcas": [], "first_boot": True}),
        ({"authenticated": True}, {"hcas": HCAS, "first_boot": True, "authenticated": True}),
        ({"ask": True}, {"hcas": HCAS, "first_boot": True, "mpi": [], "row": [GPU4.name, 8, GPU4.gpu]} | FACTS),
        (STANDING, {"hcas": HCAS, "first_boot": False, "mpi": ["/opt/mpi"], "row": [GPU4.name, 8, GPU4.gpu]} | FACTS),
        (STANDING | {"shape": None}, {"hcas": [], "first_boot": False, "mpi": ["/opt/mpi"]} | FACTS),
    ],
)
def test_rails_are_awaited_only_on_several_nodes_and_facts_are_requested_only_if_shape_or_network_is_unknown(
    changes: dict[str, Any], asked: dict[str, Any]
):
    assert ready.request(replace(NEW, **changes), 7) == asked | {"timeout_s": 7}
