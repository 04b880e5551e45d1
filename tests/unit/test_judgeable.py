"""Machines and plans that cannot be judged are refused before anything is rented, in a sentence with the reason."""

from __future__ import annotations

import pulumi
import pytest
from aws_facts import parsed as aws_parsed
from parsed_stack import parsed, refused

from catalogue import SHAPES, gpus
from catalogue.aws.instances import INSTANCES
from config import judgeable
from config.accept import Accept
from config.judgeable import machine
from config.measure import Measure, Sizes


def one_pool(shape: str) -> dict:
    return {"pools": [{"name": "gpu", "nodes": 2, "shape": shape, "image": "ocid1.image.oc1.ap-tokyo-1.aaaa"}]}


@pytest.mark.parametrize("shape", ["BM.GPU.MI300X.8", "BM.GPU.MI355X.8", "BM.GPU.MI355X-v1.8"])
def test_gpus_from_another_vendor_than_nvidia_are_refused(shape):
    (sentence,) = refused(oci=one_pool(shape))
    assert sentence.startswith(f"oci.pools[0].shape is {shape}, which has AMD Instinct")


@pytest.mark.parametrize("shape", [name for name, row in SHAPES.items() if gpus.spans_nodes(row.gpu)])
def test_nvlink_between_nodes_is_judged_within_one_rack_and_refused_beyond_one_rack(shape):
    row, path = SHAPES[shape], "oci.pools[0].shape"
    assert not list(machine(path, row, Measure(), 18))
    for collective in ("all_gather", "alltoall"):
        assert not list(machine(path, row, Measure(collectives=(collective,)), 4))
    assert not list(machine(path, row, Measure(collectives=("broadcast",), exports={"NCCL_ALGO": "Ring"}), 1))
    for measure, nodes, why in (
        (Measure(), 19, "joins nodes only inside a rack, of at most 18 nodes, but 19 are requested"),
        (Measure(collectives=("broadcast",)), 4, "but busbar knows no gate for broadcast over NVLink"),
        (Measure(exports={"NCCL_NVLS_ENABLE": "0"}), 4, "that switches reduce, which NCCL_NVLS_ENABLE=0 may change"),
    ):
        (breach,) = machine(path, row, measure, nodes)
        assert f"is {shape}, whose NVLink joins nodes" in breach.text
        assert why in breach.text
        switched_off = Measure(collectives=measure.collectives, exports={**measure.exports, "NCCL_MNNVL_ENABLE": "0"})
        assert not list(machine(path, row, switched_off, nodes))
    # OCI offers no cluster network for these shapes, so the stack is refused whatever it measures.
    (said,) = refused(oci=one_pool(shape))
    assert said.endswith("[shape-joined]")


def test_on_aws_a_complete_rack_is_accepted_while_more_nodes_or_a_collective_without_an_nvlink_gate_are_refused():
    bought = {"option": "capacity-block", "reservation": "cr-1"}

    def said(count: int, leave_out: tuple[int, ...] = (), **measure) -> str:
        one = {"type": "p6e-gb200.36xlarge", "static": count, "placement": "none", "purchase": bought}
        machines = [one | ({"leaveOut": list(leave_out)} if leave_out else {})]
        try:
            aws_parsed(aws={"login": {"type": "m7g.8xlarge"}, "queues": [{"machines": machines}]}, measure=measure)
        except pulumi.RunError as refusal:
            return str(refusal)
        return ""

    assert not said(18)
    joined = "aws.queues[0].machines[0].type is p6e-gb200.36xlarge, whose NVLink joins nodes"
    assert said(19).startswith(f"{joined} only inside a rack, of at most 18 nodes, but 19 are requested")
    assert not said(19, leave_out=(4,)), "a machine that is left out is not measured"
    assert said(2, collectives=["reduce"]).startswith(f"{joined}, but busbar knows no gate for reduce over NVLink")
    assert not said(19, collectives=["alltoall"], exports={"NCCL_MNNVL_ENABLE": "0"})


@pytest.mark.parametrize(
    ("name", "value"),
    [("NCCL_TESTS_SPLIT", "MOD"), ("NCCL_TESTS_MIN_BW", "1"), ("NCCL_IB_DISABLE", "1")],
)
def test_a_variable_that_disables_rails_or_changes_the_planned_tests_is_refused_with_or_without_a_gate(name, value):
    for accept in ({}, {"gate": "300 GB/s"}):
        (sentence,) = refused(measure={"exports": {name: value}}, accept=accept)
        assert sentence.startswith("measure.exports has ")
        assert name in sentence


@pytest.mark.parametrize(("name", "value"), [("NCCL_ALGO", "Tree"), ("NCCL_ALGO", "NVLSTree"), ("NCCL_PROTO", "LL")])
def test_forcing_a_protocol_or_an_algorithm_other_than_ring_needs_the_users_own_gate(name, value):
    (sentence,) = refused(measure={"exports": {name: value}})
    assert "set accept.gate to the busbw that you expect" in sentence
    assert parsed(measure={"exports": {name: value}}, accept={"gate": "300 GB/s"})


def test_reduction_in_switches_needs_the_users_own_gate_unless_a_healthy_busbw_is_published():
    asked = Measure(exports={"NCCL_COLLNET_ENABLE": "1"})
    assert not list(judgeable.in_network(SHAPES["BM.GPU.H100.8"], asked, Accept()))
    for name in ("BM.GPU4.8", "BM.GPU.B200.8"):
        ((path, text),) = judgeable.in_network(SHAPES[name], asked, Accept())
        assert path == "measure.exports"
        assert f"no source publishes the busbw that a healthy run on {name} then reaches; set accept.gate" in text
        assert not list(judgeable.in_network(SHAPES[name], asked, Accept(gate_gb_s=200.0)))
        assert not list(judgeable.in_network(SHAPES[name], Measure(exports={"NCCL_COLLNET_ENABLE": "0"}), Accept()))
    (sentence,) = refused(measure={"exports": {"NCCL_COLLNET_ENABLE": "1"}})
    assert sentence.startswith("measure.exports has NCCL_COLLNET_ENABLE=1, which lets switches reduce")


def test_the_user_needs_no_own_gate_for_a_forced_ring_or_for_tuning_that_changes_no_path():
    assert parsed(measure={"exports": {"NCCL_ALGO": "Ring", "NCCL_IB_QPS_PER_CONNECTION": "4", "NCCL_NVLS_ENABLE": "0"}})


def test_messages_that_do_not_fit_on_small_gpus_are_refused_with_the_largest_size_that_fits():
    small = INSTANCES["g5.48xlarge"].shape()
    ((path, text),) = judgeable.machine("aws.queues[0].machines[0].type", small, Measure())
    assert path == "measure.sizes.to"
    assert "do not fit on g5.48xlarge's NVIDIA A10G with 24 GB; it may be 7G at most" in text
    assert not list(judgeable.machine("", small, Measure(sizes=Sizes(to_bytes=4 * 1024**3))))
    assert not list(judgeable.machine("", INSTANCES["p5.48xlarge"].shape(), Measure()))
