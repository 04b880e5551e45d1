"""OCI's REST calls as the controller makes them: its identity, signatures, cluster networks, listings and errors."""

from __future__ import annotations

import base64
import functools
import hashlib
import json
import re
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import padding, rsa
from cryptography.x509.oid import NameOID

from scheduler.elastic import oci_identity, sweep
from scheduler.elastic.cloud import BusyError, CapacityError, CloudError, Launch, Machine
from scheduler.elastic.http_client import Answer
from scheduler.elastic.oci import Oci

TENANCY = "ocid1.tenancy.oc1..aaaa"
NOW = 1_764_000_000.0
IAAS = "https://iaas.eu-frankfurt-1.oraclecloud.com/20160918"
TAGS = {"busbar-cluster": "train"}
PEM = serialization.Encoding.PEM


def made_certificate() -> tuple[rsa.RSAPrivateKey, x509.Certificate]:
    """Return a machine's key and its certificate; as on OCI, the certificate contains the tenancy."""
    key = rsa.generate_private_key(public_exponent=65537, key_size=2048)
    parts = [(NameOID.COMMON_NAME, "ocid1.instance.oc1..bbbb"), (NameOID.ORGANIZATIONAL_UNIT_NAME, f"opc-tenant:{TENANCY}")]
    name = x509.Name([x509.NameAttribute(kind, text) for kind, text in parts])
    began = datetime(2026, 1, 1, tzinfo=UTC)
    made = x509.CertificateBuilder().subject_name(name).issuer_name(name).public_key(key.public_key()).serial_number(7)
    return key, made.not_valid_before(began).not_valid_after(began + timedelta(days=999)).sign(key, hashes.SHA256())


KEY, CERTIFICATE = made_certificate()
KEY_PEM = KEY.private_bytes(PEM, serialization.PrivateFormat.TraditionalOpenSSL, serialization.NoEncryption())


GENUINE = oci_identity._openssl  # noqa: SLF001
session_key = functools.cache(lambda: GENUINE(["genrsa", "2048"], b""))


@pytest.fixture(autouse=True)
def _one_session_key(request, monkeypatch):
    """Let all tests, except the test of the private key, share one key: to generate a key takes a fifth of a second."""

    def one(words: Sequence[str], text: bytes, keep: Sequence[int] = ()) -> bytes:
        return session_key() if words[0] == "genrsa" else GENUINE(words, text, keep)

    if request.function is not test_the_private_key_of_a_machine_is_in_no_arguments_of_a_command:
        monkeypatch.setattr(oci_identity, "_openssl", one)


