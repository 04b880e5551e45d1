"""The steps of a first boot on AWS: EFA, file systems and the login node's host key.

A step is safe to run twice. Downloads, mounts and builds have time limits.

NCCL and the driver are in the image.
Sources:
aws-parallelcluster-cookbook (mount options), awsome-distributed-training (EFA cheat sheet, mounts of /home),
FSx for Lustre user guide (clients), aws-ofi-nccl.
"""

from __future__ import annotations

from catalogue.aws import MachineImage, Stack
from catalogue.aws.versions import HANGING, HANGS, LUSTRE_EFA
from cloudinit import downloads, homes, mounts
from cloudinit.steps import Step

#: p5en shows its EFA devices late (awsome-distributed-training: health checks).
_DEVICE_TRIES, _DEVICE_PAUSE_S = 3, 5
_LEAST_EFA = "1.29"
_INSTALLERS = "https://efa-installer.amazonaws.com"
_LUSTRE_KEYS = "https://fsx-lustre-client-repo-public-keys.s3.amazonaws.com/fsx-ubuntu-public-key.asc"
_LUSTRE_REPOSITORY = "https://fsx-lustre-client-repo.s3.amazonaws.com/ubuntu"
#: Packages that a build of the Lustre source needs besides the kernel's headers. The source package does not declare that the
#: build needs flex, bison and Python.
_LUSTRE_BUILD = (
    *("lustre-source", "module-assistant", "build-essential", "bzip2", "debhelper", "libtool", "libyaml-dev"),
    *("libnl-genl-3-dev", "libselinux-dev", "libkeyutils-dev", "libmount-dev", "pkg-config", "autoconf", "automake"),
    *("quilt", "flex", "bison", "python3-dev", "libssl-dev", "libreadline-dev"),
)
_TUNING = "/usr/local/sbin/busbar-lustre-tuning"
#: AWS recommends settings for Lustre clients with more than 64 vCPUs, and other settings for clients with more than 64 GiB of
#: memory.
_MANY_PROCESSORS, _MUCH_KIB = 64, 64 << 20
#: Options of aws-parallelcluster-cookbook (lustre/partial/_mount_unmount.rb), without automount, because a failed mount must
#: fail the boot.
_LUSTRE_OPTIONS = "defaults,_netdev,flock,user_xattr,noatime"
#: Options of awsome-distributed-ai (aws-pcs), with NFS version 4.2 as in aws-parallelcluster.
_HOME_OPTIONS = "nfsvers=4.2,noatime,nconnect=16,rsize=1048576,wsize=1048576,_netdev"
_KEY_TRIES = 5  # with a pause of six seconds between two tries


def shared_memory() -> Step:
    """Let ranks of one machine read each other's memory; EFA's shared-memory path needs this, and Debian forbids it."""
    return Step(
        "shared-memory",
        """
if [ -e /proc/sys/kernel/yama/ptrace_scope ]; then
  echo 'kernel.yama.ptrace_scope = 0' > /etc/sysctl.d/90-busbar.conf
  sysctl -q -p /etc/sysctl.d/90-busbar.conf
fi
""",
    )


def efa_software(stack: Stack, *, in_use: bool) -> Step:
    """Install EFA's software if the image has none, or if the image's version is too old for NCCL.

    If ranks use the node's NCCL plugin (`in_use`), a version of the plugin that is known to hang fails the boot, because a
    measurement would never finish.
    """
    plugin = f"""plugin=$(tr ' ' '\\n' < /opt/amazon/efa_installed_packages |
  sed -n 's/^libnccl-ofi[_-]\\([0-9.]*[0-9]\\).*/\\1/p' | head -n 1)
case $plugin in
  {"|".join(HANGING)})
    echo "busbar: plugin $plugin of aws-ofi-nccl, which this image has, {HANGS}"
    exit 1
    ;;
esac
"""
    archive = f"aws-efa-installer-{stack.efa}.tar.gz"
    fetch = downloads.checked(f"{_INSTALLERS}/{archive}", f"{downloads.FOLDER}/{archive}", (stack.efa_sha256,))
    return Step(
        "efa-software",
        f"""
have=$(sed -n 's/^# EFA installer version: //p' /opt/amazon/efa_installed_packages 2>/dev/null || true)
if [ "$(printf '%s\\n' {_LEAST_EFA} "${{have:-0}}" | sort -V | head -n 1)" != {_LEAST_EFA} ]; then
  {fetch}
  tar -xzf {downloads.FOLDER}/{archive} -C {downloads.FOLDER}
  (cd {downloads.FOLDER}/aws-efa-installer && timeout 900 ./efa_installer.sh -y)
fi
{plugin if in_use else ""}""",
    )


