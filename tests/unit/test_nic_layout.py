"""Interfaces of AWS instance types: the reviewed table, the vendor's own limits, and what follows from both."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from catalogue.aws.instances import ARM, INSTANCES, X86, Instance, architecture, family
from catalogue.aws.nics import BOTH, EFA_ONLY, PLAIN, Nic, addresses, checked, layout

TABLE = Path(__file__).parents[1] / "golden" / "aws" / "nic_layouts.txt"


def reviewed(column: str) -> tuple[Nic, ...]:
    """Read one cell of the table, such as `0/0 interface, 1-31/1 efa-only` or `odd 1-16/0 efa-only`."""
    found = []
    for text in column.split(","):
        parity, first, last, device, kind = re.fullmatch(r"\s*(odd|even)?\s*(\d+)(?:-(\d+))?/(\d+) (\S+)\s*", text).groups()
        cards = [card for card in range(int(first), int(last or first) + 1) if parity in {None, ("even", "odd")[card % 2]}]
        found.extend(Nic(card, int(device), kind) for card in cards)
    return tuple(sorted(found, key=lambda nic: (nic.card, nic.device)))


ROWS = [
    [cell.strip() for cell in line.split("|")] for line in TABLE.read_text().splitlines() if line and not line.startswith("#")
]


def in_order(nics: tuple[Nic, ...]) -> tuple[Nic, ...]:
    return tuple(sorted(nics, key=lambda nic: (nic.card, nic.device)))


@pytest.mark.parametrize(("name", "today", "legacy", "source"), ROWS, ids=[row[0] for row in ROWS])
def test_the_interfaces_are_the_reviewed_interfaces(name, today, legacy, source):
    assert in_order(layout(INSTANCES[name])) == reviewed(today)
    assert in_order(layout(INSTANCES[name], legacy=True)) == reviewed(legacy)
    assert source


def test_every_type_with_efa_is_in_the_reviewed_table():
    assert {row[0] for row in ROWS} == {name for name, row in INSTANCES.items() if row.efa}


@pytest.mark.parametrize(
    ("name", "count"),
    [
        ("p4d.24xlarge", 5),
        ("p5.48xlarge", 33),
        ("p5e.48xlarge", 33),
        ("p5en.48xlarge", 17),
        ("p6-b200.48xlarge", 9),
        ("p6-b300.48xlarge", 17),
        ("p6e-gb200.36xlarge", 17),
        ("g6e.48xlarge", 5),
        ("trn1.32xlarge", 9),
        ("trn2.48xlarge", 17),
        ("g5.48xlarge", 2),
    ],
)
def test_a_launch_template_has_as_many_interfaces_as_the_vendor_published(name, count):
    assert len(layout(INSTANCES[name])) == count


@pytest.mark.parametrize("name", [name for name, row in INSTANCES.items() if row.efa])
def test_every_efa_device_of_a_type_is_used_in_the_current_layout_and_in_the_legacy_layout(name):
    instance = INSTANCES[name]
    for legacy in (False, True):
        assert sum(nic.kind != PLAIN for nic in layout(instance, legacy=legacy)) == instance.efa


def test_a_node_of_32_rails_takes_one_address_but_32_addresses_in_the_legacy_layout():
    assert addresses(layout(INSTANCES["p5.48xlarge"])) == 1
    assert addresses(layout(INSTANCES["p5.48xlarge"], legacy=True)) == 32


def test_without_efa_there_is_one_plain_interface():
    assert layout(INSTANCES["p5.48xlarge"], efa=False) == (Nic(0, 0, PLAIN),)


def test_efa_is_refused_on_an_instance_type_without_efa():
    with pytest.raises(ValueError, match=r"m5\.xlarge has no EFA device"):
        layout(INSTANCES["m5.xlarge"])


@pytest.mark.parametrize(
    ("name", "nics", "why"),
    [
        ("p5.48xlarge", (Nic(0, 0, EFA_ONLY),), "card 0, device 0"),
        ("p5.48xlarge", (Nic(1, 1, EFA_ONLY),), "card 0, device 0"),
        ("p5.48xlarge", (Nic(0, 0, PLAIN), Nic(1, 2, EFA_ONLY)), "device index 2 exceeds"),
        ("p5.48xlarge", (Nic(0, 0, PLAIN), Nic(32, 1, EFA_ONLY)), "card 32 does not exist"),
        ("p5.48xlarge", (Nic(0, 0, BOTH), Nic(0, 1, EFA_ONLY)), "a card takes at most one"),
        ("p5.48xlarge", (Nic(0, 0, PLAIN), Nic(1, 0, EFA_ONLY), Nic(1, 0, PLAIN)), "same card and device"),
        ("p6-b300.48xlarge", (Nic(0, 0, PLAIN), Nic(0, 1, EFA_ONLY)), "card 0 of this type is ENA only"),
    ],
)
def test_a_launch_that_the_vendor_would_refuse_is_refused(name, nics, why):
    with pytest.raises(ValueError, match=why):
        checked(INSTANCES[name], nics)


@given(st.lists(st.integers(1, 15), min_size=1, max_size=32), st.booleans(), st.booleans())
def test_the_layouts_of_made_up_instance_types_are_valid(cards, plain_front, legacy):
    efa = len(cards) - (plain_front and len(cards) > 1)
    made = Instance("x1.large", "", 0, "", 1, 1, tuple(cards), efa, 100, 0, frozenset(), "made up")
    nics = layout(made, legacy=legacy)
    assert checked(made, nics) == nics


@pytest.mark.parametrize(
    ("name", "both_directions"),
    [("p3dn.24xlarge", 300), ("p4d.24xlarge", 600), ("p5.48xlarge", 900), ("p5en.48xlarge", 900), ("p6-b200.48xlarge", 1800)],
)
def test_the_nvlink_rate_is_half_of_the_rate_in_data_sheets_which_add_up_both_directions(name, both_directions):
    assert INSTANCES[name].nvlink_gbytes_per_s == both_directions / 2


@pytest.mark.parametrize(
    ("name", "gbit_s"),
    [("p4d.24xlarge", 400), ("p5.48xlarge", 3200), ("p5en.48xlarge", 3200), ("p6-b300.48xlarge", 6400), ("g7e.48xlarge", 1600)],
)
def test_the_line_rates_of_an_instance_type_add_up_to_the_published_rate(name, gbit_s):
    assert INSTANCES[name].efa * INSTANCES[name].efa_gbit_s == gbit_s


def test_a_shape_has_the_rails_of_its_instance_type_if_a_source_lists_the_rails():
    shape = INSTANCES["p5.48xlarge"].shape()
    assert shape.rdma is not None
    assert shape.rdma.node_gbytes_per_s == 400
    assert shape.rdma.hca[0] == "rdmap79s0"
    assert shape.rdma.hca[-1] == "rdmap201s0"
    assert INSTANCES["p6-b200.48xlarge"].shape().rdma is None
    assert INSTANCES["p5.48xlarge"].shape(efa=False).rdma is None


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("m7g.8xlarge", ARM),
        ("c7gn.4xlarge", ARM),
        ("g5g.xlarge", ARM),
        ("p6e-gb200.36xlarge", ARM),
        ("m5.8xlarge", X86),
        ("g5.xlarge", X86),
    ],
)
def test_the_architecture_follows_from_the_instance_types_name(name, expected):
    assert architecture(name) == expected


def test_the_quota_family_is_the_first_letters_of_the_instance_types_name():
    assert [family(name) for name in ("p5.48xlarge", "p6-b200.48xlarge", "trn1.32xlarge", "g6e.48xlarge")] == [
        "p",
        "p",
        "trn",
        "g",
    ]


def test_a_row_that_contradicts_itself_is_refused():
    with pytest.raises(ValueError, match="2 EFA devices need a line rate and 2 cards"):
        Instance("x1.large", "", 0, "", 1, 1, (2,), 2, 100, 0, frozenset(), "made up")
    with pytest.raises(ValueError, match="need 1 names"):
        Instance("x1.large", "", 0, "", 1, 1, (2,), 1, 100, 0, frozenset(), "made up", hca=("a", "b"))