class Service:
    """Metadata service, federation, and Core Services with `networks`; every signature is checked.

    Attributes:
        asked: method, path and body of each call to Core Services.
        refuses: answers, by method and path, that replace the service's own answers.
    """

    def __init__(self) -> None:
        self.networks: dict[str, dict[str, Any]] = {}
        self.instances: dict[str, list[dict[str, str]]] = {}
        self.work: dict[str, list[dict[str, str]]] = {}
        self.asked: list[tuple[str, str, Any]] = []
        self.refuses: dict[tuple[str, str], list[Answer]] = {}
        self.session: Any = None
        self.retry_tokens: list[str] = []

    def __call__(self, method, url, headers, body, timeout_s) -> Answer:
        assert timeout_s > 0
        if url.startswith("http://169.254.169.254/opc/v2/identity/"):
            assert headers == {"Authorization": "Bearer Oracle"}
            certificate = CERTIFICATE.public_bytes(PEM)
            return Answer(200, KEY_PEM if url.endswith("key.pem") else certificate)
        if url == "https://auth.eu-frankfurt-1.oraclecloud.com/v1/x509":
            return self._federate(method, url, headers, body)
        assert url.startswith(IAAS)
        assert _checked(method, url, headers, body, self.session) == "ST$token"
        return self._core(method, url.removeprefix(IAAS), headers, json.loads(body) if body else None)

    def _federate(self, method, url, headers, body) -> Answer:
        fingerprint = ":".join(re.findall("..", CERTIFICATE.fingerprint(hashes.SHA1()).hex().upper()))  # noqa: S303 - OCI's own
        assert _checked(method, url, headers, body, KEY.public_key()) == f"{TENANCY}/fed-x509/{fingerprint}"
        asked = json.loads(body)
        assert base64.b64decode(asked["certificate"]) == CERTIFICATE.public_bytes(serialization.Encoding.DER)
        assert len(asked["intermediateCertificates"]) == 1
        self.session = serialization.load_der_public_key(base64.b64decode(asked["publicKey"]))
        return Answer(200, b'{"token": "token"}')

    def _core(self, method, target, headers, asked) -> Answer:
        path, query = urlsplit(target).path, parse_qs(urlsplit(target).query)
        self.asked.append((method, path, asked))
        if self.refuses.get((method, path)):
            return self.refuses[method, path].pop(0)
        if method == "POST" and path == "/clusterNetworks":
            self.retry_tokens.append(headers["opc-retry-token"])
            return Answer(200, b"{}")
        if method != "GET":
            return Answer(204, b"")
        items: list[Any] = {
            "/clusterNetworks": list(self.networks.values()),
            "/privateIps": [{"vnicId": f"vnic-{at}", "ipAddress": f"10.0.0.{at}"} for at in range(1, 9)],
            "/vnicAttachments": [{"instanceId": f"i{at}", "vnicId": f"vnic-{at}"} for at in range(1, 9)],
            "/workRequests": self.work.get(query.get("resourceId", [""])[0], []),
            "/workRequests/w1/errors": [{"code": "InternalError", "message": "Out of host capacity."}],
        }.get(path) or self.instances.get(path.split("/")[2] if path.endswith("/instances") else "", [])
        assert ("compartmentId" in query) is (path not in {"/privateIps", "/workRequests/w1/errors"})
        page = int(query.get("page", ["0"])[0])
        more = {"opc-next-page": str(page + 1)} if page + 1 < len(items) else {}
        return Answer(200, json.dumps(items[page : page + 1]).encode(), more)

    def network(
        self,
        name: str,
        *instances: str,
        state: str = "RUNNING",
        launched: str = "t",
        size: int = 0,
        configuration: str = "old",
        **tags: str,
    ) -> None:
        self.networks[name] = {
            "id": name,
            "lifecycleState": state,
            "freeformTags": {**TAGS, "busbar-launch": launched, **tags},
            "instancePools": [{"id": f"pool-{name}", "size": size or len(instances), "instanceConfigurationId": configuration}],
        }
        self.instances[name] = [{"id": one, "state": "Running"} for one in instances]

    def calls(self, method: str) -> list[str]:
        return [path for its, path, _ in self.asked if its == method]


def _checked(method, url, headers, body, key) -> str:
    """Check a signature as in OCI's documentation; return the key's id."""
    proof = dict(re.findall(r'(\w+)="([^"]*)"', headers["authorization"]))
    names = proof["headers"].split()
    assert {"date", "(request-target)", "host"} <= set(names)
    parts = urlsplit(url)
    known = {**headers, "(request-target)": f"{method.lower()} {parts.path}{'?' + parts.query if parts.query else ''}"}
    assert known["host"] == parts.netloc
    if body:
        assert {"content-length", "content-type", "x-content-sha256"} <= set(names)
        assert known["x-content-sha256"] == base64.b64encode(hashlib.sha256(body).digest()).decode()
        assert known["content-length"] == str(len(body))
    text = "\n".join(f"{name}: {known[name]}" for name in names)
    key.verify(base64.b64decode(proof["signature"]), text.encode(), padding.PKCS1v15(), hashes.SHA256())
    assert (proof["algorithm"], proof["version"]) == ("rsa-sha256", "1")
    return proof["keyId"]


@pytest.fixture
def service() -> Service:
    return Service()


