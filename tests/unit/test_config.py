"""A stack file is parsed strictly, and every mistake in it is refused at once, each in a sentence with its path."""

from __future__ import annotations

import contextlib
import json
import re
import subprocess
import sys
from importlib import import_module
from typing import Any

import pulumi
import pytest
import yaml
from conftest import KEY, ROOT, groups, texts
from early_refusal import begins_with_a_path
from parsed_stack import GIVEN, IMAGE, parsed, refused
from pydantic import TypeAdapter, ValidationError

from catalogue.nccl_tests import too_old
from config import read
from config.aws.model import Aws
from config.aws.rules import RULES as AWS_RULES
from config.hosts.rules import RULES as HOSTS_RULES
from config.kubernetes.rules import RULES as KUBERNETES_RULES
from config.model import fields_by_key, inner
from config.oci.model import Oci
from config.oci.rules import RULES as OCI_RULES
from config.schema import StackFile, leaves
from config.shared_values import Access
from config.stack import TARGETS
from config.units import Seconds
from tools.stack_changes import DEFAULT, merged

DECLARED = yaml.safe_load((ROOT / "Pulumi.yaml").read_text())["config"]


GPU = GIVEN["oci"]["pools"][0]
MORE = {"name": "more", "nodes": 2, "image": IMAGE}
SOUND: dict[str, dict[str, Any]] = {
    "oci": GIVEN,
    "aws": {
        "target": "aws",
        "aws": {
            "zone": "us-east-1a",
            "access": {"publicKey": KEY, "sshFrom": ["198.51.100.0/24"]},
            "queues": [{"name": "gpu", "machines": [{"name": "p5", "type": "p5.48xlarge", "static": 2}]}],
        },
    },
    "hosts": {"target": "hosts", "hosts": {"nodes": {"gpu-1": "10.0.0.1"}, "user": "ubuntu"}},
    "kubernetes": {
        "target": "kubernetes",
        "kubernetes": {"controlPlane": "root@10.0.0.1", "nodes": ["gpu0"], "image": "registry.example/pytorch:23.09"},
    },
}


ARCHIVES = "https://github.com/NVIDIA/nccl-tests/archive/refs/tags"


def test_a_value_that_was_set_as_a_secret_is_refused_because_the_outputs_would_show_the_value(monkeypatch):
    given = {f"busbar:{key}": text for key, text in texts(GIVEN | {"records": {"pricePerNodeHour": "12.5 USD"}}).items()}
    monkeypatch.setattr(pulumi, "get_project", lambda: "busbar")
    config = pulumi.runtime.config
    before = config.CONFIG.set(given)
    try:
        assert read.load().records.price is not None
        monkeypatch.setattr(config, "is_config_secret", lambda key: key == "busbar:records")
        with pytest.raises(pulumi.RunError) as found:
            read.load()
    finally:
        config.CONFIG.reset(before)
    assert str(found.value).startswith("records has a value that was set with --secret, but previews, outputs and the report")
    assert "12.5" not in str(found.value)


def test_a_sound_stack_is_accepted_and_the_comment_of_its_public_key_is_dropped():
    stack = parsed()
    assert isinstance(stack.wanted, Oci)
    assert stack.wanted.pools[0].nodes == 2
    assert stack.wanted.access.public_key == KEY


def test_pulumi_yaml_declares_at_most_ten_keys_each_with_a_description_and_without_an_empty_default():
    assert len(DECLARED) <= 10
    assert set(DECLARED) == set(fields_by_key(StackFile))
    assert not [key for key, row in DECLARED.items() if row.get("default") == "" or not row["description"].endswith(".")]


