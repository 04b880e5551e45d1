"""SSH connections for Commands: host keys pinned, the operator's key in an agent, bounded patience.

It deliberately names no agent socket and no private key: both would enter the state, and the first changes with every session.
"""

from __future__ import annotations

from pulumi_command import remote

from components.cluster import Access

#: Failed dials before a Command gives up. First contact has been made by a loop on the nearest machine, so a few will do;
#: a bastion that drops bursts needs some.
DIAL_ERROR_LIMIT = 30


def to_bastion(access: Access) -> remote.ConnectionArgs:
    """Return the connection to the bastion itself."""
    if access.through is None or access.through_host_key is None:
        msg = "there is no bastion to connect to"
        raise ValueError(msg)
    return remote.ConnectionArgs(
        host=access.through,
        user=access.through_user,
        host_key=access.through_host_key,
        dial_error_limit=DIAL_ERROR_LIMIT,
    )


def to_node(access: Access, address: str, host_key: str) -> remote.ConnectionArgs:
    """Return the connection to one node, through the bastion where there is one."""
    proxy = None
    if access.through is not None:
        proxy = remote.ProxyConnectionArgs(
            host=access.through,
            user=access.through_user,
            host_key=access.through_host_key,
            dial_error_limit=DIAL_ERROR_LIMIT,
        )
    return remote.ConnectionArgs(
        host=address,
        user=access.user,
        host_key=host_key,
        dial_error_limit=DIAL_ERROR_LIMIT,
        proxy=proxy,
    )