@pytest.fixture
def cloud(service: Service) -> Oci:
    given = {
        "region": "eu-frankfurt-1",
        "compartment": "ocid1.compartment.oc1..c",
        "subnet": "ocid1.subnet.oc1..s",
        "tags": TAGS,
    }
    return Oci(given, service, lambda: NOW)


def launch(cloud: Oci, beside: str = "", size: int = 4) -> list[str]:
    spec = {"configuration": "ocid1.instanceconfiguration.oc1..i", "label": "train-gpu", "domains": ["AD-1", "AD-2"]}
    return cloud.launch(Launch("0123456789abcdef", "gpu/h100", size, size, spec, cloud.zones(spec)[0], beside))


def said(status: int, code: str, message: str) -> Answer:
    return Answer(status, json.dumps({"code": code, "message": message}).encode())


NO_CAPACITY = said(500, "InternalError", "Out of host capacity.")


def test_a_launch_is_one_cluster_network_with_a_retry_token_and_the_clusters_tags(cloud, service):
    assert launch(cloud) == []
    ((method, path, asked),) = service.asked
    assert (method, path) == ("POST", "/clusterNetworks")
    assert asked["instancePools"] == [{"instanceConfigurationId": "ocid1.instanceconfiguration.oc1..i", "size": 4}]
    assert asked["placementConfiguration"] == {"availabilityDomain": "AD-1", "primarySubnetId": "ocid1.subnet.oc1..s"}
    assert asked["freeformTags"] == {**TAGS, "busbar-launch": "0123456789abcdef"}
    assert service.retry_tokens == ["0123456789abcdef"]


def test_a_network_has_the_users_tags_too_and_is_still_found_after_these_tags_have_changed(service):
    given = {"region": "eu-frankfurt-1", "compartment": "c", "subnet": "s", "tags": TAGS, "more_tags": {"team": "new"}}
    changed = Oci(given, service, lambda: NOW)
    launch(changed)
    assert service.asked[0][2]["freeformTags"] == {"team": "new", **TAGS, "busbar-launch": "0123456789abcdef"}
    service.network("n1", "i1", team="old")
    assert [machine.id for machine in changed.listing().machines] == ["i1"]


def test_the_zones_of_a_node_set_are_its_availability_domains_in_the_order_of_the_settings(cloud):
    assert cloud.zones({"domains": ["AD-2", "AD-1"]}) == ("AD-2", "AD-1")


def grown(service: Service) -> list[Any]:
    return [(path, asked) for method, path, asked in service.asked if method == "PUT"]


def test_machines_that_are_launched_beside_an_earlier_launch_join_its_network_which_is_enlarged_only_once(cloud, service):
    service.network("n1", "i1", size=1, launched="t")
    assert launch(cloud, "t", 2) == []
    tags = {**TAGS, "busbar-launch": "t", "busbar-grown": "0123456789abcdef"}
    assert grown(service) == [("/clusterNetworks/n1", {"freeformTags": tags, "instancePools": [{"id": "pool-n1", "size": 3}]})]
    service.network("n1", "i1", size=3, launched="t", **{"busbar-grown": "0123456789abcdef"})
    launch(cloud, "t", 2)
    assert len(grown(service)) == 1
    assert not service.retry_tokens


def test_running_networks_get_the_present_configuration_so_that_the_former_configuration_can_be_deleted(cloud, service):
    service.network("n1", "i1", launched="t")
    service.network("n2", "i2", launched="u", configuration="new")
    service.network("n3", "i3", launched="v", state="PROVISIONING")
    service.network("n4", launched="w", state="TERMINATING")
    service.network("n5", launched="x", state="TERMINATED")
    service.network("n6", "i6", launched="unknown")
    service.network("n7", "i7", **{"busbar-cluster": "another"})
    specs = {token: {"configuration": "new"} for token in ("t", "u", "v", "w", "x")}
    assert cloud.adopt(specs, [{"configuration": "new"}, {"configuration": "other set's"}]) == ["n1", "n3", "n4", "n6"]
    renewed = {"instancePools": [{"id": "pool-n1", "instanceConfigurationId": "new"}]}
    assert grown(service) == [("/clusterNetworks/n1", renewed)], "a network that changes accepts no other change"


