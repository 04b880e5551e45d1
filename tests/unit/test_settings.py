"""Wrong intent is refused at the front door, in one sentence that says what was given, what is allowed and why."""

from __future__ import annotations

from pathlib import Path

import pulumi
import pytest
import yaml

import settings

ROOT = Path(__file__).parents[2]
DECLARED = yaml.safe_load((ROOT / "Pulumi.yaml").read_text())["config"]
KEY = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIOMqqnkVzrm0SdG6UOoqKLsabgH5C9okWi0dh2l9GKJl operator@example"
GIVEN = {
    "image": "ocid1.image.oc1.ap-tokyo-1.aaaa",
    "bastionImage": "ocid1.image.oc1.ap-tokyo-1.bbbb",
    "tenancy": "ocid1.tenancy.oc1..cccc",
    "compartment": "ocid1.compartment.oc1..dddd",
    "availabilityDomain": "Uocm:AP-TOKYO-1-AD-1",
    "sshPublicKey": KEY,
    "sshFrom": ["198.51.100.0/24"],
    "ncclTestsSha256": "0" * 64,
}


def values(**changes):
    defaults = {key: declared["default"] for key, declared in DECLARED.items() if "default" in declared}
    return defaults | GIVEN | changes


def refused(**changes) -> str:
    with pytest.raises(pulumi.RunError) as found:
        settings.parse(values(**changes))
    return str(found.value)


def test_a_sound_stack_is_accepted_and_the_keys_comment_is_dropped():
    wanted = settings.parse(values())
    assert wanted.nodes == 2
    assert wanted.ssh_public_key == KEY.rsplit(" ", 1)[0]


def test_texts_are_read_as_the_engine_hands_them_over():
    wanted = settings.parse(values(nodes="4", preflight="false", iterations="7"))
    assert (wanted.nodes, wanted.preflight, wanted.iterations) == (4, False, 7)


def test_every_key_is_declared_once_with_description_and_read_once():
    assert set(DECLARED) == set(settings.KEYS)
    assert all(declared["description"].endswith(".") for declared in DECLARED.values())


def test_no_default_lets_the_world_in():
    assert DECLARED["sshFrom"]["default"] == []