def test_quantities_are_read_with_their_units_and_kept_as_numbers():
    stack = parsed(
        measure={"timeout": "15 min", "search": "1 h", "sizes": {"to": "4 MiB", "othersTo": 1048576}},
        accept={"gate": "350 GB/s", "limits": {"all_gather": {"1M": "0.5 TB/s"}}},
        records={"pricePerNodeHour": "32.5 USD"},
        oci={"pools": [{"root": {"size": "1 TB"}}], "storage": {"home": {"throughput": "80 Gbit/s"}}},
    )
    assert (stack.measure.timeout_s, stack.measure.search_s) == (900, 3600)
    assert (stack.measure.end_bytes, stack.measure.sizes.others_to_bytes) == (4 << 20, 1 << 20)
    assert (stack.accept.gate_gb_s, stack.accept.own_limits[0].busbw_gb_s) == (350, 500)
    assert stack.records.price is not None
    assert stack.records.price.usd_per_node_hour == 32.5
    assert isinstance(stack.wanted, Oci)
    assert stack.wanted.pools[0].root.size_gb == 1000
    assert stack.wanted.storage.home is not None
    assert stack.wanted.storage.home.throughput_gbit_s == 80


WRONG: list[tuple[dict[str, Any], str]] = [
    ({"mesure": {}}, "mesure is not a group of the configuration; did you mean measure?"),
    ({"oci": {"zzz": "x"}}, "oci.zzz is not a key of the configuration; known are name,"),
    ({"oci": {"pools": [{"shpae": "x"}]}}, "oci.pools[0].shpae is not a key of the configuration; did you mean shape?"),
    ({"measure": {"sizes": {"form": 8}}}, "measure.sizes.form is not a key of the configuration; did you mean from?"),
    ({"measure": {"timeout_s": 8}}, "measure.timeout_s is not a key of the configuration; did you mean timeout?"),
    ({"aws": {"name": "x"}}, "aws is set, but target is oci; remove it, or change the target."),
    ({"target": "gcp"}, "target is 'gcp'; it must be one of oci, aws, hosts, kubernetes."),
    ({"measure": {"iterations": "7"}}, "measure.iterations is '7'; it must be a whole number."),
    ({"measure": {"iterations": 7.5}}, "measure.iterations is 7.5; it must be a whole number."),
    ({"measure": {"iterations": 0}}, "measure.iterations is 0; it must be at least 1."),
    ({"measure": {"sizes": {"factor": 1}}}, "measure.sizes.factor is 1; it must be at least 2."),
    ({"measure": {"sizes": {"from": 6}}}, "measure.sizes.from is 6; messages are floats, so it must be a multiple of 4"),
    ({"measure": {"sizes": {"to": "64MB"}}}, "measure.sizes.to is '64MB'; write bytes, or a whole number and K, M, G"),
    ({"measure": {"sizes": {"from": "1G", "to": "1M"}}}, "measure.sizes.to is 1M, below measure.sizes.from, 1G"),
    ({"measure": {"sizes": {"from": "1M", "othersTo": "1K"}}}, "measure.sizes.othersTo is 1K, below measure.sizes.from"),
    (
        {"measure": {"sizes": {"from": "1M", "to": "4M", "factor": 8}}},
        "measure.sizes.to is 4M, but sizes grow from 1M by a factor of 8 and never reach it; take 1M or 8M",
    ),
    (
        {"measure": {"sizes": {"from": 4, "othersTo": 16777220}}},
        "measure.sizes.othersTo is 16777220, but sizes grow from 4 by a factor of 2 and never reach it; take 16M or 32M",
    ),
    ({"measure": {"timeout": 15}}, "measure.timeout is 15; write a number and its unit (s, min, h), such as 15 min."),
    ({"measure": {"timeout": "0 s"}}, "measure.timeout is '0 s'; it must be at least 1."),
    ({"measure": {"collectives": ["allreduce"]}}, "measure.collectives[0] is 'allreduce'; it must be one of 'all_reduce',"),
    ({"measure": {"collectives": []}}, "measure.collectives is empty; name at least one collective."),
    ({"measure": {"collectives": ["reduce", "reduce"]}}, "measure.collectives has reduce twice; name each once."),
    ({"measure": {"spreadIterations": 3}}, "measure.spreadIterations is 3, which is too few to judge a spread; set 5 or more"),
    ({"measure": {"exports": {"SECRET": "x"}}}, "measure.exports has 'SECRET', which is not passed to ranks"),
    ({"measure": {"exports": {"NCCL_X": "a b"}}}, "measure.exports has NCCL_X with the value 'a b'"),
    ({"measure": {"fabric": ["eth 1"]}}, "measure.fabric[0] is 'eth 1'; it must be the name of a network interface"),
    ({"measure": {"pool": "xyz"}}, "measure.pool is 'xyz', which is none of oci.pools; known are gpu. [pool]"),
    (
        {"measure": {"ncclTests": {"source": "http://example.org/x.tar"}}},
        "measure.ncclTests.source is 'http://example.org/x.tar'; it must be an https URL, or a file on this machine.",
    ),
    ({"measure": {"ncclTests": {"source": "https://x.org/a.tar"}}}, "measure.ncclTests.sha256 is not set, and the checksum of"),
    ({"measure": {"ncclTests": {"sha256": "abc"}}}, "measure.ncclTests.sha256 is 'abc'; it must be 64 hexadecimal digits, as"),
    (
        {"measure": {"ncclTests": {"source": f"{ARCHIVES}/v2.19.1.tar.gz", "sha256": "0" * 64}}},
        f"measure.ncclTests.source is {ARCHIVES}/v2.19.1.tar.gz; a measurement needs 2.19.2 or later",
    ),
    (
        {"accept": {"gate": "80 Gbit/s"}},
        "accept.gate is '80 Gbit/s'; write a number and its unit (GB/s, TB/s), such as 350",
    ),
    ({"accept": {"gate": 350}}, "accept.gate is 350; write a number and its unit"),
    ({"accept": {"gate": "0 GB/s"}}, "accept.gate is '0 GB/s'; it must be more than 0."),
    ({"accept": {"limits": {"all_gather": {"1X": "3 GB/s"}}}}, "accept.limits.all_gather.1X is '1X'; write bytes"),
    (
        {"measure": {"collectives": ["all_reduce"]}, "accept": {"limits": {"all_gather": {"1G": "3 GB/s"}}}},
        "accept.limits.all_gather is set, but this collective is not in measure.collectives",
    ),
    ({"accept": {"limits": {"all_gather": {"1000": "3 GB/s"}}}}, "accept.limits.all_gather has a limit at 1000, which"),
    (
        {"accept": {"allowSkipped": ["values"]}},
        "accept.allowSkipped[0] is 'values'; it must be one of 'transport', 'spread'",
    ),
    ({"records": {"certificate": {"key": "/no/key"}}}, "records.certificate.key is '/no/key', but there is no such file"),
    ({"records": {"certificate": {"days": "0 days"}}}, "records.certificate.days is '0 days'; it must be at least 1."),
    ({"records": {"pricePerNodeHour": "cheap"}}, "records.pricePerNodeHour is 'cheap'; write a number and its unit (USD)"),
    ({"measure": {"exports": {"NCCL_ALGO": "Tree"}}}, "measure.exports has NCCL_ALGO=Tree, but the default gate is for"),
    (
        {"oci": {"network": {"ingress": "ssh"}}, "monitoring": {"exporter": True}},
        "monitoring.exporter is true, but oci.network.ingress is ssh, so nobody could read the exporter",
    ),
    ({"oci": {"suppress": ["judgeable"]}}, "oci.suppress[0] is 'judgeable', which cannot be suppressed"),
]