@pytest.mark.parametrize(("state", "size", "resized"), [("SCALING", 1, []), ("PROVISIONING", 1, []), ("RUNNING", 3, [1])])
def test_a_changing_or_incomplete_network_is_busy_and_an_incomplete_network_is_resized(cloud, service, state, size, resized):
    service.network("n1", "i1", size=size, launched="t", state=state)
    with pytest.raises(BusyError, match="cluster network n1"):
        launch(cloud, "t", 1)
    assert [asked["instancePools"][0]["size"] for _, asked in grown(service)] == resized


def test_a_launch_beside_a_launch_whose_network_is_gone_creates_a_new_network(cloud, service):
    service.network("n1", "i1", launched="t", state="TERMINATING")
    launch(cloud, "t", 1)
    assert service.retry_tokens == ["0123456789abcdef"]


def test_if_a_network_cannot_grow_only_the_launch_that_enlarged_it_fails_and_not_the_launch_that_created_it(cloud, service):
    service.network("n1", "i1", size=2, launched="t", state="SCALING", **{"busbar-grown": "u"})
    old = {"id": "w1", "status": "FAILED", "timeAccepted": "2026-01-01T00:00:00Z"}
    service.work["n1"] = [{"id": "w2", "status": "IN_PROGRESS", "timeAccepted": "2026-01-02T00:00:00Z"}, old]
    assert not cloud.listing().failed
    service.work["n1"] = [{**old, "timeAccepted": "2026-01-03T00:00:00Z"}, *service.work["n1"]]
    assert list(cloud.listing().failed) == ["u"]
    service.network("n1", "i1", size=1, launched="t", **{"busbar-grown": "u"})
    assert not cloud.listing().failed
    assert not service.calls("DELETE")


def test_a_machine_that_could_not_be_detached_does_not_fail_the_launch_of_the_other_machines(cloud, service):
    service.network("n1", "i1", size=2, launched="t", state="SCALING")
    service.work["n1"] = [{"id": "w1", "status": "FAILED"}]
    assert not cloud.listing().failed


@pytest.mark.parametrize(
    ("answer", "kind"),
    [
        (NO_CAPACITY, CapacityError),
        (said(400, "LimitExceeded", "The following service limits were exceeded: gpu4-count."), CapacityError),
        (said(400, "QuotaExceeded", "bm-gpu quota"), CapacityError),
        (said(429, "TooManyRequests", "User-rate limit exceeded."), BusyError),
        (Answer(503, b"<html>"), BusyError),
        (said(409, "IncorrectState", "The requested state conflicts with the present state of the resource."), BusyError),
        (said(409, "InvalidatedRetryToken", "The provided retry token was used in an earlier request."), CloudError),
        (said(404, "NotAuthorizedOrNotFound", "Authorization failed or requested resource not found."), CloudError),
    ],
)
def test_capacity_errors_and_busy_errors_and_other_errors_raise_different_exceptions(cloud, service, answer, kind):
    service.refuses["POST", "/clusterNetworks"] = [answer]
    with pytest.raises(CloudError) as caught:
        launch(cloud)
    assert type(caught.value) is kind


def test_the_list_of_machines_joins_all_pages_and_has_only_the_clusters_machines_with_their_addresses(cloud, service):
    service.network("n1", "i1", "i2")
    service.network("n2", "i3", launched="u")
    service.network("other", "i4", **{"busbar-cluster": "another"})
    service.network("ending", "i5", state="TERMINATING")
    assert cloud.listing().machines == [
        Machine("i1", "t", "10.0.0.1"),
        Machine("i2", "t", "10.0.0.2"),
        Machine("i3", "u", "10.0.0.3"),
    ]
    assert not service.calls("DELETE")