@pytest.mark.parametrize(
    ("changes", "sentence"),
    [
        ({"shpae": "BM.GPU4.8"}, "shpae is not a configuration key of busbar; did you mean shape?"),
        ({"zzz": "1"}, "zzz is not a key of busbar; known are target,"),
        ({"target": "gcp"}, "target is 'gcp'; known are oci, aws, hosts."),
        (
            {"shape": "BM.GPU4.9"},
            "shape is 'BM.GPU4.9', which is not an RDMA shape in the catalogue; the nearest are BM.GPU4.8,",
        ),
        ({"shape": "BM.HPC2.36"}, "which has no GPU"),
        ({"shape": "BM.GPU.L40S.4"}, "which has no rail data"),
        ({"nodes": 1}, "nodes is 1; a cluster network joins 2 or more"),
        ({"nodes": 0}, "nodes is 0; a cluster network joins 2 or more"),
        ({"nodes": "two"}, "nodes is 'two': input should be a valid integer"),
        ({"vcnCidr": "192.168.0.0/16"}, "overlaps 192.168.0.0/16; the RDMA rails use that network"),
        ({"vcnCidr": "10.224.0.0/16", "publicCidr": "10.224.0.0/24", "privateCidr": "10.224.1.0/24"}, "overlaps 10.224.0.0/12"),
        ({"vcnCidr": "10.0.0.0/8"}, "vcnCidr is 10.0.0.0/8, which overlaps 10.224.0.0/12"),
        ({"vcnCidr": "172.16.0.0/12", "publicCidr": "172.16.0.0/24"}, "the cloud takes /16 to /30"),
        ({"vcnCidr": "10.0.0.1/16"}, "which is no IPv4 network"),
        ({"privateCidr": "10.1.0.0/24"}, "privateCidr is 10.1.0.0/24, which lies outside vcnCidr 10.0.0.0/16"),
        ({"publicCidr": "10.1.0.0/24"}, "publicCidr is 10.1.0.0/24, which lies outside vcnCidr 10.0.0.0/16"),
        ({"privateCidr": "10.0.0.0/25"}, "publicCidr 10.0.0.0/24 and privateCidr 10.0.0.0/25 overlap"),
        ({"privateCidr": "10.0.1.0/30"}, "has room for 1 machines; 2 nodes are asked for"),
        ({"privateCidr": "10.0.1.0/31"}, "the cloud takes /30 at the smallest"),
        ({"imageFamily": "ol7", "privateCidr": "10.0.2.0/23"}, "the subnet must be /24 or smaller"),
        ({"imageFamily": "ol7", "shape": "BM.GPU.H100.8"}, "no such image drives the rails of BM.GPU.H100.8"),
        ({"imageFamily": "ol6"}, "imageFamily is 'ol6'; it must be one of ol7, ol8"),
        ({"sshFrom": ["0.0.0.0/0"]}, "the whole Internet; name your networks, or set allowWorld: true"),
        ({"sshFrom": ["0.0.0.0/1", "128.0.0.0/1"]}, "the whole Internet; name your networks, or set allowWorld: true"),
        ({"sizesFrom": "6"}, "sizes.from is 6; messages are floats, so it must be a multiple of 4"),
        ({"sshFrom": []}, "sshFrom is empty"),
        ({"sshFrom": ["office"]}, "which is no IPv4 network"),
        ({"sshPublicKey": "hello"}, "is not an OpenSSH public key"),
        ({"sshPublicKey": "ssh-ed25519 AAAAC3NzaC1yc2E"}, "is not an OpenSSH public key"),
        ({"sshPublicKey": KEY.replace("ssh-ed25519", "ssh-rsa")}, "is not an OpenSSH public key"),
        ({"sshPublicKey": "/nowhere/key.pub"}, "names the file '/nowhere/key.pub', which cannot be read"),
        ({"sshPublicKey": "-----BEGIN OPENSSH PRIVATE KEY-----"}, "is a private key, which must never leave its owner"),
        ({"image": "ol8"}, "image is 'ol8'; it must be an OCID that begins with ocid1.image."),
        ({"bootVolumeGb": 100}, "bootVolumeGb is 100; GPU nodes need 200 or more"),
        ({"clusterName": "My Cluster"}, "clusterName is 'My Cluster'; it must match"),
        ({"timezone": "Asia/Tokio"}, "like it are Asia/Tokyo"),
        ({"sizesTo": "64MB"}, "sizesTo is '64MB'; write bytes"),
        ({"sizesFrom": "1G", "sizesTo": "1M"}, "sizes.from is 1073741824 and must not be above 1048576"),
        ({"minimumBusbwGbS": "fast"}, "minimumBusbwGbS is 'fast'; it must be a positive number"),
        ({"ncclTestsSource": "http://example.org/x.tar"}, "it must be an https URL or an existing file"),
        ({"ncclTestsSha256": "abc"}, "ncclTestsSha256 is 'abc'; it must match"),
    ],
)
def test_wrong_intent_is_refused_in_one_sentence(changes, sentence):
    text = refused(**changes)
    assert sentence in text
    assert len(text.splitlines()) == 1


@pytest.mark.parametrize("unset", [{}, {"image": ""}], ids=["absent", "empty"])
def test_a_missing_key_is_named(unset):
    given = values()
    del given["image"]
    given |= unset
    with pytest.raises(pulumi.RunError, match="image is not set, and it has no default"):
        settings.parse(given)


def test_the_world_is_let_in_only_by_name():
    assert settings.parse(values(sshFrom=["0.0.0.0/0"], allowWorld=True)).ssh_from == ("0.0.0.0/0",)


@pytest.mark.parametrize("path", sorted(ROOT.glob("Pulumi.*.yaml")), ids=lambda path: path.stem)
def test_every_key_of_a_stack_file_is_declared(path):
    keys = {key.partition(":")[2] for key in yaml.safe_load(path.read_text())["config"] if key.startswith("busbar:")}
    assert keys <= set(DECLARED)