def efa_devices(count: int, libraries: tuple[str, ...]) -> Step:
    """Let the loader find the NCCL plugin in any of the installer's folders, and check that every EFA device exists."""
    return Step(
        "efa-devices",
        f"""
for folder in {" ".join(libraries)}; do
  if [ -d "$folder" ]; then echo "$folder"; fi
done > /etc/ld.so.conf.d/000-busbar-efa.conf
ldconfig
tries=0
while :; do
  found=0
  for device in /sys/class/infiniband/*/device/driver; do
    case $(readlink "$device") in */efa) found=$((found + 1)) ;; esac
  done
  [ "$found" -lt {count} ] || break
  tries=$((tries + 1))
  if [ "$tries" -gt {_DEVICE_TRIES} ]; then
    echo "busbar: only $found of {count} EFA devices exist"
    exit 1
  fi
  sleep {_DEVICE_PAUSE_S}
done
""",
    )


def scratch(image: MachineImage) -> Step:
    """Create /scratch on the machine's own disks.

    If the image has already made a volume of these disks, /scratch is a link to that volume. Otherwise the step makes a striped
    volume. Ubuntu's Deep Learning images make a volume at boot, but AL2023's do not (release notes, May to October 2026).
    """
    return Step(
        "scratch",
        """
if ! mountpoint -q /opt/dlami/nvme && [ ! -e /scratch ]; then
  set --
  for model in /sys/class/nvme/nvme*/model; do
    grep -qs '^Amazon EC2 NVMe Instance Storage' "$model" || continue
    disk=${model%/model}
    set -- "$@" "/dev/${disk##*/}n1"
  done
  if [ $# -gt 0 ]; then
    command -v vgcreate > /dev/null || INSTALL
    vgcreate scratch "$@"
    lvcreate --yes --stripes $# --extents 100%FREE --name all scratch
    mkfs.xfs -L scratch /dev/scratch/all
    mkdir -p /scratch
    echo 'LABEL=scratch /scratch xfs defaults,noatime,nofail 0 0' >> /etc/fstab
    systemctl daemon-reload
    again mount /scratch
    chmod 1777 /scratch
  fi
fi
if mountpoint -q /opt/dlami/nvme; then
  chmod 1777 /opt/dlami/nvme
  ln -sfn /opt/dlami/nvme /scratch
fi
""".replace("INSTALL", mounts.install(image.packages, "lvm2")),
        precaution=True,
    )


def home(login: str, server: str, path: str, more: str, *, shared: bool) -> Step:
    """Mount the root volume of the OpenZFS file system for home folders; if `shared`, the login user's home is there, too."""
    share = mounts.Mount("nfs", f"{server}:/fsx/", path, _HOME_OPTIONS + more)
    return homes.shared_home(login, share) if shared else homes.home(login, share)


def keep_kernel(image: MachineImage) -> Step:
    """Pin the kernel: the Lustre client is built for it, and a newer kernel cannot mount Lustre (aws-parallelcluster 5746)."""
    if image.packages != "apt":
        return Step("keep-kernel", "true  # repositories of this image are locked to its release")
    return Step(
        "keep-kernel",
        """
systemctl disable --now unattended-upgrades || true
# dpkg-query also lists packages that are not installed (linux-headers-3.0); only installed packages can be held.
dpkg-query -W -f '${db:Status-Abbrev} ${Package}\\n' 'linux-image-*' 'linux-headers-*' 'linux-aws*' > /run/busbar.known || true
sed -n 's/^ii *//p' /run/busbar.known > /run/busbar.kernel
xargs -r apt-mark hold < /run/busbar.kernel
""",
        precaution=True,
    )