def test_a_network_that_fails_after_the_launch_call_is_reported_with_the_reason_and_removed(cloud, service):
    service.network("n1", state="PROVISIONING")
    assert not cloud.listing().failed
    assert not service.calls("DELETE")
    service.work["n1"] = [{"id": "w1", "status": "FAILED"}]
    (error,) = cloud.listing().failed.values()
    assert isinstance(error, CapacityError)
    assert str(error) == "InternalError: Out of host capacity."
    assert service.calls("DELETE") == ["/clusterNetworks/n1"]


def test_a_sweep_waits_for_the_machines_of_a_network_that_the_service_still_starts(cloud, service, capsys):
    service.network("n1", state="PROVISIONING")

    def later(_: float) -> None:
        ended = service.calls("DELETE")
        service.network("n1", *([] if ended else ["i1"]), state="TERMINATED" if ended else "RUNNING")

    assert sweep.all_machines(cloud, later, lambda: 0) == 0
    assert service.calls("DELETE") == ["/clusterNetworks/n1"]
    assert "terminating 1 machines that Slurm started" in capsys.readouterr().out


def test_a_sweep_fails_if_the_service_lists_no_machine_of_a_launch_in_time(cloud, service, capsys):
    service.network("n1", state="PROVISIONING")
    assert sweep.all_machines(cloud, lambda _: None, iter(range(0, 2000, 500)).__next__) == 1
    assert "still running after 600 s: launch t, whose machines the cloud does not list yet" in capsys.readouterr().out


def test_a_network_that_the_service_ended_because_its_launch_failed_is_reported_for_an_hour(cloud, service):
    service.work["n1"] = [{"id": "w1", "status": "FAILED"}]
    for ago_s, told in ((60, ["t"]), (3700, [])):
        service.network("n1", state="TERMINATED")
        service.networks["n1"]["timeCreated"] = f"{datetime.fromtimestamp(NOW - ago_s, UTC):%Y-%m-%dT%H:%M:%S.123Z}"
        found = cloud.listing()
        assert (list(found.failed), found.machines) == (told, [])
    assert not service.calls("DELETE")


def test_a_network_whose_machines_have_all_ended_is_removed(cloud, service):
    service.network("n1")
    cloud.listing()
    assert service.calls("DELETE") == ["/clusterNetworks/n1"]


def test_one_call_terminates_a_whole_launch_but_a_part_is_terminated_machine_by_machine(cloud, service):
    service.network("n1", "i1", "i2")
    service.network("n2", "i3", "i4")
    cloud.terminate(["i1", "i2", "i3", "unknown"])
    assert service.calls("DELETE") == ["/clusterNetworks/n1"]
    assert [(path, asked["instanceId"]) for method, path, asked in service.asked if method == "POST"] == [
        ("/instancePools/pool-n2/actions/detachInstance", "i3")
    ]


def test_a_network_whose_launch_may_still_bring_machines_is_kept_when_its_present_machines_are_terminated(cloud, service):
    service.network("n1", "i1", size=2, state="PROVISIONING")
    service.network("n2", "i2", launched="u")
    service.refuses["POST", "/instancePools/pool-n1/actions/detachInstance"] = [said(409, "IncorrectState", "PROVISIONING")]
    with pytest.raises(BusyError, match="PROVISIONING"):
        cloud.terminate(["i1", "i2"], wanted={"t"})
    assert service.calls("DELETE") == ["/clusterNetworks/n2"]
    cloud.terminate(["i1"])
    assert service.calls("DELETE") == ["/clusterNetworks/n2", "/clusterNetworks/n1"]


def test_terminating_the_machines_of_a_network_that_is_gone_is_no_error(cloud, service):
    service.network("n1", "i1")
    service.refuses["DELETE", "/clusterNetworks/n1"] = [said(404, "NotAuthorizedOrNotFound", "not found")]
    cloud.terminate(["i1"])


def test_a_call_of_a_service_that_does_not_answer_raises_a_busy_error(cloud, service, monkeypatch):
    launch(cloud)

    def silent(*_: Any) -> Answer:
        raise TimeoutError("timed out")

    monkeypatch.setattr(service, "_core", silent)
    with pytest.raises(BusyError, match="timed out"):
        launch(cloud)


