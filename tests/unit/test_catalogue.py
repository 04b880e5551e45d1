"""The catalogue is complete and consistent."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest

from catalogue import ENVIRONMENTS, IMAGES, SHAPES, Rdma, Shape, nearest
from catalogue.aws.instances import INSTANCES
from catalogue.oci.processors import PROCESSORS
from catalogue.servers import SERVERS

GOLDEN = Path(__file__).parents[1] / "golden" / "machines"


def rows(machines: Iterable[Any]) -> str:
    """Return a line for each fact of each machine, without sources."""
    lines = []
    for one in machines:
        facts = {field.name: getattr(one, field.name) for field in dataclasses.fields(one)}
        shown = {name: sorted(fact) if isinstance(fact, frozenset) else fact for name, fact in facts.items()}
        lines += [f"{one.name} {name}: {fact}\n" for name, fact in shown.items() if name not in {"name", "source"}]
    return "".join(lines)


TEXTS = {
    "oci": lambda: rows(SHAPES.values()),
    "aws": lambda: rows(INSTANCES.values()),
    "servers": lambda: rows(SERVERS.values()),
}


@pytest.mark.parametrize("name", TEXTS)
def test_the_facts_of_all_machines_are_the_reviewed_facts(name, reviewed):
    """A fact that is changed by accident differs from the reviewed file."""
    reviewed(GOLDEN / f"{name}.txt", TEXTS[name]())


@pytest.mark.parametrize("shape", SHAPES.values(), ids=lambda shape: shape.name)
def test_every_row_of_the_oci_shapes_is_consistent(shape):
    assert shape.source
    assert shape.memory_gib > 0
    assert shape.gpus == (int(shape.name.rsplit(".", 1)[1]) if shape.gpu else 0)
    if shape.rdma is not None:
        assert shape.environment in ENVIRONMENTS
        assert shape.rdma.ports == len(shape.rdma.hca)


@pytest.mark.parametrize(
    ("name", "ports", "gbytes_per_s"),
    [
        ("BM.GPU4.8", 16, 200),
        ("BM.GPU.A100-v2.8", 16, 200),
        ("BM.GPU.H100.8", 16, 400),
        ("BM.GPU.H200.8", 8, 400),
        ("BM.GPU.B200.8", 8, 400),
        ("BM.GPU.B300.8", 16, 800),
        ("BM.GPU.GB200.4", 4, 200),
        ("BM.GPU.GB300.4", 8, 400),
        ("BM.GPU.MI300X.8", 8, 400),
    ],
)
def test_ports_and_line_rates_are_the_values_that_the_vendor_published(name, ports, gbytes_per_s):
    rdma = SHAPES[name].rdma
    assert (rdma.ports, rdma.node_gbytes_per_s) == (ports, gbytes_per_s)


def test_no_front_end_port_is_among_the_rails():
    for name, front in (("BM.GPU4.8", {"mlx5_4", "mlx5_5"}), ("BM.GPU.A100-v2.8", {"mlx5_0", "mlx5_13"})):
        assert not front & set(SHAPES[name].rdma.hca)


def test_hca_lists_match_only_exact_names():
    assert all(shape.rdma.nccl_ib_hca.startswith("=") for shape in SHAPES.values() if shape.rdma)


def test_a_row_that_contradicts_itself_is_refused():
    with pytest.raises(ValueError, match="different HCAs"):
        Rdma(2, 100, ("mlx5_0", "mlx5_0"), "mlx5_0:1")
    with pytest.raises(ValueError, match="give both a GPU name and a GPU count, or neither"):
        Shape("X", "GPU", 0, 1, 0, None, None, "nowhere")


def test_a_misspelt_shape_is_answered_with_the_nearest_names():
    assert nearest("BM.GPU4.9", SHAPES)[0] == "BM.GPU4.8"
    assert nearest("bm.gpu.h100.8", SHAPES)[0] == "BM.GPU.H100.8"
    assert len(nearest("nonsense", SHAPES)) == 3


def test_a_lustre_client_is_available_on_every_image_except_oracle_linux_7():
    assert {key for key, family in IMAGES.items() if not family.lustre} == {"ol7"}


@pytest.mark.parametrize("family", IMAGES.values(), ids=lambda family: family.key)
def test_each_image_family_has_a_known_firewall_and_rail_addressing_and_a_repository_if_it_has_nccl_packages(family):
    assert family.rdma in {"ifcfg", "agent"}
    assert family.firewall in {"firewalld", "iptables"}
    assert bool(family.nccl_packages) == bool(family.nccl_repository)


def test_every_image_has_the_mpi_paths_that_the_vendors_scripts_try():
    """The paths are from oci-hpc 3.1.0: samples/gpu/nccl_run_allreduce.sbatch, lines 46-50."""
    for row in IMAGES.values():
        assert row.homes.mpi == ("/usr/mpi/gcc/openmpi-*", "/opt/openmpi-*", "/opt/hpcx-*/ompi")


def test_the_catalogue_has_the_processors_of_every_gpu_shape_and_of_no_other_shape():
    assert set(PROCESSORS) == {row.name for row in SHAPES.values() if row.gpus}
