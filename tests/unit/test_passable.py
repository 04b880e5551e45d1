"""A plan that no measurement could pass is refused at preview if shape and number of nodes are known; the key is named."""

from __future__ import annotations

import pytest
from aws_facts import parsed as aws_parsed
from early_refusal import begins_with_a_path
from parsed_stack import IMAGE, parsed

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
def test_a_plan_without_the_steps_of_a_check_is_refused_unless_that_check_may_be_skipped(key, check):
    (sentence,) = said(measure={key: 0})
    assert sentence.startswith(f"measure.{key} is 0, so ")
    assert sentence.endswith(f"add {check} to accept.allowSkipped")
    assert said(measure={key: 0}, accept={"allowSkipped": [check]}) == []


JOBS = {
    "slurm": {"testNodes": 3},
    "storage": {"home": {}},
    "login": {"image": IMAGE, "imageFamily": "ol9"},
    "pools": [{"name": "gpu", "nodes": 0, "dynamic": 4, "image": IMAGE, "imageFamily": "ol9"}],
}


def test_the_plan_of_machines_that_a_test_job_starts_is_refused_as_well():
    small = {"sizes": {"to": "256M"}}
    (sentence,) = said(oci=JOBS, measure=small)
    assert sentence.startswith("measure.sizes.to is 256M, but no source says what busbw 3 x BM.GPU4.8 reach with messages")
    assert said(oci=JOBS) == []
    family = {"imageFamily": "ubuntu2404"}
    job = {**family, "slurm": {}, "login": family, "queues": [{"machines": [{"static": 0, "dynamic": 4}]}]}
    (sentence,) = unpassable(aws_parsed(aws=job, measure=small))
    assert "what busbw 2 x p5.48xlarge reach" in sentence


@pytest.mark.parametrize("own", [{}, {"gate": "100 GB/s"}])
def test_a_rack_whose_plan_has_no_run_over_nvlink_is_refused_even_with_the_users_own_gate(own):
    def of(to: str, scale: int = 1, **exports: str) -> list[str]:
        bought = {"option": "capacity-block", "reservation": "cr-1"}
        one = {"type": "p6e-gb200.36xlarge", "static": 2, "placement": "none", "purchase": bought}
        aws = {"login": {"type": "m7g.8xlarge"}, "queues": [{"machines": [one]}]}
        measure = {"sizes": {"to": to}, "exports": exports}
        return list(unpassable(aws_parsed(aws=aws, measure=measure, accept=own | {"scale": scale})))

    (sentence,) = of("256M")
    assert sentence == (
        "measure.sizes.to is 256M, but NVLink between nodes of p6e-gb200.36xlarge is measured only if it is 512M or more, so "
        'the verdict would stay unknown; measure 512M or more, or set measure.exports.NCCL_MNNVL_ENABLE to "0" to measure '
        "and judge only the rails"
    )
    assert of("512M") == of("256M", NCCL_MNNVL_ENABLE="0") == of("256M", scale=4000) == []


def test_a_plan_for_no_machines_is_not_judged_before_there_are_machines_to_measure():
    none, small = {"queues": [{"machines": [{"static": 0, "dynamic": 0}]}]}, {"sizes": {"from": "8", "to": "1K"}}
    assert list(unpassable(aws_parsed(aws=none, measure=small))) == []
