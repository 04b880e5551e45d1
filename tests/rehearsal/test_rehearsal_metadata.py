"""The rehearsed metadata service and the account's parameters: tokens, paths, permissions, and concurrent writers."""

from __future__ import annotations

import json
import socket
import threading
from concurrent.futures import ThreadPoolExecutor

import pytest

from rehearsal.aws import metadata_service, parameters
from rehearsal.aws.metadata_service import Service
from rehearsal.host.metadata_server import read
from rehearsal.world.world import World

TEXTS = {
    "latest/meta-data/instance-id": "i-0123456789abcdef0",
    "latest/meta-data/placement/region": "ap-northeast-1",
    "latest/meta-data/placement/availability-zone": "ap-northeast-1a",
    "latest/user-data": "#cloud-config\n",
}
LIFE = {"x-aws-ec2-metadata-token-ttl-seconds": "60"}


@pytest.fixture
def world(tmp_path):
    made = World.at(tmp_path / "w")
    record(made)
    return made


def record(world, **more):
    spec = {"metadata": TEXTS, "may_put": ["/busbar/*/key"], **more}
    (world.folder("hosts", "h0") / "spec.json").write_text(json.dumps(spec))


def asked(service, path, token=None, method="GET", body=b""):
    token = service.answer("PUT", "/latest/api/token", LIFE, b"")[1] if token is None else token
    return service.answer(method, path, {"x-aws-ec2-metadata-token": token} if token else {}, body)


def put(service, name, value="v", **more):
    body = json.dumps({"Name": name, "Value": value, "Type": "String", **more}).encode()
    return asked(service, metadata_service.PARAMETER, method="POST", body=body)


def test_the_metadata_service_answers_no_request_without_a_token_that_it_issued(world):
    service = Service(world.path, "h0")
    for token in ("", "guessed"):
        assert asked(service, "/latest/meta-data/instance-id", token) == (401, "")
    assert put(service, "/busbar/x/key")[0] == 200
    assert service.answer("POST", metadata_service.PARAMETER, {}, b"{}")[0] == 401


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({}, 400),
        ({"x-aws-ec2-metadata-token-ttl-seconds": "0"}, 400),
        ({"x-aws-ec2-metadata-token-ttl-seconds": "21601"}, 400),
        ({**LIFE, "x-forwarded-for": "10.0.0.9"}, 403),
        (LIFE, 200),
    ],
)
def test_a_token_is_issued_only_for_up_to_six_hours_and_never_through_a_proxy(world, headers, status):
    assert Service(world.path, "h0").answer("PUT", "/latest/api/token", headers, b"")[0] == status


def test_a_token_expires(world, monkeypatch):
    service = Service(world.path, "h0")
    now = [1000.0]
    monkeypatch.setattr(metadata_service.time, "monotonic", lambda: now[0])
    token = service.answer("PUT", "latest/api/token", LIFE, b"")[1]
    assert asked(service, "latest/meta-data/instance-id", token) == (200, "i-0123456789abcdef0")
    now[0] += 61
    assert asked(service, "latest/meta-data/instance-id", token) == (401, "")


def test_a_folder_of_metadata_lists_its_entries_but_a_missing_path_gives_status_404(world):
    service = Service(world.path, "h0")
    assert asked(service, "/latest/meta-data/") == (200, "instance-id\nplacement/")
    assert asked(service, "/latest/meta-data/placement/") == (200, "availability-zone\nregion")
    assert asked(service, "/latest/meta-data/instance")[0] == 404
    assert asked(service, "/latest/meta-data/instance-id", method="DELETE")[0] == 405


def test_a_role_writes_only_the_parameters_that_it_may_write(world):
    service = Service(world.path, "h0")
    assert put(service, "/busbar/a/key", "one") == (200, '{"Version": 1, "Tier": "Standard"}')
    assert put(service, "/busbar/a/key", "two") == (409, "ParameterAlreadyExists")
    assert json.loads(put(service, "/busbar/a/key", "two", Overwrite=True)[1])["Version"] == 2
    assert put(service, "/other", "x") == (403, "AccessDeniedException")
    assert parameters.get(world, "/busbar/a/key") == parameters.Parameter("/busbar/a/key", "two", "String", 2)
    assert parameters.get(world, "/other") is None


def test_no_parameter_is_written_by_a_machine_without_a_role_or_whose_role_lacks_permission(world):
    record(world, may_put=[])
    assert put(Service(world.path, "h0"), "/busbar/a/key") == (404, "no role")
    record(world, may_put=[], metadata={**TEXTS, "latest/meta-data/iam/info": "{}"})
    assert put(Service(world.path, "h0"), "/busbar/a/key") == (403, "AccessDeniedException")


def test_requests_that_arrive_in_pieces_are_read_and_invalid_requests_are_refused():
    ours, theirs = socket.socketpair()
    whole = b"POST /a HTTP/1.1\r\nHost: x\r\nContent-Length: 5\r\n\r\nhello"

    def slowly():
        for at in range(0, len(whole), 7):
            ours.sendall(whole[at : at + 7])

    sender = threading.Thread(target=slowly)
    sender.start()
    assert read(theirs) == ("POST", "/a", {"host": "x", "content-length": "5"}, b"hello")
    sender.join()
    ours.sendall(b"half a requ")
    ours.close()
    with pytest.raises(ValueError, match="no complete request"):
        read(theirs)
    theirs.close()


def test_concurrent_writers_lose_no_version_of_a_parameter_and_similar_names_are_different_parameters(tmp_path):
    world = World.at(tmp_path / "w")
    with ThreadPoolExecutor(8) as window:
        made = list(window.map(lambda at: parameters.put(world, "/a/b", str(at), overwrite=True), range(40)))
    assert sorted(one.version for one in made) == list(range(1, 41))
    assert parameters.get(world, "/a/b") == max(made, key=lambda one: one.version)
    parameters.put(world, "/a%2Fb", "other", type="SecureString")
    assert parameters.get(world, "/a%2Fb").value == "other"
    assert len(list((world.path / "ssm").glob("*.json"))) == 2
    with pytest.raises(parameters.ExistsError):
        parameters.put(world, "/a/b", "again")
    with pytest.raises(ValueError, match="must be one of String"):
        parameters.put(world, "/a/c", "x", type="Text")
    parameters.delete(world, "/a/b")
    parameters.delete(world, "/a/b")
    assert parameters.get(world, "/a/b") is None
    assert parameters.put(world, "/a/b", "new").version == 1
