"""The waist: what every target hands up and all above it sees.

It deliberately names no cloud. A second target that needs a change here shows that the waist is wrong.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import pulumi

from catalogue import Shape


@dataclass(frozen=True)
class Node:
    """One machine that takes part.

    Attributes:
        name: host name, as the target shows it.
        address: private IPv4 address on the front-end network.
        placement: where it stands (fault domain, block, rack), None where the target does not say.
    """

    name: str
    address: str
    placement: str | None = None


@dataclass(frozen=True)
class Access:
    """How the operator's machine reaches the nodes.

    Attributes:
        user: login user on every node.
        through: address of the bastion, None where nodes are reached directly.
        through_user: login user on the bastion.
        through_host_key: the bastion's public host key, pinned before the first connection.
        network: CIDR of the nodes' front-end network, which carries SSH and MPI's own traffic.
    """

    user: str
    through: str | None
    through_user: str | None
    through_host_key: str | None
    network: str


class Cluster(Protocol):
    """Any target's cluster.

    `identity` changes exactly when the machines or what is installed on them may have: image, shape, node ids.
    """

    nodes: pulumi.Output[tuple[Node, ...]]
    access: pulumi.Output[Access]
    shape: Shape
    identity: pulumi.Output[str]