@pytest.mark.parametrize(("mode", "says"), [(0o644, "0644"), (0o640, "0640"), (0o622, "0622"), (0o600, ""), (0o400, "")])
def test_a_signing_key_is_accepted_only_if_no_other_user_may_read_or_write_its_file(tmp_path, mode, says):
    key = tmp_path / "key"
    key.touch()
    key.chmod(mode)
    records = {"certificate": {"key": str(key)}}
    if says:
        sentence = f"records.certificate.key is '{key}', whose mode is {says}, so other users may use it; "
        sentence += f"type `chmod 600 {key}`."
        assert sentence in refused(records=records)
    else:
        assert parsed(records=records).records.certificate.key == str(key)


@pytest.mark.parametrize(("changes", "sentence"), WRONG)
def test_a_wrong_setting_is_refused_in_one_sentence_that_begins_with_its_path(changes, sentence):
    (said,) = refused(**changes)
    assert said.startswith(sentence)
    assert said.rstrip("]").endswith((".", "?")) or " [" in said


@pytest.mark.parametrize(("target", "name"), [("aws", "judgeable"), ("aws", "provider-region"), ("oci", "image-compiler")])
def test_a_rule_that_is_marked_as_a_guard_cannot_be_suppressed(target, name):
    with pytest.raises(pulumi.RunError, match=rf"^{target}\.suppress\[0\] is '{name}', which cannot be suppressed"):
        read.parse(texts(merged(SOUND[target], {target: {"suppress": [name]}})))


