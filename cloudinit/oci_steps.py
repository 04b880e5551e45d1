"""The steps of a first boot on OCI that mount file systems and let HCAs reach GPU memory; each step is safe to run twice.

The vendor has no package of the Lustre client, so the image must contain the client; otherwise the boot fails in step
`lustre-client`.
Sources: oci-hpc (roles nfs-client, lustre_client; initial-user home folders), the vendor's page "Mounting file systems".
"""

from __future__ import annotations

from catalogue import ImageFamily
from cloudinit import homes, mounts
from cloudinit.mounts import Mount
from cloudinit.steps import Step

#: The vendor's file systems accept at most 16 connections to one server, and one connection is too slow (oci-hpc: fss.tf).
NFS_OPTIONS = "defaults,noatime,nconnect=16,_netdev"
LUSTRE_OPTIONS = "defaults,_netdev"


def file_systems(image: ImageFamily, wanted: tuple[Mount, ...]) -> list[Step]:
    """Return the steps that install clients and mount the file systems of `wanted`."""
    if not wanted:
        return []
    work = [mounts.tools()]
    for share in wanted:
        if share.kind == "lustre":
            work += [lustre_client(), mounts.for_everybody("lustre", share)]
        else:
            work.append(mounts.nfs_client(image.packages))
            work += [mounts.for_everybody("home", share)] if share.at != "/home" else []
            if share.login_home:
                work.append(homes.shared_home(image.login, share))
            elif share.at == "/home":
                work.append(homes.home(image.login, share))
    return work


def gpudirect() -> Step:
    """Load the kernel module through which HCAs reach GPU memory, and load it at every later boot.

    NCCL does not need this module if kernel and driver have DMA-BUF, so a kernel without the module does not fail the boot. The
    transport check reports what NCCL used. Source: oci-hpc: roles/nvidia_peermem. Of the images of oci-hpc, only the
    Ubuntu images load the module at boot.
    """
    return Step(
        "gpudirect",
        """
mkdir -p /etc/modules-load.d
echo nvidia_peermem > /etc/modules-load.d/nvidia-peermem.conf
modprobe nvidia_peermem || echo 'busbar: nvidia_peermem cannot be loaded; without DMA-BUF, NCCL copies through host memory'
""",
    )


def lustre_client() -> Step:
    """Check that the image has the Lustre client, and bind LNet to the front-end interface.

    Source: oci-hpc: roles/lustre_client/tasks/el.yml.
    """
    return Step(
        "lustre-client",
        """
if ! command -v mount.lustre > /dev/null; then
  echo 'busbar: the image has no Lustre client (mount.lustre) and the vendor no package of it: build a client into the image'
  exit 1
fi
# LNet must use only the front end of the node's many interfaces, and must add no routing rules for the rails.
front=$(ip -4 -o route show default | sed -n '1s/.* dev \\([^ ]*\\).*/\\1/p')
mkdir -p /etc/modprobe.d
{
  echo "options lnet networks=tcp($front)"
  echo 'options lnet lnet_peer_discovery_disabled=1'
  echo 'options ksocklnd skip_mr_route_setup=1'
} > /etc/modprobe.d/busbar-lnet.conf
""",
    )
