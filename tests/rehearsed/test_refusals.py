"""Bad input, through the real engine: refused at preview in one sentence, non-zero exit, nothing created."""

from __future__ import annotations

import pytest

from tools.stage import Stage

pytestmark = [pytest.mark.rehearsal, pytest.mark.xdist_group("refusals")]


def pool(**changes):
    return {"oci": {"pools": [changes]}}


CASES = [
    (pool(shpae="BM.GPU4.8"), "oci.pools[0].shpae is not a key of the configuration; did you mean shape?"),
    (pool(shape="BM.GPU4.9"), "oci.pools[0].shape is 'BM.GPU4.9', which is not an RDMA shape"),
    (pool(nodes=1), "oci.pools[0].nodes is 1; a cluster network joins 2 or more"),
    ({"aws": {"name": "x"}}, "aws is set, and target is oci; remove it, or change the target."),
    ({"oci": {"network": {"private": "10.1.0.0/24"}}}, "oci.network.private is 10.1.0.0/24, which is outside of oci"),
    ({"oci": {"network": {"private": "10.0.1.0/30"}}}, "oci.network.private is 10.0.1.0/30, which has room for 1 machines"),
    ({"oci": {"access": {"sshFrom": ["0.0.0.0/0"]}}}, "oci.access.sshFrom contains 0.0.0.0/0, the whole Internet"),
    ({"oci": {"access": {"publicKey": "not a key"}}}, "oci.access.publicKey is not an OpenSSH public key"),
    (pool(image="ocid1.image.oc1..rehearsed-ol7"), "which does not fit shape BM.GPU4.8"),
    (pool(image="ocid1.image.oc1..nobody"), "oci.pools[0].image is ocid1.image.oc1..nobody, which is not in"),
    (pool(imageFamily="ol8"), "oci.pools[0].imageFamily is ol8, and image ocid1.image.oc1..rehearsed-ol7-gpu is Oracle"),
    ({"oci": {"availabilityDomain": "Uocm:REHEARSED-AD-2"}}, "Uocm:REHEARSED-AD-2 does not offer BM.GPU4.8"),
    ({"oci": {"availabilityDomain": "Uocm:ELSEWHERE-AD-1"}}, "this tenancy's region has Uocm:REHEARSED-AD-1"),
    (pool(nodes=100), "oci.pools[0].nodes is 100; 100 more nodes take 800 GPUs of the limit"),
]


@pytest.fixture(scope="module")
def world(tmp_path_factory):
    """A world in which no preview may create anything."""
    made = Stage(tmp_path_factory.mktemp("refusals"))
    yield made
    made.close()


@pytest.mark.parametrize(("changes", "sentence"), CASES, ids=[sentence[:50] for _, sentence in CASES])
def test_bad_input_is_refused_at_preview_in_one_sentence(world, changes, sentence):
    found = world.preview(**changes)
    assert found.status != 0
    said = [line.strip() for line in found.text.splitlines() if sentence in line]
    assert said, found
    assert "Traceback" not in found.text
    assert world.resources() == []