#: All rules that are guards, by target; those of `stack` apply to every target.
GUARDS = {
    "oci": "container-image container-single container-sums domain existing-instead existing-open existing-system "
    "image-compiler image-import image-missing image-rails login-image machines-end machines-ending mount-points "
    "pool-names shape-joined single-asked slurm-always-on slurm-container slurm-entry slurm-fallback-domains "
    "slurm-gpus slurm-home slurm-missing slurm-queue slurm-software slurm-static slurm-tenancy slurm-test "
    "ssh-sources",
    "aws": "container-sum existing-instead existing-open existing-system existing-there image-missing lustre-efa-setup "
    "mount-points names networks profile-instead profile-there provider-region purchase-unconfirmed "
    "reservation-missing reservation-unknown slurm-always-on slurm-container slurm-entry slurm-home slurm-idle "
    "slurm-profile slurm-queue slurm-software slurm-static slurm-test ssh-sources storage-zones type-unknown "
    "zone-missing",
    "hosts": "host-keys hosts-named slurm-names",
    "kubernetes": "gpu-operator host-keys kubectl-here nodes-named rail-addresses rails-between secondary-networks",
    "stack": "judgeable limits monitoring pool sizes source-sum tests-version",
}


def test_exactly_the_listed_rules_are_guards():
    found = {target: import_module(f"config.{target}.rules") for target in TARGETS}
    rules = {target: module.RULES | module.STACK_RULES for target, module in found.items()} | {"stack": read.STACK_RULES}
    assert {where: " ".join(sorted(name for name in its if its[name].guard)) for where, its in rules.items()} == GUARDS


def test_every_rule_about_a_stack_is_broken_by_a_case_of_this_file():
    broken = {name for changes, _ in WRONG for name in re.findall(r"\[([a-z-]+)\]$", refused(**changes)[0])}
    assert broken >= set(read.STACK_RULES)


def test_one_preview_reports_every_mistake():
    said = refused(
        oci={
            "colour": "blue",
            "pools": [{"nodes": 1, "shpae": "x"}],
            "network": {"vcn": "10.0.0.0/8"},
            "access": {"sshFrom": ["0.0.0.0/0"]},
        },
        hosts={"user": "ubuntu"},
        mesure={},
        measure={"iterations": 0, "timeout": 5},
        accept={"gate": "350 Gbit/s"},
    )
    paths = [one.split(" ")[0] for one in said]
    assert set(paths) == {
        "oci.colour",
        "oci.pools[0].shpae",
        "oci.pools[0].nodes",
        "oci.network.vcn",
        "oci.access.sshFrom",
        "hosts",
        "mesure",
        "measure.iterations",
        "measure.timeout",
        "accept.gate",
    }