def lustre_client(image: MachineImage, key: str) -> Step:
    """Install the Lustre client for the running kernel: the image's client, the vendor's package, or a module built here.

    On Ubuntu, each vendor package has a module for exactly one kernel, and for a new kernel there is no package for months
    (aws-parallelcluster 5746); the source package builds a module in minutes. `key` is the fingerprint of the key that signs
    the vendor's repository. The vendor does not publish the fingerprint; if `key` is empty, the key that the vendor sends is
    not checked.
    """
    if image.packages == "dnf":
        return Step(
            "lustre-client", f"command -v mount.lustre > /dev/null || {mounts.install(image.packages, 'lustre-client')}"
        )
    ring = "/usr/share/keyrings/fsx-ubuntu-public-key.gpg"
    return Step(
        "lustre-client",
        f"""
kernel=$(uname -r)
module() {{ find "/lib/modules/$kernel/" -name 'lustre.ko*' 2>/dev/null | grep -q .; }}
if ! command -v mount.lustre > /dev/null || ! module; then
  {downloads.signing_key(_LUSTRE_KEYS, "/run/fsx-lustre.asc", key)}
  gpg --batch --yes --dearmor -o {ring} /run/fsx-lustre.asc
  echo 'deb [signed-by={ring}] {_LUSTRE_REPOSITORY} {image.release} main' > /etc/apt/sources.list.d/fsx-lustre.list
  lists
  {mounts.install(image.packages, "lustre-client-utils")}
  if ! {mounts.install(image.packages, '"lustre-client-modules-$kernel"')}; then
    echo "busbar: the vendor has no Lustre module for kernel $kernel; building one from the vendor's source"
    {mounts.install(image.packages, '"linux-headers-$kernel" ' + " ".join(_LUSTRE_BUILD))}
    tar -xjf /usr/src/lustre-*.tar.bz2 -C /usr/src
    (
      cd /usr/src/modules/lustre
      tree=/lib/modules/$kernel/build
      export KVERS="$kernel" KSRC="$tree" KSRC_TREE="$tree" LINUX="$tree" LINUX_OBJ="$tree" DEB_BUILD_PROFILES=flock
      timeout 600 debian/rules kdist_config && timeout 1200 debian/rules binary-modules
    ) > /var/log/busbar-lustre-build.log 2>&1 || true
    built=$(find /usr/src -maxdepth 1 -name "lustre-client-modules-$kernel*.deb" | head -n 1)
    if [ -z "$built" ]; then
      tail -n 15 /var/log/busbar-lustre-build.log
      echo "busbar: no Lustre client for kernel $kernel: this image and the vendor have none, and the build failed;"
      echo "busbar: use an AL2023 image (its kernel has a client) or an image with another kernel, or set storage.lustre: null"
      exit 1
    fi
    dpkg --install "$built"
  fi
fi
""",
    )


def lustre_over_front_end() -> Step:
    """Bind LNet to the front-end interface before LNet's module is loaded; otherwise LNet picks any of the interfaces."""
    return Step(
        "lustre-network",
        """
front=$(ip -4 -o route show default | sed -n '1s/.* dev \\([^ ]*\\).*/\\1/p')
[ -n "$front" ]
mkdir -p /etc/modprobe.d
{
  echo "options lnet networks=\\"tcp($front)\\""
  # More threads and messages for clients with many processors; over EFA, AWS's archive sets both.
  if [ "$(nproc)" -gt MANY ]; then
    echo 'options ptlrpc ptlrpcd_per_cpt_max=32'
    echo 'options ksocklnd credits=2560'
  fi
} > /etc/modprobe.d/busbar-lnet.conf
""".replace("MANY", str(_MANY_PROCESSORS)),
    )


