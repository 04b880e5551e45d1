"""A stack file is created from a few answers, is judged as in a preview, and never replaces an existing stack file."""

from __future__ import annotations

import pytest
import yaml

from tools import config

ANSWERS = {
    "oci": {"region": "ap-tokyo-1", "compartment": "ocid1.compartment.oc1..aaaa", "from": "203.0.113.7/32"},
    "aws": {"region": "us-east-1", "from": "203.0.113.7/32, 198.51.100.0/24"},
    "hosts": {"machines": "gpu-1=10.20.1.11, gpu-2=10.20.1.12", "jump": "ubuntu@203.0.113.9"},
    "kubernetes": {
        "server": "https://10.138.61.49:6443",
        "machines": "gpu0, gpu1",
        "gpus": "1",
        "rails": "ens192:irdma0:10.100.100.0/24",
        "image": "r.example/a:1",
    },
}


@pytest.fixture
def home(tmp_path, monkeypatch):
    """A home folder with a public key and known hosts."""
    (tmp_path / ".ssh").mkdir()
    (tmp_path / ".ssh" / "id_ed25519.pub").write_text(
        "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIOMqqnkVzrm0SdG6UOoqKLsabgH5C9okWi0dh2l9GKJl me\n"
    )
    for name in ("OCI_REGION", "AWS_REGION"):
        monkeypatch.delenv(name, raising=False)
    key = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIOMqqnkVzrm0SdG6UOoqKLsabgH5C9okWi0dh2l9GKJl"
    hosts = ("10.20.1.11", "10.20.1.12", "203.0.113.9", "10.138.61.49")
    (tmp_path / ".ssh" / "known_hosts").write_text("".join(f"{host} {key}\n" for host in hosts))
    monkeypatch.setenv("HOME", str(tmp_path))
    return tmp_path


def made(target, home, **changes):
    answers = ANSWERS.get(target, {}) | changes
    return config.write(target, "mine", home, lambda one: answers.get(one.name, ""), home)


def test_kubectl_on_this_machine_needs_the_api_servers_address_instead_of_a_control_plane(home):
    file, sentences = made("kubernetes", home, way="-")
    assert sentences == []
    assert "controlPlane" not in yaml.safe_load(file.read_text())["config"]["busbar:kubernetes"]
    file.unlink()
    _, sentences = made("kubernetes", home, way="-", server="-")
    assert "kubernetes.server" in " ".join(sentences)


@pytest.mark.parametrize("target", ["oci", "aws"])
def test_an_empty_region_is_refused(home, target):
    file, sentences = made(target, home, region="")
    assert (file, sentences) == (None, [f"{target}:region is empty; name a region"])


@pytest.mark.parametrize("target", ANSWERS)
def test_a_few_answers_make_a_stack_file_that_a_preview_accepts(home, target):
    file, sentences = made(target, home)
    assert sentences == []
    written = yaml.safe_load(file.read_text())["config"]
    assert written["busbar:target"] == target
    assert config.wrong(written) == []


@pytest.mark.parametrize(
    ("target", "changes", "says"),
    [
        ("oci", {"from": ""}, "oci.access.sshFrom"),
        ("oci", {"shape": "BM.GPU9.8"}, "oci.pools[0].shape"),
        ("oci", {"nodes": "two"}, "oci.pools[0].nodes"),
        ("aws", {"from": "home"}, "aws.access.sshFrom"),
        ("hosts", {"machines": "gpu-1"}, "hosts.nodes"),
        ("kubernetes", {"gpus": "one"}, "kubernetes.gpus"),
        ("kubernetes", {"rails": "ens192:irdma0"}, "kubernetes.rails[0].range"),
        ("gcp", {}, "TARGET is 'gcp'; it must be one of"),
    ],
)
def test_values_that_a_preview_would_refuse_are_refused_with_their_path_before_anything_is_written(home, target, changes, says):
    file, sentences = made(target, home, **changes)
    assert file is None
    assert says in " ".join(sentences)
    assert not (home / "Pulumi.mine.yaml").exists()


def test_an_existing_stack_file_is_not_changed(home):
    (home / "Pulumi.mine.yaml").write_text("mine")
    file, sentences = made("hosts", home)
    assert file is None
    assert "already exists" in sentences[0]
    assert (home / "Pulumi.mine.yaml").read_text() == "mine"


def test_questions_offer_the_region_and_tenancy_of_the_vendors_configuration_file_or_of_the_environment(home):
    for folder, text in (
        (".oci", "[DEFAULT]\nregion=ap-osaka-1\ntenancy=ocid1.tenancy.oc1..x\n"),
        (".aws", "[default]\nregion=eu-west-1\n"),
    ):
        (home / folder).mkdir()
        (home / folder / "config").write_text(text)
    offered = {one.name: one.offers for one in config.questions("oci", home, {})}
    assert (offered["region"], offered["compartment"]) == ("ap-osaka-1", "ocid1.tenancy.oc1..x")
    assert {one.name: one.offers for one in config.questions("aws", home, {})}["region"] == "eu-west-1"
    assert {one.name: one.offers for one in config.questions("aws", home, {"AWS_REGION": "us-west-2"})}["region"] == "us-west-2"
    (home / ".aws" / "config").write_text("no section\n")
    assert {one.name: one.offers for one in config.questions("aws", home, {})}["region"] == ""
