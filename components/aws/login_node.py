"""The login nodes: the only machines with public addresses; from outside, they accept only SSH from configured networks.

Each host key is pinned before the first connection. The provider cannot read an instance's console. So the machine writes its
id and host key to an SSM parameter, which only the machine's own role may write. The program reads the parameter through the
cloud's API.
"""

from __future__ import annotations

from dataclasses import asdict

import pulumi
from pulumi_aws import ec2, ssm

from cloudinit.aws import SCRATCH, LoginBoot, Mounts, user_data
from components import login_machine
from components.after import after
from components.aws.launch_inputs import LOGIN_TAG, LaunchInputs, gp3, stack_tags
from components.aws.slurms_machines import started_by_slurm
from components.aws.tagged_machines import RIGHT, tagged
from components.engine_state import this_stack
from components.left_behind import never_twice
from components.reach import Machine
from components.slurm import new_controller
from components.slurm.first_boot import software
from config.aws.model import Aws
from config.measure import Measure

_UNSET = "not written yet"


class LoginNode(pulumi.ComponentResource):
    """A login node whose first boot has finished and whose host key is known.

    With Slurm, number 0 is the controller, and higher numbers are additional login nodes.

    Creates: SSM parameter, instance, its Elastic IP address (if configured, for number 0 only), a Command on the operator's
    machine that waits until the instance answers, and a Command that asks for the result of the instance's first boot.
    Outputs: `instance_id`; `machine`, with its public IPv4 address and host key; `private_address`.
    """

    instance_id: pulumi.Output[str]
    private_address: pulumi.Output[str]
    machine: pulumi.Output[Machine]

    def __init__(  # noqa: PLR0913, PLR0917 - what is wanted, and what other parts made
        self,
        name: str,
        wanted: Aws,
        measure: Measure,
        parts: LaunchInputs,
        opts: pulumi.ResourceOptions | None = None,
        number: int = 0,
    ) -> None:
        super().__init__("busbar:aws:LoginNode", name, None, opts)
        login, label = wanted.login, f"login-{number}" if number else "login"
        mine = pulumi.ResourceOptions(parent=self)
        parameter = ssm.Parameter(
            f"{name}-host-key",
            name=parts.parameter,
            type="String",
            insecure_value=_UNSET,  # a secret would also hide every address in the same output
            description=f"Id and public host key of the login node of busbar cluster {wanted.name}",
            tags=stack_tags(wanted, f"{label}-host-key"),
            opts=pulumi.ResourceOptions(parent=self, ignore_changes=["insecureValue", "value"]),  # the machine writes the value
        )
        place = {LOGIN_TAG: f"{this_stack()}/{number}" if number else this_stack()}
        known = pulumi.Output.all(mounts=parts.mounts, parameter=parts.parameter, key=parts.controller_key)
        data = known.apply(lambda its: user_data(_boot(wanted, **its)))
        instance = ec2.Instance(
            f"{name}-instance",
            ami=parts.image,
            instance_type=login.type,
            subnet_id=parts.subnet_id,
            vpc_security_group_ids=[parts.group_id],
            associate_public_ip_address=True,
            iam_instance_profile=parts.profile,
            user_data=data.apply(lambda its: its.text),
            user_data_base64=data.apply(lambda its: its.packed if its.text is None else None),
            user_data_replace_on_change=True,
            metadata_options=ec2.InstanceMetadataOptionsArgs(
                http_endpoint="enabled", http_tokens="required", http_put_response_hop_limit=1
            ),
            root_block_device=ec2.InstanceRootBlockDeviceArgs(
                **gp3(login.root),
                encrypted=True,
                delete_on_termination=True,
            ),
            ebs_optimized=True,
            tags=wanted.named(label) | place,
            volume_tags=stack_tags(wanted, label),
            # Two properties change by themselves, and each change would replace the login node. A refresh of a stopped login
            # node finds no public address (terraform-provider-aws:internal/service/ec2/ec2_instance.go). Without a configured
            # image, AWS's releases change the image.
            opts=pulumi.ResourceOptions(
                parent=self,
                depends_on=[parameter],
                ignore_changes=["associatePublicIpAddress", *([] if login.image else ["ami"])],
                hooks=never_twice(
                    f"{name}-instance",
                    lambda: tagged(place),
                    right=RIGHT,
                    preflight=wanted.preflight,
                    first=() if number else [_asks_first(f"{name}-instance", wanted)],
                ),
            ),
        )
        address = instance.public_ip
        if login.elastic_ip and not number:
            # An Elastic IP address changes the public address, not the machine, and moves to the machine's replacement.
            address = ec2.Eip(
                f"{name}-address", domain="vpc", instance=instance.id, tags=stack_tags(wanted, "login"), opts=mine
            ).public_ip
        announced = login_machine.announced(name, address, instance.id, measure.ready_timeout_s, mine)
        written = ssm.get_parameter_output(name=after(parameter.name, announced.stdout))
        self.instance_id, self.private_address = instance.id, instance.private_ip
        known = pulumi.Output.all(address=address, instance=instance.id, written=written.insecure_value, said=announced.stdout)
        pinned = known.apply(
            lambda its: Machine(
                label, its["address"], login.family.login, _host_key(its["instance"], its["written"], its["said"])
            )
        )
        self.machine = login_machine.booted(name, pinned, instance, mine)
        self.register_outputs(
            {
                "instance_id": self.instance_id,
                "machine": self.machine.apply(asdict),
            }
        )


def _asks_first(name: str, wanted: Aws) -> pulumi.ResourceHook:
    return new_controller.asks_first(
        name,
        "aws",
        wanted.allow_replace,
        lambda: started_by_slurm(wanted),
        right=RIGHT,
        preflight=wanted.preflight,
    )


def _boot(wanted: Aws, mounts: Mounts, parameter: str, key: str | None) -> LoginBoot:
    """Return the first boot.

    `key` is the public key of the controller that sets up this login node; None if this login node is itself the controller.
    """
    return LoginBoot(
        image=wanted.login.family,
        timezone=wanted.timezone,
        keys=(wanted.access.public_key, *filter(None, (key,))),
        mounts=mounts,
        region=wanted.region,
        parameter=parameter,
        slurm=software(wanted.login.family.slurm, wanted.slurm, scratch=SCRATCH, controller=key is None),
    )


def _host_key(instance: str, written: str, said: str) -> str:
    """Return the host key if this instance wrote it; an earlier instance's key must not be trusted."""
    owner, _, key = written.partition(" ")
    if owner != instance or len(key.split()) != 2:  # noqa: PLR2004 - type and key
        raise pulumi.RunError(
            f"the host key of {instance} is not in its SSM parameter, which has {written!r}; the key cannot be pinned, so "
            f"nothing connects. The machine announced {said.strip()}. Does its image have the aws command, and can the machine "
            "reach SSM? Its console shows the end of the log: "
            f"aws ec2 get-console-output --instance-id {instance} --latest --output text"
        )
    return key.strip()