@pytest.mark.parametrize(
    ("changes", "sentences"),
    [
        (
            {"oci": {"timezone": "Nowhere", "pools": [{"nodes": 1}], "access": {"sshFrom": ["0.0.0.0/0"]}}},
            ["oci.timezone is 'Nowhere', which", "oci.access.sshFrom contains 0.0.0.0/0", "oci.pools[0].nodes is 1"],
        ),
        (
            {"oci": {"compartment": DEFAULT, "pools": [{"nodes": 1}]}},
            ["oci.compartment is not set", "oci.pools[0].nodes is 1"],
        ),
        (
            {"oci": {"access": {"publicKey": "hello"}, "pools": [{"nodes": 1}]}},
            ["oci.access.publicKey is not an OpenSSH public key", "oci.pools[0].nodes is 1"],
        ),
        (
            {"oci": {"pools": [{"nodes": 1}]}, "measure": {"exports": {"NCCL_ALGO": "Tree"}}},
            ["oci.pools[0].nodes is 1", "measure.exports has NCCL_ALGO=Tree"],
        ),
        (
            {"measure": {"iterations": 0, "sizes": {"from": "1G", "to": "1M"}}, "accept": {"gate": 350}},
            ["measure.iterations is 0", "accept.gate is 350", "measure.sizes.to is 1M, below measure.sizes.from"],
        ),
    ],
)
def test_a_wrong_value_hides_no_other_mistake_in_its_group_or_in_another_group(changes, sentences):
    said = refused(**changes)
    assert len(said) == len(sentences), said
    assert all(one.startswith(sentence) for one, sentence in zip(said, sentences, strict=True)), said


def test_a_refused_default_is_named_by_its_key_and_hides_no_other_mistake(monkeypatch):
    """The usual public key is missing, on a machine whose user has no ed25519 key."""
    monkeypatch.setenv("HOME", "/nonexistent")
    said = refused(oci={"access": {"publicKey": DEFAULT}, "pools": [{"nodes": 1}]})
    assert [one.partition(" ")[0] for one in said] == ["oci.access.publicKey", "oci.pools[0].nodes"], said


@pytest.mark.parametrize(
    ("changes", "path"),
    [
        (
            {"measure": {"pool": "more", "iterations": 0}, "oci": {"pools": [GPU, MORE]}},
            "measure.iterations",
        ),
        ({"measure": {"pool": 7}, "oci": {"pools": [GPU, MORE]}}, "measure.pool"),
        ({"measure": {"sizes": {"from": 12, "to": "12M", "factor": "x"}}}, "measure.sizes.factor"),
        ({"measure": {"sizes": {"to": "x"}}, "accept": {"limits": {"all_reduce": {"12M": "3 GB/s"}}}}, "measure.sizes.to"),
        ({"measure": {"collectives": ["x"]}, "accept": {"limits": {"gather": {"1M": "3 GB/s"}}}}, "measure.collectives[0]"),
        ({"oci": {"pools": []}, "measure": {"pool": "gpu"}}, "oci.pools"),
    ],
)
def test_nothing_is_reported_by_rules_that_need_a_refused_value(changes, path):
    (said,) = refused(**changes)
    assert said.startswith(f"{path} is ")


#: Values that few or no keys accept; every refusal must begin with the path of a key.
ODD: tuple[Any, ...] = (None, -1, 0.5, "no such thing", True, [], ["x"], {"x": 1}, [{"x": 1}])


@pytest.mark.parametrize("target", TARGETS)
def test_every_refusal_begins_with_the_path_of_a_key_in_the_spelling_of_the_stack_file(target):
    given, seen = SOUND[target], set()
    for group in (target, "measure", "accept", "records", "monitoring"):
        for path, _ in leaves(group):
            for odd in ODD:
                value: Any = odd
                for step in reversed(path.split(".")):
                    value = {step.removesuffix("[]"): [value] if step.endswith("[]") else value}
                try:
                    read.parse(texts(merged(given, {group: value})))
                except pulumi.RunError as error:
                    for sentence in str(error).splitlines():
                        assert begins_with_a_path(sentence), sentence
                        assert not re.search(r"Input should|Value error|pydantic", sentence), sentence
                        seen.add(sentence.split(" ")[0].partition("[")[0])
    assert len(seen) > len(leaves(target)) / 2


