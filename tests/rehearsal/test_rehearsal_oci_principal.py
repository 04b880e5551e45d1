"""A host that calls OCI's API as an instance principal: names, routes, TLS, and the unchanged programs of a controller."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import controller_programs
import pytest
from oci_stack import AD, COMPARTMENT, SERVICE_CIDR, TENANCY, Stack, bastion, configuration
from rehearsed_hosts import end_world
from stand_in import faults
from wait_until import wait_until

from catalogue.oci import permissions
from rehearsal.host import hosts
from rehearsal.net import network, wires
from rehearsal.oci.cloud import Cloud
from rehearsal.oci.places import REGION
from rehearsal.plugin.store import Record
from rehearsal.world.world import World

pytestmark = [pytest.mark.rehearsal, pytest.mark.xdist_group("oci_principal")]

API = f"https://iaas.{REGION}.oraclecloud.com/20160918/instances"
CERTIFICATE = "http://169.254.169.254/opc/v2/identity/cert.pem"
CURL = ("curl", "--silent", "--connect-timeout", "3")
#: With the controller's own code: launches two machines, ends one, adds another, ends all, and prints the results.
CONTROLLER = f"""{controller_programs.IMPORTS}
from scheduler.elastic.cloud import BusyError, CloudError, Launch
from scheduler.elastic.oci import Oci

given, configuration, domain = json.loads(sys.argv[1]), sys.argv[2], sys.argv[3]
cloud = Oci(given)
{controller_programs.UNTIL}
spec = {{"configuration": configuration, "label": "train", "domains": [domain]}}
wanted = Launch((sys.argv[4:] or ["0123456789abcdef"])[0], "gpu/h100", 2, 2, spec, domain)
if sys.argv[4:]:
    cloud.launch(wanted)
    failed = until(lambda seen: seen.failed).failed
    sys.exit(print(json.dumps({{token: str(error) for token, error in failed.items()}})))
launched = [cloud.launch(wanted), cloud.launch(wanted)]
there = until(lambda seen: len([one for one in seen.machines if one.address]) == 2)
cloud.terminate([there.machines[0].id])
one = until(lambda seen: len(seen.machines) == 1)
again = wanted._replace(token="fedcba9876543210", size=1, least=1, beside=wanted.token)
def grows():
    try:
        return cloud.launch(again) == []
    except BusyError:
        return False
