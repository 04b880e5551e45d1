"""Bad input through the real engine: a preview refuses each mistake with one sentence, exits non-zero and creates nothing."""

from __future__ import annotations

import pytest

from tools.stage import Stage

pytestmark = [pytest.mark.rehearsal, pytest.mark.xdist_group("refusals")]


def pools(*changes):
    """Return pools for the stack file: the first argument changes the stack's pool, each further argument adds a named pool."""
    own = {
        "name": "more",
        "shape": "BM.GPU4.8",
        "nodes": 2,
        "image": "ocid1.image.oc1..rehearsed-ol7-gpu",
        "imageFamily": "ol7",
    }
    first, *others = changes
    return {"pools": [first, *(own | {"name": f"more{at}"} | one for at, one in enumerate(others))]}


#: Changes to the stack, and the sentences with which one preview refuses them all at once.
CASES = {
    "keys and values": (
        {
            "oci": pools({"shpae": "BM.GPU4.8"}, {"shape": "BM.GPU4.9"}) | {"access": {"publicKey": "not a key"}},
            "aws": {"name": "x"},
        },
        [
            "oci.pools[0].shpae is not a key of the configuration; did you mean shape?",
            "oci.pools[1].shape is 'BM.GPU4.9', which is not an RDMA shape",
            "oci.access.publicKey is not an OpenSSH public key",
            "aws is set, but target is oci; remove it, or change the target.",
        ],
    ),
    "rules": (
        {"oci": pools({"nodes": 1}) | {"network": {"private": "10.1.0.0/24"}, "access": {"sshFrom": ["0.0.0.0/0"]}}},
        [
            "oci.pools[0].nodes is 1; a cluster network joins 2 or more",
            "oci.network.private is 10.1.0.0/24, which is outside oci",
            "oci.access.sshFrom contains 0.0.0.0/0, the whole Internet",
        ],
    ),
    "account": (
        {
            "measure": {"pool": "gpu"},
            "oci": pools(
                {"image": "ocid1.image.oc1..rehearsed-ol7"},
                {"image": "ocid1.image.oc1..nobody"},
                {"imageFamily": "ol8"},
                {"nodes": 100},
            ),
        },
        [
            "which does not fit shape BM.GPU4.8",
            "oci.pools[1].image is ocid1.image.oc1..nobody, which is not in",
            "oci.pools[2].imageFamily is ol8, and image ocid1.image.oc1..rehearsed-ol7-gpu is Oracle",
            "oci.pools[3].nodes is 100; 100 more nodes need 800 GPUs, besides the 48 for earlier pools, of the limit",
        ],
    ),
    "a domain without the shape": (
        {"oci": {"availabilityDomain": "Uocm:REHEARSED-AD-2"}},
        ["Uocm:REHEARSED-AD-2 does not offer BM.GPU4.8"],
    ),
    "a domain of somebody else": (
        {"oci": {"availabilityDomain": "Uocm:ELSEWHERE-AD-1"}},
        ["this tenancy's region has Uocm:REHEARSED-AD-1"],
    ),
}


@pytest.fixture(scope="module")
def world(tmp_path_factory):
    """A world in which no preview may create anything."""
    made = Stage(tmp_path_factory.mktemp("refusals"))
    yield made
    made.close()


@pytest.mark.parametrize(("changes", "sentences"), CASES.values(), ids=CASES)
def test_a_preview_refuses_all_bad_input_at_once_with_one_sentence_for_each_mistake(world, changes, sentences):
    found = world.preview(**changes)
    assert found.status != 0
    said = [line.strip() for line in found.text.splitlines()]
    for sentence in sentences:
        assert [line for line in said if sentence in line], f"{sentence}\n{found}"
    assert "Traceback" not in found.text
    assert "from $PATH" not in found.text, "the engine warns about each plugin of the rehearsal"
    assert "an unhandled error" not in found.text, "the engine adds this to an error that the program has shown already"
    assert world.resources() == []
