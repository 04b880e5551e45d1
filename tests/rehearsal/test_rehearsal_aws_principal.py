"""A host that calls EC2's API with its role's credentials: names, routes, TLS, and the unchanged programs of a controller."""

from __future__ import annotations

import base64
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import controller_programs
import pytest
from aws_cloud import PLAIN_IMAGE, REGION, TRUST, Stack, head
from rehearsed_hosts import end_world
from wait_until import wait_until

from rehearsal.aws.cloud import Cloud
from rehearsal.host import hosts
from rehearsal.net import network
from rehearsal.plugin.store import Record
from rehearsal.world.world import World

pytestmark = [pytest.mark.rehearsal, pytest.mark.xdist_group("aws_principal")]

API = f"https://ec2.{REGION}.amazonaws.com"
CURL = ("curl", "--silent", "--connect-timeout", "3")
STATEMENTS = [
    {"Effect": "Allow", "Action": ["ec2:RunInstances", "ec2:DescribeInstances", "ec2:CreateTags"], "Resource": "*"},
    {
        "Effect": "Allow",
        "Action": "ec2:TerminateInstances",
        "Resource": "*",
        "Condition": {"StringEquals": {"aws:ResourceTag/busbar": "one"}},
    },
]
#: Launches, lists and terminates machines with the controller's own code, and prints the results.
CONTROLLER = f"""{controller_programs.IMPORTS}
from scheduler.elastic.aws import Aws
from scheduler.elastic.cloud import CloudError, Launch

given, template = json.loads(sys.argv[1]), sys.argv[2]
cloud = Aws(given)
{controller_programs.UNTIL}
wanted = Launch("0123456789abcdef", "cpu/m5", 2, 2, {{"template": template, "tags": {{"Name": "node"}}}})
launched = [cloud.launch(wanted), cloud.launch(wanted)]
there = until(lambda seen: len([one for one in seen.machines if one.address and not one.ended]) == 2)
cloud.terminate(launched[0])
none = until(lambda seen: all(one.ended for one in seen.machines))
cloud.terminate(launched[0])
print(json.dumps([launched, there.machines, none.machines]))
"""


class Account:
    """A world with a controller in the public subnet, and with a host behind the NAT gateway."""

    def __init__(self, folder: Path) -> None:
        self.world = World.at(folder / "world")
        self.world.folder()
        network.ensure_operator(self.world)
        self.stack = Stack(Cloud(self.world)).network().rules()
        ids = self.stack.ids
        self.stack.make("Role", "controller", name="controller", assumeRolePolicy=TRUST)
        policy = json.dumps({"Version": "2012-10-17", "Statement": STATEMENTS})
        self.stack.make("RolePolicy", "own", role="controller", policy=policy)
        self.stack.make("InstanceProfile", "profile", name="own", role="controller")
        nic = {"deviceIndex": 0, "subnetId": ids["private"], "securityGroups": [ids["nodes"]]}
        self.stack.make(
            "LaunchTemplate",
            "template",
            name="node",
            imageId=PLAIN_IMAGE,
            instanceType="m5.large",
            networkInterfaces=[nic],
            userData=base64.b64encode(b"#cloud-config\n").decode(),
        )
        self.head = self.stack.make("Instance", "head-node", **{**head(ids), "iamInstanceProfile": "own"})
        inner = {"subnetId": ids["private"], "vpcSecurityGroupIds": [ids["nodes"]], "associatePublicIpAddress": False}
        self.inner = self.stack.make("Instance", "inner", **{**head(ids), **inner, "iamInstanceProfile": "own"})

    def inside(self, host: Record, *words: str) -> tuple[int, str]:
        done = hosts.enter(self.world, host.short, list(words), 150)
        return done.returncode, done.stdout.strip() or done.stderr[-2000:]

    def controller(self, host: Record) -> Any:
        """Run the controller's programs on a host; return their results."""
        controller_programs.install(self.world, host)
        given = {"region": REGION, "endpoint": API, "tags": {"busbar": "one"}}
        status, said = self.inside(host, "python3", "-c", CONTROLLER, json.dumps(given), self.stack.ids["template"])
        assert status == 0, said
        return json.loads(said)


@pytest.fixture(scope="module")
def account(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Account]:
    folder = tmp_path_factory.mktemp("aws-principal")
    try:
        yield Account(folder)
    finally:
        (folder / "world/clouds/aws.json").unlink(missing_ok=True)
        end_world(World.at(folder / "world"))


def test_the_controllers_programs_launch_and_list_and_terminate_machines_with_the_controllers_role(account: Account) -> None:
    launched, there, none = account.controller(account.head)
    assert launched[0] == launched[1], "one client token launches machines only once"
    assert sorted(machine[0] for machine in there) == sorted(launched[0])
    assert {machine[1] for machine in there} == {"0123456789abcdef"}
    assert len({machine[2] for machine in there}) == 2
    assert all(machine[2].startswith("10.1.0.") for machine in there)
    assert sorted(machine[0] for machine in none) == sorted(launched[0])

    def instances() -> int:
        return sum(one.token.endswith(":Instance") for one in account.stack.cloud.store.read().records.values())

    wait_until(lambda: instances() == 2, "the machines have gone")


def test_a_host_behind_a_nat_gateway_reaches_the_api_unless_its_security_group_blocks_outgoing_traffic(
    account: Account,
) -> None:
    asked = [*CURL, "--output", "/dev/null", "--write-out", "%{http_code}", "--data", "Action=DescribeInstances", API]
    assert account.inside(account.inner, *asked) == (0, "403")
    cloud = account.stack.cloud
    account.stack.delete("nodes-anywhere")
    cloud.render(account.stack.ids["vpc"])
    assert account.inside(account.inner, *asked)[1] == "000"


def test_a_machine_without_a_role_has_no_credentials(account: Account) -> None:
    stack = account.stack
    given = {name: value for name, value in head(stack.ids).items() if name != "iamInstanceProfile"}
    plain = stack.make("Instance", "plain", **given)
    script = (
        "t=$(curl -s -X PUT -H 'X-aws-ec2-metadata-token-ttl-seconds: 60' http://169.254.169.254/latest/api/token); "
        "curl -s -o /dev/null -w '%{http_code}' -H \"X-aws-ec2-metadata-token: $t\" "
        "http://169.254.169.254/latest/meta-data/iam/security-credentials/"
    )
    assert account.inside(plain, "sh", "-c", script)[1] == "404"
    assert account.inside(account.head, "sh", "-c", script)[1] == "200"
