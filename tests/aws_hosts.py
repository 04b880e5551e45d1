"""Describes hosts for a rehearsed world as the rehearsed EC2 does when it launches instances of AWS's types."""

from __future__ import annotations

import hashlib
from dataclasses import replace

from catalogue.aws import MACHINE_IMAGES, STACK
from catalogue.aws.instances import INSTANCES
from catalogue.aws.versions import LUSTRE_EFA
from cloudinit.aws import ComputeBoot, LoginBoot, Mounts, render
from rehearsal.aws import efa_software, host_images, metadata_service
from rehearsal.aws.types import LOCAL_DISK
from rehearsal.host import hosts
from rehearsal.image import internet, signing_keys

P5 = INSTANCES["p5.48xlarge"]
LUSTRE, HOME = "fs-0123456789abcdef0", "fs-0fedcba9876543210"
DOMAIN = "fsx.ap-northeast-1.amazonaws.com"
#: sha256 of the archive that the rehearsed Internet serves in place of AWS's archive `LUSTRE_EFA`.
SETUP_SHA256 = hashlib.sha256(internet.served(LUSTRE_EFA) or b"").hexdigest()
MOUNTS = Mounts(
    lustre=(f"{LUSTRE}.{DOMAIN}", "abcdefgh"),
    lustre_at="/fsx",
    lustre_key=signing_keys.FSX_FINGERPRINT,
    lustre_efa=SETUP_SHA256,
    home=f"{HOME}.{DOMAIN}",
    home_at="/home",
)
PARAMETER = "/busbar/training/head-host-key"


def spec(stage, name, number, family, *, rails=32, **more):
    """Return the description of a node with `rails` rails; if `rails` is 0, return the description of the login node."""
    image, metadata = MACHINE_IMAGES[family], {"latest/meta-data/instance-id": f"i-0{name}"}
    keys = (stage.public_key,)
    if rails:
        boot = ComputeBoot(image=image, timezone="Asia/Tokyo", keys=keys, mounts=MOUNTS, efa=rails, stack=STACK)
    else:
        boot = LoginBoot(
            image=image, timezone="Asia/Tokyo", keys=keys, mounts=MOUNTS, region="ap-northeast-1", parameter=PARAMETER
        )
    made = hosts.HostSpec(
        id=name,
        index=-1,
        hostname=f"ip-10-0-1-{number}",
        image=host_images.image(f"{family}-aws"),
        shape=P5.name if rails else "m5.8xlarge",
        user_data=render(boot).encode(),
        ssh_authorized_keys=(),
        vcn_id="vcn0",
        subnet_cidr="10.0.1.0/24",
        address=f"10.0.1.{number}",
        gateway="10.0.1.1",
        search_domain="ap-northeast-1.compute.internal",
        front_name="ens32",
        fabric_id="fab0" if rails else None,
        rails=tuple(hosts.Rail(f"rdmap{at}", hca, 100_000_000_000, "efa") for at, hca in enumerate(P5.hca)) if rails else (),
        gpus=(P5.gpu,) * 8 if rails else (),
        nvme=(3_800_000_000_000,) * 8 if rails else (),
        nvme_model=LOCAL_DISK,
        instance_id=f"i-0{name}",
        metadata=metadata,
        metadata_program=metadata_service.__file__,
        firmware=efa_software.firmware(P5.name if rails else "m5.8xlarge", f"i-0{name}"),
    )
    return replace(made, **more)