@pytest.mark.parametrize(("text", "shown"), [("[1]", r"\[1\]"), ("no", "'no'"), ("null", "null"), ("7", "7")])
@pytest.mark.parametrize("group", ["measure", "oci"])
def test_a_group_that_is_no_map_is_refused(group, text, shown):
    with pytest.raises(pulumi.RunError, match=rf"^{group} is {shown}; it must be a map"):
        read.parse(texts(GIVEN) | {group: text})


@pytest.mark.parametrize(("text", "seconds"), [("1.1 h", 3960), ("0.1 h", 360), ("2.3 min", 138), ("90 s", 90)])
def test_a_decimal_number_of_a_larger_unit_is_a_whole_number_of_the_smaller_one(text, seconds):
    """As binary fractions, 1.1 h would be 3960.0000000000005 s, which is no whole number."""
    assert TypeAdapter(Seconds).validate_python(text) == seconds


@pytest.mark.parametrize("text", ["0.0001 h", "1.5 s"])
def test_a_number_that_is_no_whole_number_of_the_unit_is_refused(text):
    with pytest.raises(ValidationError, match="it must be a whole number of s"):
        TypeAdapter(Seconds).validate_python(text)


@pytest.mark.parametrize("key", ["compartment", "access", "pools"])
def test_a_missing_required_key_is_named_with_its_description(key):
    (said,) = refused(oci={key: DEFAULT})
    assert said.startswith(f"oci.{key} is not set, and it has no default: ")


def test_an_absent_key_means_the_default_and_null_means_no_value():
    assert parsed().records.history == ".busbar/history"
    assert parsed(records={"history": None}).records.history is None


def test_the_checksum_of_the_default_archive_is_shipped_and_the_checksum_of_a_local_file_is_computed(tmp_path):
    assert len(parsed().measure.nccl_tests.digest) == 64
    archive = tmp_path / "nccl-tests.tar"
    archive.write_bytes(b"x")
    tests = parsed(measure={"ncclTests": {"source": str(archive)}}).measure.nccl_tests
    assert tests.digest == "2d711642b726b04401627ca9fbac32f5c8530fb1903cc4db02258717921a4881"


def test_if_several_pools_have_nodes_measure_pool_must_name_a_pool_that_has_nodes():
    second = {"name": "more", "nodes": 2, "image": IMAGE}
    pools = [*GIVEN["oci"]["pools"], second]
    (said,) = refused(oci={"pools": pools})
    assert said.startswith("measure.pool is not set, but several of oci.pools have nodes: gpu, more; name the pool to measure.")
    stack = parsed(oci={"pools": pools}, measure={"pool": "more"})
    assert stack.pool == "more"
    assert parsed(oci={"pools": [GIVEN["oci"]["pools"][0], second | {"nodes": 0}]}).measure.pool is None
    (said,) = refused(oci={"pools": [GIVEN["oci"]["pools"][0], second | {"nodes": 0}]}, measure={"pool": "more"})
    assert said.startswith("measure.pool is 'more', which has no nodes; these have nodes: gpu")


def test_a_stack_may_have_a_pool_without_nodes():
    stack = parsed(oci={"pools": [{"nodes": 0}]})
    assert isinstance(stack.wanted, Oci)
    assert (stack.pool, stack.wanted.sizes) == ("gpu", {"gpu": 0})


@pytest.mark.parametrize("path", sorted(ROOT.glob("Pulumi.*.yaml")), ids=lambda path: path.stem)
def test_every_shipped_stack_file_names_its_schema_and_has_only_known_keys(path):
    text = path.read_text()
    assert text.startswith("# yaml-language-server: $schema=docs/stack.schema.json\n")
    given = {key.partition(":")[2]: value for key, value in yaml.safe_load(text)["config"].items() if key.startswith("busbar:")}
    said = ""
    with contextlib.suppress(pulumi.RunError):
        try:
            read.parse(texts(given))
        except pulumi.RunError as error:
            said = str(error)
            raise
    assert "is not a" not in said


