"""Bad input, through the real engine: refused at preview in one sentence, non-zero exit, nothing created."""

from __future__ import annotations

import pytest

pytestmark = pytest.mark.rehearsal

CASES = [
    ({"shpae": "BM.GPU4.8"}, "shpae is not a configuration key of busbar; did you mean shape?"),
    ({"shape": "BM.GPU4.9"}, "the nearest are BM.GPU4.8,"),
    ({"nodes": 1}, "nodes is 1; a cluster network joins 2 or more"),
    ({"nodes": 0}, "nodes is 0; a cluster network joins 2 or more"),
    ({"privateCidr": "10.1.0.0/24"}, "lies outside vcnCidr 10.0.0.0/16"),
    ({"privateCidr": "10.0.1.0/30"}, "has room for 1 machines; 2 nodes are asked for"),
    ({"publicCidr": "10.0.1.0/24"}, "publicCidr 10.0.1.0/24 and privateCidr 10.0.1.0/24 overlap"),
    ({"sshFrom": ["0.0.0.0/0"]}, "the whole Internet; name your networks, or set allowWorld: true"),
    ({"sshPublicKey": "not a key"}, "is not an OpenSSH public key"),
    ({"image": "ocid1.image.oc1..rehearsed-ol7"}, "does not fit shape BM.GPU4.8"),
    ({"imageFamily": "ol8"}, "imageFamily is ol8, and image ocid1.image.oc1..rehearsed-ol7-gpu is Oracle Linux 7.9"),
    ({"availabilityDomain": "Uocm:REHEARSED-AD-2"}, "Uocm:REHEARSED-AD-2 does not offer BM.GPU4.8"),
    ({"availabilityDomain": "Uocm:ELSEWHERE-AD-1"}, "this tenancy's region has Uocm:REHEARSED-AD-1"),
    ({"nodes": 100}, "100 nodes are asked for; 100 more of them take 800 GPUs of the limit"),
]


@pytest.mark.parametrize(("changes", "sentence"), CASES, ids=[" ".join(map(str, *changes.items())) for changes, _ in CASES])
def test_bad_input_is_refused_at_preview_in_one_sentence(stage, changes, sentence):
    found = stage.preview(**changes)
    assert found.status != 0
    said = [line.strip() for line in found.text.splitlines() if sentence in line]
    assert said, found
    assert "Traceback" not in found.text
    assert stage.resources() == []