until(lambda seen: grows())
grown = until(lambda seen: len([one for one in seen.machines if one.address]) == 2)
assert {{one.token for one in grown.machines}} == {{wanted.token}} and cloud.launch(again) == []
cloud.terminate([its.id for its in grown.machines if its.id != one.machines[0].id])
until(lambda seen: len(seen.machines) == 1)
cloud.terminate([its.id for its in one.machines])
none = until(lambda seen: not seen.machines)
print(json.dumps([launched, there.machines, one.machines, none.failed]))
"""


class Account:
    """A world with a controller and three hosts.

    The first host has a NAT gateway and a service gateway, the second host only a service gateway, the third host no gateway.
    """

    def __init__(self, folder: Path) -> None:
        self.world = World.at(folder / "world")
        self.world.folder()
        network.ensure_operator(self.world)
        self.stack = Stack(Cloud(self.world)).network()
        self.head = self.stack.bastion()
        service = {
            "destination": SERVICE_CIDR,
            "destinationType": "SERVICE_CIDR_BLOCK",
            "networkEntityId": self.stack.ids["sgw"],
        }
        vcn = self.stack.ids["vcn"]
        self.stack.make("RouteTable", "services", vcnId=vcn, routeRules=[service])
        self.stack.make("RouteTable", "nowhere", vcnId=vcn, routeRules=[])
        self.hosts = {name: self._host(name, at) for at, name in enumerate(("in", "services", "nowhere"), 2)}
        rule = f"ALL {{instance.id = '{self.head.id}'}}"
        self.stack.make("DynamicGroup", "g", compartmentId=TENANCY, name="head", description="d", matchingRule=rule)
        allowed = [f"Allow dynamic-group head to {one} in compartment id {COMPARTMENT}" for one in permissions.CONTROLLER]
        self.stack.make("Policy", "p", name="head", description="d", statements=allowed)
        self.stack.make("InstanceConfiguration", "conf", **configuration(self.stack.ids["private"]))

    def _host(self, table: str, number: int) -> Record:
        ids = self.stack.ids
        subnet = self.stack.make(
            "Subnet",
            f"s{table}",
            vcnId=ids["vcn"],
            cidrBlock=f"10.0.{number}.0/24",
            dnsLabel=f"s{table}",
            routeTableId=ids[table],
            securityListIds=[ids["closed"]],
            prohibitPublicIpOnVnic=True,
        )
        asked = bastion(subnet.id)
        asked |= {"displayName": table, "createVnicDetails": {"subnetId": subnet.id, "assignPublicIp": "false"}}
        return self.stack.make("Instance", f"h{table}", **asked)

    def inside(self, host: Record, *words: str) -> tuple[int, str]:
        done = hosts.enter(self.world, host.short, list(words), 150)
        return done.returncode, done.stdout.strip() or done.stderr[-2000:]

    def controller(self, *failing: str) -> Any:
        """Run CONTROLLER on the head and return what it prints.

        `failing` may be the token of a launch that is expected to fail; CONTROLLER then prints why the launch failed.
        """
        controller_programs.install(self.world, self.head)
        given = {"region": REGION, "compartment": COMPARTMENT, "subnet": self.stack.ids["private"], "tags": {"busbar": "one"}}
        words = ["python3", "-c", CONTROLLER, json.dumps(given), self.stack.ids["conf"], AD, *failing]
        status, said = self.inside(self.head, *words)
        assert status == 0, said
        return json.loads(said)


@pytest.fixture(scope="module")
def account(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Account]:
    folder = tmp_path_factory.mktemp("principal")
    try:
        made = Account(folder)
        # The first request for an identity starts the service that plays the API.
        status, said = made.inside(made.head, *CURL, "-H", "Authorization: Bearer Oracle", CERTIFICATE)
        assert (status, said[:27]) == (0, "-----BEGIN CERTIFICATE-----")
        yield made
    finally:
        (folder / "world/clouds/oci.json").unlink(missing_ok=True)
        end_world(World.at(folder / "world"))


def test_the_controller_launches_and_lists_and_terminates_machines_as_an_instance_principal(account: Account) -> None:
    launched, there, one, failed = account.controller()
    assert (launched, failed) == ([[], []], {})
    assert sorted(machine[2] for machine in there) == ["10.0.1.2", "10.0.1.3"]
    assert {machine[1] for machine in there} == {"0123456789abcdef"}
    assert [machine[0] for machine in one] == [machine[0] for machine in there[1:]]

    def kinds() -> list[str]:
        return [record.token.rpartition(":")[2] for record in account.stack.cloud.store.read().records.values()]

    wait_until(lambda: "ClusterNetwork" not in kinds(), "the network has gone")
    assert kinds().count("Instance") == 4


def test_a_controllers_programs_get_the_reason_why_a_launch_failed(account: Account) -> None:
    faults(account.stack.cloud, {"kind": "capacity", "after": 1})
    assert account.controller("no-room") == {"no-room": "InternalError: Out of host capacity."}
    faults(account.stack.cloud)


def test_a_host_in_no_dynamic_group_has_an_identity_but_no_rights(account: Account) -> None:
    asked = "from scheduler.elastic import oci_identity as i, http_client as h; import time\n"
    asked += f"u = '{API}?compartmentId={COMPARTMENT}'\n"
    asked += f"s = i.own('{REGION}', h.send); a = h.send('GET', u, s.headers('GET', u, b'', time.time()), b'', 20)\n"
    asked = f"{controller_programs.IMPORTS}{asked}print(a.status, a.body.decode())"
    host = account.hosts["in"]
    controller_programs.install(account.world, host)
    status, said = account.inside(host, "python3", "-c", asked)
    assert (status, said[:3]) == (0, "404"), said
    assert json.loads(said[4:])["code"] == "NotAuthorizedOrNotFound"


@pytest.mark.parametrize(("name", "reaches"), [("in", True), ("services", True), ("nowhere", False)])
def test_a_private_host_reaches_the_api_only_if_its_routes_have_a_gateway(account: Account, name: str, reaches: bool) -> None:
    status, said = account.inside(account.hosts[name], *CURL, "--output", "/dev/null", "--write-out", "%{http_code}", API)
    assert (status == 0, said) == (reaches, "401" if reaches else "000")


def test_a_host_trusts_only_the_certificates_of_the_rehearsed_services(account: Account) -> None:
    host = account.hosts["in"]
    assert account.inside(host, *CURL, API.replace("iaas", "auth"))[0] == 0
    assert account.inside(host, *CURL, "--resolve", "example.com:443:240.0.0.10", "https://example.com/")[0] == 60


def test_only_the_owner_reads_the_certificate_authority_and_the_api_runs_on_the_rehearsed_internet(account: Account) -> None:
    assert (account.world.path / "authority").stat().st_mode & 0o077 == 0
    assert (account.world.path / "identities").stat().st_mode & 0o077 == 0
    service = int((account.world.path / "locks" / "service-oci").read_text())
    assert service in wires.pids(account.world.netns(network.OPERATOR))
