"""The head node, which is also the way in: the one machine with a public address, SSH from named networks only.

Its host key is pinned before the first connection. The provider reads no instance console, so the head itself writes id and key
into an SSM parameter that only its role may write, and the parameter is read over the cloud's own API. It deliberately takes no
part in measurements: it has no EFA.
"""

from __future__ import annotations

from dataclasses import dataclass

import pulumi
from pulumi_aws import ec2, ssm

from catalogue.aws import MachineImage, Volume
from cloudinit.aws import HeadBoot, Mounts, render
from components import login_machine
from components.aws.network import NetworkArgs

_UNSET = "not written yet"


def parameter_name(label: str) -> str:
    """Return the name of the SSM parameter that takes the head's host key."""
    return f"/busbar/{label}/head-host-key"


@dataclass(frozen=True, kw_only=True)
class HeadArgs:
    """What head is wanted.

    Attributes:
        network: names, tags and region.
        instance_type: such as m5.8xlarge.
        image: id of its image; `family` what that is.
        root: its root volume.
        timezone: its time zone.
        operator_key: public key that may log in; empty where only Session Manager may.
        timeout_s: bound on its first boot.
        subnet_id, group_id: the public subnet and the head's group.
        profile: its instance profile.
        mounts: its file systems.
    """

    network: NetworkArgs
    instance_type: str
    image: str
    family: MachineImage
    root: Volume
    timezone: str
    operator_key: str
    timeout_s: int
    subnet_id: pulumi.Input[str]
    group_id: pulumi.Input[str]
    profile: pulumi.Input[str]
    mounts: pulumi.Input[Mounts]


class Head(pulumi.ComponentResource):
    """A head whose first boot is done and whose host key is known.

    Creates: SSM parameter, instance, a Command that waits for it here, a Command that makes its key.
    Outputs: `instance_id`, `address` (public IPv4), `host_key`, `public_key` (the half that nodes authorise).
    """

    instance_id: pulumi.Output[str]
    address: pulumi.Output[str]
    host_key: pulumi.Output[str]
    public_key: pulumi.Output[str]

    def __init__(self, name: str, args: HeadArgs, opts: pulumi.ResourceOptions | None = None) -> None:
        super().__init__("busbar:aws:Head", name, None, opts)
        mine = pulumi.ResourceOptions(parent=self)
        parameter = ssm.Parameter(
            f"{name}-host-key",
            name=parameter_name(args.network.label),
            type="String",
            insecure_value=_UNSET,  # a public key; as a secret it would hide every address that is shown beside it
            description=f"Id and public host key of the head of busbar cluster {args.network.label}",
            tags=args.network.named("head-host-key"),
            opts=pulumi.ResourceOptions(parent=self, ignore_changes=["insecureValue", "value"]),  # the head writes it
        )
        instance = ec2.Instance(
            f"{name}-instance",
            ami=args.image,
            instance_type=args.instance_type,
            subnet_id=args.subnet_id,
            vpc_security_group_ids=[args.group_id],
            associate_public_ip_address=True,
            iam_instance_profile=args.profile,
            user_data=pulumi.Output.from_input(args.mounts).apply(lambda mounts: render(_boot(args, mounts))),
            user_data_replace_on_change=True,
            metadata_options=ec2.InstanceMetadataOptionsArgs(
                http_endpoint="enabled", http_tokens="required", http_put_response_hop_limit=1
            ),
            root_block_device=ec2.InstanceRootBlockDeviceArgs(
                volume_type="gp3",
                volume_size=args.root.gib,
                iops=args.root.iops,
                throughput=args.root.mibps,
                encrypted=True,
                delete_on_termination=True,
            ),
            ebs_optimized=True,
            tags=args.network.named("head"),
            volume_tags=args.network.named("head"),
            opts=pulumi.ResourceOptions(parent=self, depends_on=[parameter]),
        )
        announced = login_machine.announced(name, instance.public_ip, instance.id, args.timeout_s, mine)
        written = ssm.get_parameter_output(name=pulumi.Output.all(parameter.name, announced.stdout).apply(lambda both: both[0]))
        self.instance_id = instance.id
        self.address = instance.public_ip
        self.host_key = pulumi.Output.all(instance.id, written.insecure_value).apply(lambda both: _host_key(both[0], both[1]))
        made = login_machine.key(
            name,
            comment="busbar-head",
            address=self.address,
            user=args.family.login,
            host_key=self.host_key,
            instance_id=instance.id,
            opts=mine,
        )
        self.public_key = made.stdout
        self.register_outputs(
            {
                "instance_id": self.instance_id,
                "address": self.address,
                "host_key": self.host_key,
                "public_key": self.public_key,
            }
        )


def _boot(args: HeadArgs, mounts: Mounts) -> HeadBoot:
    return HeadBoot(
        image=args.family,
        timezone=args.timezone,
        keys=(args.operator_key,) if args.operator_key else (),
        mounts=mounts,
        region=args.network.region,
        parameter=parameter_name(args.network.label),
    )


def _host_key(instance: str, written: str) -> str:
    """Return the host key that the head wrote, if this head wrote it: a predecessor's key must not be trusted again."""
    owner, _, key = written.partition(" ")
    if owner != instance or len(key.split()) != 2:  # noqa: PLR2004 - type and key
        raise pulumi.RunError(
            f"the host key of {instance} is not in its SSM parameter, which holds {written!r}; it cannot be pinned, so nothing "
            "connects. Does its image have the aws command, and may it reach SSM?"
        )
    return key.strip()
