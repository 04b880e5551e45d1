"""Files below /etc that all images have: os-release, sshd, sudo, shell profile and cloud-init."""

from __future__ import annotations

from typing import Literal

Family = Literal["ol", "ubuntu", "amzn"]

SUDOERS = """Defaults secure_path="/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
root ALL=(ALL:ALL) ALL
@includedir /etc/sudoers.d
"""

PROFILE = """export PATH=/usr/local/bin:/usr/bin:/usr/local/sbin:/usr/sbin
for one in /etc/profile.d/*.sh; do [ -r "$one" ] && . "$one"; done
unset one
"""

_TITLES = {"ol": "Oracle Linux Server", "ubuntu": "Ubuntu", "amzn": "Amazon Linux"}
#: cloud-init's names of the distributions.
_DISTROS = {"ol": "rhel", "ubuntu": "ubuntu", "amzn": "amazon"}


def os_release(family: Family, release: str, pretty: str) -> str:
    """Return the text of /etc/os-release."""
    title = _TITLES[family]
    return f'NAME="{title}"\nVERSION="{release}"\nID="{family}"\nVERSION_ID="{release}"\nPRETTY_NAME="{pretty}"\n'


def sshd_config(*, includes: bool) -> str:
    """Return the text of sshd_config; with `includes`, sshd also reads /etc/ssh/sshd_config.d."""
    first = "Include /etc/ssh/sshd_config.d/*.conf\n" if includes else ""
    return first + (
        "Port 22\nHostKey /etc/ssh/ssh_host_ed25519_key\nHostKey /etc/ssh/ssh_host_ecdsa_key\n"
        "PermitRootLogin prohibit-password\nPasswordAuthentication no\nKbdInteractiveAuthentication no\n"
        "UsePAM yes\nX11Forwarding no\nPrintMotd no\nAcceptEnv LANG LC_*\n"
        "Subsystem sftp /usr/lib/openssh/sftp-server\nPidFile /run/sshd.pid\n"
    )


def cloud_config(family: Family, user: str) -> str:
    """Return the text of cloud.cfg, without the vendor's modules that no host needs, such as growpart and snap."""
    # On Oracle and Amazon Linux, the modules set_hostname and update_hostname ask systemd to set the host name. They are left
    # out there, because a rehearsed host has no systemd. The host does not need them: its name is already set.
    naming = "set_hostname, update_hostname, " if family == "ubuntu" else ""
    package_sources = "apt-configure" if family == "ubuntu" else "yum-add-repo"
    return f"""# The image's own settings; user data overrides them.
users: [default]
disable_root: true
preserve_hostname: false
ssh_genkeytypes: [ed25519, ecdsa]
ssh_deletekeys: true
locale: false
manage_etc_hosts: false
network: {{config: disabled}}
apt: {{preserve_sources_list: true}}
datasource_list: [NoCloud]
datasource: {{NoCloud: {{fs_label: null}}}}
output: {{all: '| tee -a /var/log/cloud-init-output.log'}}
cloud_init_modules: [bootcmd, write-files, disk_setup, mounts, {naming}update_etc_hosts,
  ca-certs, users-groups, ssh]
cloud_config_modules: [ssh-import-id, set-passwords, {package_sources}, ntp, timezone, runcmd]
cloud_final_modules: [package-update-upgrade-install, write-files-deferred, scripts-vendor, scripts-per-once,
  scripts-per-boot, scripts-per-instance, scripts-user, ssh-authkey-fingerprints, keys-to-console, phone-home,
  final-message, power-state-change]
system_info:
  distro: {_DISTROS[family]}
  default_user:
    name: {user}
    lock_passwd: true
    gecos: Cloud User
    groups: [adm, systemd-journal]
    sudo: ["ALL=(ALL) NOPASSWD:ALL"]
    shell: /bin/bash
  paths: {{cloud_dir: /var/lib/cloud/, templates_dir: /etc/cloud/templates/}}
  ssh_svcname: {"ssh" if family == "ubuntu" else "sshd"}
"""
