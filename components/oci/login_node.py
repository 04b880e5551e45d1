"""The login nodes: the only machines with public addresses; all nodes are reached through the first login node.

Each host key is read from the machine's console over the cloud's API, so that it is pinned before the first connection.
"""

from __future__ import annotations

import base64
import binascii
from dataclasses import asdict

import pulumi
from pulumi_oci import core

from cloudinit import LoginBoot, Mount, render
from cloudinit.steps import CONSOLE_KEY, LOCAL_DISKS
from components import login_machine
from components.left_behind import never_twice
from components.oci import slurms_machines
from components.oci.preflight import Place
from components.oci.tagged_machines import RIGHT, instances_named, stack_tags
from components.reach import Machine
from components.slurm import new_controller
from components.slurm.first_boot import software
from config.measure import Measure
from config.oci.model import Oci

_ED25519, _KEY_BYTES = b"\0\0\0\x0bssh-ed25519\0\0\0\x20", 32
_CONSOLE_BYTES = 1024 * 1024  # the API returns at most this much


class LoginNode(pulumi.ComponentResource):
    """A login node whose first boot has finished and whose host key is known.

    With Slurm, number 0 is the controller, and higher numbers are additional login nodes.

    Creates: instance, a Command on the operator's machine that waits until the instance answers, the instance's console
    history, and a Command that asks for the result of the instance's first boot.
    Outputs: `instance_id`; `machine`, with its public IPv4 address and host key; `private_address`.
    """

    instance_id: pulumi.Output[str]
    private_address: pulumi.Output[str]
    machine: pulumi.Output[Machine]

    def __init__(  # noqa: PLR0913, PLR0917 - what is wanted, where, and the subnet that another part made
        self,
        name: str,
        wanted: Oci,
        place: Place,
        measure: Measure,
        subnet_id: pulumi.Input[str],
        mounts: pulumi.Output[tuple[Mount, ...]] | None,
        opts: pulumi.ResourceOptions | None = None,
        number: int = 0,
        controller_key: pulumi.Output[str] | None = None,
    ) -> None:
        super().__init__("busbar:oci:LoginNode", name, None, opts)
        mine = pulumi.ResourceOptions(parent=self)
        login, noun = wanted.login, f"login-{number}" if number else "login"
        label, own = f"{wanted.name}-{noun}", wanted.access.public_key
        instance = core.Instance(
            f"{name}-instance",
            compartment_id=wanted.compartment,
            freeform_tags=stack_tags(wanted),
            availability_domain=place.availability_domain,
            display_name=label,
            shape=login.shape,
            shape_config=core.InstanceShapeConfigArgs(ocpus=login.ocpus, memory_in_gbs=login.memory_gb),
            source_details=core.InstanceSourceDetailsArgs(source_type="image", source_id=place.login_image),
            create_vnic_details=core.InstanceCreateVnicDetailsArgs(
                # The machine gets no host name: its replacement is created before it ends, and a name must be unique.
                subnet_id=subnet_id,
                assign_public_ip="true",
            ),
            instance_options=core.InstanceInstanceOptionsArgs(are_legacy_imds_endpoints_disabled=True),
            metadata={
                # The controller sets up the other login nodes over SSH.
                "ssh_authorized_keys": controller_key.apply(lambda key: f"{own}\n{key}") if controller_key else own,
                "user_data": user_data(wanted, place, mounts, controller=not number),
            },
            # If `login.image` is set, a change of it replaces the instance: the provider would otherwise change the image in
            # place, and the program would not learn the new host key. If it is not set, the newest image is used at creation.
            # Later changes of the newest image are ignored, so that the login node stays.
            opts=pulumi.ResourceOptions(
                parent=self,
                replace_on_changes=["sourceDetails.sourceId"],
                ignore_changes=["sourceDetails.sourceId"] if login.image is None else None,
                hooks=never_twice(
                    f"{name}-instance",
                    lambda: instances_named(wanted.compartment, label),
                    right=RIGHT,
                    preflight=wanted.preflight,
                    first=() if number else [_asks_first(f"{name}-instance", wanted)],
                ),
            ),
        )
        announced = login_machine.announced(name, instance.public_ip, instance.id, measure.ready_timeout_s, mine)
        history = core.ConsoleHistory(
            f"{name}-console",
            instance_id=instance.id,
            freeform_tags=stack_tags(wanted),
            opts=pulumi.ResourceOptions(parent=self, depends_on=[announced]),
        )
        console = core.get_console_history_data_output(console_history_id=history.id, length=_CONSOLE_BYTES)
        self.instance_id, self.private_address = instance.id, instance.private_ip
        known = pulumi.Output.all(address=instance.public_ip, name=instance.display_name, console=console.data)
        pinned = known.apply(
            lambda its: Machine(noun, its["address"], login.family.login, _host_key(its["name"], its["console"]))
        )
        self.machine = login_machine.booted(name, pinned, instance, mine)
        self.register_outputs(
            {
                "instance_id": self.instance_id,
                "machine": self.machine.apply(asdict),
            }
        )


def _asks_first(name: str, wanted: Oci) -> pulumi.ResourceHook:
    return new_controller.asks_first(
        name,
        "oci",
        wanted.allow_replace,
        lambda: slurms_machines.started_by_slurm(wanted),
        right=slurms_machines.RIGHT,
        preflight=wanted.preflight,
    )


def user_data(
    wanted: Oci, place: Place, mounts: pulumi.Output[tuple[Mount, ...]] | None, *, controller: bool = True
) -> pulumi.Input[str]:
    """Return a login node's user data, in base64.

    With Slurm, all login nodes, the controller included, mount the home folders and accept connections from the nodes. The
    controller accepts connections from other login nodes even before these exist, because changed user data would replace the
    controller.
    """
    trusted = (wanted.network.private, wanted.network.public)
    if wanted.slurm is None or mounts is None:
        return _encoded(LoginBoot(wanted.login.family, wanted.timezone, place.search_domain))
    return mounts.apply(
        lambda found: _encoded(
            LoginBoot(
                wanted.login.family,
                wanted.timezone,
                place.search_domain,
                trusted_cidrs=trusted,
                mounts=tuple(mount for mount in found if mount.kind == "nfs"),
                slurm=software(wanted.login.family.slurm, wanted.slurm, scratch=LOCAL_DISKS, controller=controller),
            )
        )
    )


def _encoded(boot: LoginBoot) -> str:
    return base64.b64encode(render(boot).encode()).decode()


def _host_key(instance: str, console: str) -> str:
    """Return the last host key that first boot wrote to the console; the console's text survives reboots.

    The kernel writes to the console, too, and may cut or change a line, so a key counts only if it is complete and appears
    twice.
    """
    lines = [line.partition(CONSOLE_KEY)[2].split()[:2] for line in console.splitlines() if CONSOLE_KEY in line]
    whole = [" ".join(words) for words in lines if len(words) == 2 and _is_ed25519(*words)]  # noqa: PLR2004 - type and key
    for key in reversed(whole):
        if whole.count(key) > 1:
            return key
    raise pulumi.RunError(
        f"the console of {instance} does not show the same host key twice after '{CONSOLE_KEY}', so the key cannot be pinned; "
        "does this machine's image write to the serial console?"
    )


def _is_ed25519(kind: str, encoded: str) -> bool:
    """Tell whether `kind` and `encoded` are a complete public key (RFC 8709, section 4: two strings, each after its length)."""
    try:
        raw = base64.b64decode(encoded, validate=True)
    except binascii.Error:
        return False
    return kind == "ssh-ed25519" and raw.startswith(_ED25519) and len(raw) == len(_ED25519) + _KEY_BYTES