def test_there_is_no_field_without_a_description_and_no_rule_without_a_source():
    def walk(model: Any, path: str) -> None:
        for key, info in fields_by_key(model).items():
            assert info.description, f"{path}.{key}"
            assert info.description.endswith("."), f"{path}.{key}"
            nested = inner(info.annotation)
            if nested is not None:
                walk(nested, f"{path}.{key}")

    walk(StackFile, "stack")
    for rules in (OCI_RULES, AWS_RULES, HOSTS_RULES, KUBERNETES_RULES, read.STACK_RULES):
        assert all(rule.source and rule.id == name for name, rule in rules.items())


def test_the_dev_stack_needs_no_values_besides_the_values_in_its_file():
    stack = read.parse(texts(groups("dev")))
    assert stack.target == "oci"
    assert json.dumps(stack.measure.asked())


def test_parsing_a_stack_imports_only_the_models_and_rules_of_its_target():
    ask = (
        "import json, sys; from config import read; read.parse(json.loads(sys.stdin.read())); "
        "print(*sorted(name for name in sys.modules if name.startswith('config.') and name.endswith(('.model', '.rules'))))"
    )
    found = subprocess.run(
        [sys.executable, "-c", ask], input=json.dumps(texts(GIVEN)), capture_output=True, text=True, check=True, cwd=ROOT
    )
    assert found.stdout.split() == ["config.model", "config.oci.model", "config.oci.rules", "config.rules"]


def test_a_first_stack_on_oci_needs_two_values_from_the_user():
    """A user fills in only two values of Pulumi.oci.yaml; the other values are set, looked up or have defaults."""
    groups = yaml.safe_load((ROOT / "Pulumi.oci.yaml").read_text())["config"]
    open_values = re.findall(r"<[^>]*>", json.dumps(groups))
    assert sorted(open_values) == ["<ocid1.compartment.oc1..>", "<your network in CIDR notation>"]
    filled = groups["busbar:oci"] | {"compartment": "ocid1.compartment.oc1..dddd"}
    filled["access"] = {"sshFrom": ["203.0.113.7/32"], "publicKey": KEY}
    assert read.parse({"target": "oci", "oci": json.dumps(filled)}).pool == "gpu"


def test_a_first_stack_on_aws_needs_one_value_from_the_user():
    """A user fills in only one value of Pulumi.aws.yaml. The environment sets the region; zone and images are looked up."""
    groups = yaml.safe_load((ROOT / "Pulumi.aws.yaml").read_text())["config"]
    assert re.findall(r"<[^>]*>", json.dumps(groups)) == ["<your network in CIDR notation>"]
    needed = {name for name, field in Aws.model_fields.items() if field.is_required()}
    assert needed == {"access", "queues"}
    assert {name for name, field in Access.model_fields.items() if field.is_required()} == {"ssh_from"}
    filled = groups["busbar:aws"] | {"access": {"sshFrom": ["203.0.113.7/32"], "publicKey": KEY}}
    assert read.parse({"target": "aws", "aws": json.dumps(filled)}).pool == "gpu-p5"


@pytest.mark.parametrize(
    ("source", "is_old"),
    [
        (f"{ARCHIVES}/v2.19.2.tar.gz", False),
        (f"{ARCHIVES}/v2.19.1.tar.gz", True),
        (f"{ARCHIVES}/v2.9.99.zip", True),
        (f"{ARCHIVES}/v3.0.0.tar.gz", False),
        ("https://github.com/NVIDIA/nccl-tests/archive/v2.13.6.tar.gz", True),
        ("https://github.com/NVIDIA/nccl-tests/archive/master.tar.gz", False),
        ("https://mirror.example.org/nccl-tests/v2.13.6.tar.gz", False),
        ("/srv/nccl-tests-2.13.6.tar", False),
    ],
)
def test_only_nvidias_own_archives_of_nccl_tests_below_2_19_2_are_known_to_be_too_old(source, is_old):
    assert too_old(source) is is_old
