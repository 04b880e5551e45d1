"""A plan that no measurement could pass is refused at preview if shape and number of nodes are known; the key is named."""

from __future__ import annotations

import pytest
from early_refusal import begins_with_a_path
from parsed_stack import parsed

from benchmarks.plan.passable import unpassable


def said(**changes) -> list[str]:
    found = list(unpassable(parsed(**changes)))
    assert all(begins_with_a_path(one) for one in found), found
    return found


def test_the_default_plan_can_pass():
    assert said() == []


def test_a_size_without_a_gate_is_refused_and_the_refusal_names_the_smallest_size_that_can_pass():
    (sentence,) = said(measure={"sizes": {"to": "256M"}})
    begin = "measure.sizes.to is 256M, but no source says what busbw 2 x BM.GPU4.8 reach with messages below 512M, so "
    assert sentence.startswith(begin)
    assert sentence.endswith("set accept.gate to what you expect, or measure 512M or more")
    assert said(measure={"sizes": {"to": "512M"}}) == []


def test_small_messages_can_pass_with_the_users_own_gate_or_if_they_are_large_enough_for_the_scale():
    small = {"measure": {"sizes": {"to": "1M"}}}
    assert said(**small, accept={"gate": "1 GB/s"}) == []
    assert said(**small, accept={"scale": 4000}) == []
    (sentence,) = said(measure={"sizes": {"from": "8", "to": "64K"}}, accept={"scale": 4000})
    assert sentence.endswith("measure 134218 or more")


def test_a_collective_without_a_published_busbw_needs_a_gate():
    first = {"collectives": ["broadcast", "all_reduce"]}
    (sentence,) = said(measure=first)
    assert sentence.startswith("oci.pools[0].shape is BM.GPU4.8, and no source publishes what a healthy broadcast reaches")
    assert said(measure=first, accept={"gate": "100 GB/s"}) == []


@pytest.mark.parametrize(("key", "check"), [("spreadIterations", "spread"), ("looks", "looks")])
def test_a_plan_without_individual_operations_or_looks_is_refused_unless_its_check_may_be_skipped(key, check):
    (sentence,) = said(measure={key: 0})
    assert sentence.startswith(f"measure.{key} is 0, so ")
    assert sentence.endswith(f"add {check} to accept.allowSkipped")
    assert said(measure={key: 0}, accept={"allowSkipped": [check]}) == []