def lustre_over_efa(sha256: str) -> Step:
    """Assign EFA devices to Lustre before the first mount, with Lustre's modules unloaded.

    If the modules were loaded, Lustre would get only two or three devices. On a machine with eight devices or more, AWS's
    program should assign at least eight, but does not report if it assigns fewer. The archive of that program has no version
    and no published checksum: `sha256` is the checksum of the archive that the user has reviewed.
    """
    folder = downloads.FOLDER
    archive = f"{folder}/lustre-efa.zip"
    setup = downloads.checked(LUSTRE_EFA, archive, (sha256,))
    return Step(
        "lustre-over-efa",
        f"""
if ! mountpoint -q -- "$(awk '$3 == "lustre" {{print $2; exit}}' /etc/fstab)"; then
  for module in lustre lnet libcfs; do modprobe -r "$module" || true; done
  if grep -qE '^(lnet|libcfs) ' /proc/modules; then
    echo 'busbar: Lustre is loaded and in use, so it would get only some EFA devices; nothing may load it before first boot'
    exit 1
  fi
  {setup}
  python3 -m zipfile -e {archive} {folder}
  devices=0
  for device in /sys/class/infiniband/*/device/driver; do
    case $(readlink "$device") in */efa) devices=$((devices + 1)) ;; esac
  done
  least=1
  set --
  if [ "$devices" -ge 8 ]; then least=8; set -- --optimized-for-gds; fi
  (cd {folder}/configure-efa-fsx-lustre-client && timeout 600 bash ./setup.sh "$@") || true  # the check below decides
  have=$(lnetctl net show --net efa | grep -c 'nid:.*@efa') || true
  if [ "$have" -lt "$least" ]; then
    echo "busbar: Lustre has $have of $devices EFA devices, but should have at least $least"
    exit 1
  fi
fi
""",
    )


def lustre(server: str, name: str, path: str, more: str) -> Step:
    """Mount the Lustre file system, writable by every user, with the additional mount options `more`."""
    return mounts.for_everybody("lustre", mounts.Mount("lustre", f"{server}@tcp:/{name}", path, _LUSTRE_OPTIONS + more))


def lustre_tuning(path: str) -> Step:
    """Give the mounted Lustre client the settings that AWS recommends for the machine's size, now and after each boot.

    A reboot resets the settings. Source: FSx for Lustre user guide, "Performance tips", for all clients and for clients with
    more than 64 GiB or 64 vCPUs.
    """
    return Step(
        "lustre-tuning",
        f"""
cat > {_TUNING} << 'END'
#!/bin/sh
set -eu
processors=$(nproc)
memory_kib=$(awk '$1 == "MemTotal:" {{ print $2 }}' /proc/meminfo)
lctl set_param 'llite.*.statahead_max=512' 'llite.*.statahead_agl=1'
if [ "$memory_kib" -gt {_MUCH_KIB} ]; then
  lctl set_param 'ldlm.namespaces.*.lru_max_age=600000' "ldlm.namespaces.*.lru_size=$((100 * processors))"
fi
if [ "$processors" -gt {_MANY_PROCESSORS} ]; then
  lctl set_param 'osc.*OST*.max_rpcs_in_flight=32' 'mdc.*.max_rpcs_in_flight=64' 'mdc.*.max_mod_rpcs_in_flight=50'
fi
END
chmod 755 {_TUNING}
cat > /etc/systemd/system/busbar-lustre-tuning.service << END
[Unit]
Description=AWS's settings for the Lustre client at {path}
RequiresMountsFor={path}

[Service]
Type=oneshot
RemainAfterExit=yes
ExecStart={_TUNING}

[Install]
WantedBy=multi-user.target
END
systemctl daemon-reload
if command -v lctl > /dev/null; then
  systemctl enable --now busbar-lustre-tuning.service
else
  echo 'busbar: this Lustre client has no lctl and keeps its own settings'
fi
""",
        precaution=True,
    )


def publish_host_key(region: str, parameter: str) -> Step:
    """Write this machine's id and public host key to an SSM parameter, so that the key is pinned before the first connection.

    Only this machine's role may write the parameter. The id distinguishes the key from the key of an earlier machine. The role
    exists before the machine, so a write that is refused for half a minute will always be refused. Then the step fails, because
    no update can connect to this machine without the parameter.
    """
    return Step(
        "publish-host-key",
        f"""
value="$(cat /var/lib/cloud/data/instance-id) $(cut -d ' ' -f 1,2 /etc/ssh/ssh_host_ed25519_key.pub)"
most={_KEY_TRIES} again aws ssm put-parameter --region {region} --name {parameter} --type String --overwrite --value "$value"
""",
    )


def reload_sshd() -> Step:
    """Make sshd read its changed configuration."""
    return Step("reload-sshd", "systemctl reload sshd || systemctl reload ssh")
