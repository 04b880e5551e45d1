"""Looks up the AMIs that the stack file does not name: AWS's newest Deep Learning AMI of the stack file's `imageFamily`.

AWS publishes the id of that AMI as a public parameter of SSM.

The result is used only for new launch templates and new login nodes. Running machines keep their AMI. An existing launch
template also keeps its AMI, so machines that are launched from it later get the same AMI (`components.aws.compute`,
`login_node`).
"""

from __future__ import annotations

import pulumi
from pulumi_aws import ssm

from catalogue.aws import MachineImage
from catalogue.aws.instances import architecture
from components.report_findings import reason
from config.aws.model import Aws


def looked_up(wanted: Aws) -> Aws:
    """Return `wanted` with the id of every image.

    Raises:
        pulumi.RunError: a public parameter could not be read; the message begins with the key that can name the image.
    """
    kinds = [architecture(one.type) for _, _, one in wanted.located]
    image = wanted.image or _named("aws.image", wanted.family, kinds[0])
    login = wanted.login.image or _named("aws.login.image", wanted.login.family, architecture(wanted.login.type))
    return wanted.model_copy(update={"image": image, "login": wanted.login.model_copy(update={"image": login})})


def _named(path: str, family: MachineImage, kind: str) -> str:
    name = family.parameter.format(kind)
    try:
        found = ssm.get_parameter(name=name)
    except Exception as error:  # noqa: BLE001 - the SDK raises no narrower class
        raise pulumi.RunError(
            f"{path} is not set, and AWS's public parameter {name} could not be read: {reason(error)}. The look-up needs the "
            f"permission ssm:GetParameter; if you set {path} to the id of an image, this parameter is not read."
        ) from None
    return str(found.insecure_value or found.value)
