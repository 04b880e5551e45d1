"""Security groups that allow traffic between nodes, to the login node, and to the file systems' ports.

EFA's traffic matches only rules that name a group by its id. It never matches rules that name a network (aws-ofi-nccl 663). So
the nodes' group allows egress to itself by id. From outside, only SSH to the login node is open, from the configured networks.
"""

from __future__ import annotations

import itertools

import pulumi
from pulumi_aws import ec2, vpc

from catalogue.aws.ports import LUSTRE_PORTS, OPENZFS_PORTS
from components.after import after
from components.aws.launch_inputs import stack_tags
from config.aws.model import Aws, OwnGroups

_ALL = "-1"
_ANYWHERE = "0.0.0.0/0"


class Groups(pulumi.ComponentResource):
    """Security groups of nodes, login node and storage, with their rules.

    Creates: a group for nodes, one for the login node and, if the stack has file systems, one for storage; one rule for each
    peer and range of ports; nothing if the stack file names existing groups. If the network is retained, the storage group is
    retained, too, with the rules that let the file servers communicate with each other.
    Outputs: `nodes_id`, `login_id`, `storage_id` (None without file systems). Each id is known once the group's rules exist,
    because FSx checks the rules when it creates a file system.
    """

    nodes_id: pulumi.Output[str]
    login_id: pulumi.Output[str]
    storage_id: pulumi.Output[str] | None

    def __init__(self, name: str, wanted: Aws, vpc_id: pulumi.Input[str], opts: pulumi.ResourceOptions | None = None) -> None:
        super().__init__("busbar:aws:Groups", name, None, opts)
        self._name, self._wanted, self._vpc_id = name, wanted, vpc_id
        self._rules: dict[str, list[pulumi.Output[str]]] = {}
        if wanted.network.groups:
            self._take(wanted.network.groups)
        else:
            self._make()
        self.register_outputs({"nodes_id": self.nodes_id, "login_id": self.login_id})

    def _take(self, groups: OwnGroups) -> None:
        self.nodes_id, self.login_id = pulumi.Output.from_input(groups.nodes), pulumi.Output.from_input(groups.login)
        self.storage_id = None
        if self._wanted.storage.systems and groups.storage:
            self.storage_id = pulumi.Output.from_input(groups.storage)

    def _make(self) -> None:
        wanted = self._wanted
        nodes, login = self._group("nodes", "nodes and their EFA traffic"), self._group("login", "the login node")
        self._let_in("nodes", nodes, "itself", nodes)
        itself = self._let_out("nodes", nodes, "itself", nodes)
        self._let_out("nodes", nodes, "anywhere", None, after=[itself])
        self._let_in("nodes", nodes, "login", login)
        self._let_in("login", login, "nodes", nodes)
        if wanted.people:
            self._let_in("login", login, "itself", login)
        self._let_out("login", login, "anywhere", None)
        for index, source in enumerate(wanted.access.ssh_from):
            self._ssh(login, index, source)
        storage = self._storage(nodes, login) if wanted.storage.systems else None
        self.nodes_id = self._settled("nodes", nodes)
        self.login_id = self._settled("login", login)
        self.storage_id = self._settled("storage", storage) if storage else None

    def _storage(self, nodes: ec2.SecurityGroup, login: ec2.SecurityGroup) -> ec2.SecurityGroup:
        storage = self._group("storage", "file systems")
        clients = {"nodes": nodes, "login": login}
        lustre = self._wanted.storage.lustre
        if lustre:
            for ports in LUSTRE_PORTS:
                self._lustre(storage, clients, ports)
        if lustre and lustre.efa:
            self._both_ways(storage, {"nodes": nodes, "itself": storage}, None)
            self._let_in("nodes", nodes, "storage", storage)
            self._let_out("nodes", nodes, "storage", storage)
        if self._wanted.storage.home:
            for ports, protocol, (noun, peer) in itertools.product(OPENZFS_PORTS, ("tcp", "udp"), clients.items()):
                self._let_in("storage", storage, noun, peer, ports, protocol)
        return storage

    def _lustre(self, storage: ec2.SecurityGroup, clients: dict[str, ec2.SecurityGroup], ports: tuple[int, int]) -> None:
        """Let Lustre servers and clients open connections to each other."""
        self._both_ways(storage, clients | {"itself": storage}, ports)
        for noun, peer in clients.items():
            self._let_in(noun, peer, "storage", storage, ports)

    def _both_ways(
        self, storage: ec2.SecurityGroup, peers: dict[str, ec2.SecurityGroup], ports: tuple[int, int] | None
    ) -> None:
        for noun, peer in peers.items():
            self._let_in("storage", storage, noun, peer, ports)
            self._let_out("storage", storage, noun, peer, ports)

    def _group(self, noun: str, description: str) -> ec2.SecurityGroup:
        return ec2.SecurityGroup(
            f"{self._name}-{noun}",
            description=f"{self._wanted.name}: {description}",
            vpc_id=self._vpc_id,
            tags=stack_tags(self._wanted, noun),
            # The groups' rules refer to each other, and EC2 deletes no group while a rule of another group refers to it.
            revoke_rules_on_delete=True,
            opts=self._kept(noun, noun),
        )

    def _kept(self, of: str, noun: str, after: list[pulumi.Resource] | None = None) -> pulumi.ResourceOptions:
        is_storages = of == "storage" and noun in {"storage", "itself"}
        return pulumi.ResourceOptions(
            parent=self, depends_on=after, retain_on_delete=self._wanted.storage.stays and is_storages
        )

    def _let_in(  # noqa: PLR0913, PLR0917 - one private function for all such rules
        self,
        of: str,
        group: ec2.SecurityGroup,
        noun: str,
        peer: ec2.SecurityGroup,
        ports: tuple[int, int] | None = None,
        protocol: str = "tcp",
    ) -> None:
        made = vpc.SecurityGroupIngressRule(
            f"{self._name}-{of}-from-{noun}{_suffix(ports, protocol)}",
            security_group_id=group.id,
            referenced_security_group_id=peer.id,
            ip_protocol=protocol if ports else _ALL,
            from_port=ports[0] if ports else None,
            to_port=ports[1] if ports else None,
            opts=self._kept(of, noun),
        )
        self._rules.setdefault(of, []).append(made.id)

    def _let_out(  # noqa: PLR0913, PLR0917 - one private function for all such rules
        self,
        of: str,
        group: ec2.SecurityGroup,
        noun: str,
        peer: ec2.SecurityGroup | None,
        ports: tuple[int, int] | None = None,
        after: list[pulumi.Resource] | None = None,
    ) -> pulumi.Resource:
        made = vpc.SecurityGroupEgressRule(
            f"{self._name}-{of}-to-{noun}{_suffix(ports, 'tcp')}",
            security_group_id=group.id,
            referenced_security_group_id=peer.id if peer else None,
            cidr_ipv4=None if peer else _ANYWHERE,
            ip_protocol="tcp" if ports else _ALL,
            from_port=ports[0] if ports else None,
            to_port=ports[1] if ports else None,
            opts=self._kept(of, noun, after),
        )
        self._rules.setdefault(of, []).append(made.id)
        return made

    def _ssh(self, login: ec2.SecurityGroup, index: int, source: str) -> None:
        made = vpc.SecurityGroupIngressRule(
            f"{self._name}-login-ssh-{index}",
            security_group_id=login.id,
            cidr_ipv4=source,
            ip_protocol="tcp",
            from_port=22,
            to_port=22,
            opts=pulumi.ResourceOptions(parent=self),
        )
        self._rules.setdefault("login", []).append(made.id)

    def _settled(self, noun: str, group: ec2.SecurityGroup) -> pulumi.Output[str]:
        return after(group.id, *self._rules[noun])


def _suffix(ports: tuple[int, int] | None, protocol: str) -> str:
    return f"-{protocol}-{ports[0]}" if ports else ""