def test_without_an_identity_the_error_names_the_answer_of_the_metadata_service():
    cloud = Oci({"region": "r", "compartment": "c", "subnet": "s", "tags": {}}, lambda *_: Answer(404, b""))
    with pytest.raises(CloudError, match=r"the metadata service answers 404 to identity/cert\.pem"):
        launch(cloud)


def test_a_metadata_service_that_is_busy_or_does_not_answer_raises_a_busy_error_so_that_the_controller_repeats_its_call():
    def silent(*_: Any) -> Answer:
        raise TimeoutError("timed out")

    for send in (silent, lambda *_: Answer(429, b"slow down"), lambda *_: Answer(503, b"")):
        with pytest.raises(BusyError, match="the metadata service"):
            launch(Oci({"region": "r", "compartment": "c", "subnet": "s", "tags": {}}, send))


def test_the_token_is_fetched_once_for_several_calls_but_again_before_it_can_expire(service, monkeypatch):
    now, federate, fetched = [NOW], service._federate, []  # noqa: SLF001
    monkeypatch.setattr(service, "_federate", lambda *its: fetched.append(now[0]) or federate(*its))
    given = {"region": "eu-frankfurt-1", "compartment": "c", "subnet": "s", "tags": TAGS}
    cloud = Oci(given, service, lambda: now[0])
    for passed_s in (0, 200, 99):
        now[0] += passed_s
        cloud.listing()
    assert fetched == [NOW, NOW + 299]


@pytest.mark.parametrize("status", [429, 503])
def test_a_throttled_request_for_a_token_raises_a_busy_error_so_that_the_controller_repeats_the_launch(
    cloud, service, monkeypatch, status
):
    monkeypatch.setattr(service, "_federate", lambda *_: said(status, "TooManyRequests", "slow down"))
    with pytest.raises(BusyError, match=rf"HTTP{status}: token of this machine: .*slow down"):
        launch(cloud)


def test_the_private_key_of_a_machine_is_in_no_arguments_of_a_command(cloud, monkeypatch):
    words: list[str] = []
    run = oci_identity.subprocess.run
    monkeypatch.setattr(oci_identity.subprocess, "run", lambda argv, **more: words.extend(argv) or run(argv, **more))
    launch(cloud)
    assert "-sign" in words
    assert not any("PRIVATE" in word for word in words)


ISLAND, BLOCK, LOCAL = (f"ocid1.{noun}.oc1.iad.anuwcljr{last}" for noun, last in (
    ("hpcisland", "aaaaaaa1"), ("computenetworkblock", "bbbbbbb2"), ("computelocalblock", "ccccccc3")))  # fmt: skip


@pytest.mark.parametrize(
    ("said", "place"),
    [
        (
            {"networkBlockId": "x", "rackId": "y", "rdmaTopologyData": {
                "customerHPCIslandId": ISLAND, "customerNetworkBlock": BLOCK, "customerLocalBlock": LOCAL}},
            ("island-aaaaaaa1", "block-bbbbbbb2", "local-ccccccc3"),
        ),
        ({"rdmaTopologyData": {"customerHPCIslandId": ISLAND, "customerLocalBlock": LOCAL}}, ("island-aaaaaaa1",)),
        ({"networkBlockId": "x", "rackId": "y", "rdmaTopologyData": None}, ("block-x", "rack-y")),
        ({}, ()),
        ([], ()),
        (None, ()),
    ],
)  # fmt: skip
def test_the_place_of_a_machine_is_its_cluster_network_and_the_blocks_in_its_own_metadata(cloud, said, place):
    there, silent = Machine("i1", "0123456789abcdef", "10.0.0.1"), Machine("i2", "0123456789abcdef", "10.0.0.2")

    def ask(program: str, machines: Sequence[Machine]) -> dict[str, str]:
        assert "http://169.254.169.254/opc/v2/host/" in program
        assert machines == [there, silent]
        return {"i1": "no JSON" if said is None else json.dumps(said)}

    assert cloud.places([there, silent], ask) == {"i1": ("network-01234567", *place)}
