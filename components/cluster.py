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
        address: IPv4 address or name by which the nodes reach each other; private where they have a private network.
        placement: where it stands (fault domain, block, rack), None where the target does not say.
        host_key: its public host key where that is known before the first connection, else None: first contact asks for it.
    """

    name: str
    address: str
    placement: str | None = None
    host_key: str | None = None


@dataclass(frozen=True)
class Access:
    """How the operator's machine reaches the nodes.

    Attributes:
        user: login user on every node.
        through: address of the bastion, None where nodes are reached directly.
        through_user: login user on the bastion.
        through_host_key: the bastion's public host key, pinned before the first connection.
        network: CIDR of the nodes' front-end network, which carries SSH and MPI's own traffic; None where the nodes are asked.
    """

    user: str
    through: str | None
    through_user: str | None
    through_host_key: str | None
    network: str | None


@dataclass(frozen=True)
class Contact:
    """How first contact is made; known before anything exists.

    Attributes:
        on_bastion: a loop on the bastion makes it, or else one on the operator's machine, for which every key must be pinned.
        first_boot: the machines are new, and cloud-init must have ended; or else they are taken as they stand.
        ask: ask every node what it is; needed where the shape or the network is not known.
        mpi: globs of Open MPI's folder, one of which every node that is asked must have; empty asks for none.
    """

    on_bastion: bool = True
    first_boot: bool = True
    ask: bool = False
    mpi: tuple[str, ...] = ()


class Cluster(Protocol):
    """Any target's cluster.

    `identity` changes exactly when the machines or what is installed on them may have: image, shape, node ids. `shape` is
    the catalogue's row, which may lack rails that first contact finds, or None where first contact finds all of it.
    """

    nodes: pulumi.Output[tuple[Node, ...]]
    access: pulumi.Output[Access]
    shape: Shape | None
    size: int
    contact: Contact
    identity: pulumi.Output[str]
