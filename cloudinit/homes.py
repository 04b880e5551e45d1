"""Mounts the shared home folders at first boot; the stack file sets whether the login user's home is local or shared."""

from __future__ import annotations

from cloudinit.mounts import Mount, mounted
from cloudinit.steps import Step

_OWN_HOMES = "/var/lib/busbar/home"
#: Folders of the login user's shared home over which each machine mounts a folder from its own disk: SSH keys, and files that
#: busbar writes.
_OWN_PARTS = (".ssh", ".busbar")


def home(login: str, share: Mount) -> Step:
    """Mount the shared home folders; the login user's home stays on this machine.

    That home contains the keys with which the operator logs in. The mount must not hide them, and machines must not overwrite
    each other's keys.
    """
    if share.at != "/home":
        return Step("home", mounted(share))
    local = _bound(f"{_OWN_HOMES}/{login}", f"/home/{login}", "/home")
    return Step(
        "home",
        f"""
if ! grep -q ' /home nfs ' /etc/fstab; then
  mkdir -p {_OWN_HOMES}
  cp -a /home/{login} {_OWN_HOMES}/
  printf '%s\\n' '{share.line}' '{local}' >> /etc/fstab
  systemctl daemon-reload
fi
mountpoint -q /home || again mount /home
mkdir -p /home/{login}
mountpoint -q /home/{login} || mount /home/{login}
""",
    )


def shared_home(login: str, share: Mount) -> Step:
    """Mount the shared home folders, and bind-mount one of their folders as the login user's home.

    So the user `login` has one home on all machines. In this home, each machine still has its own SSH keys and its own files of
    busbar (`_OWN_PARTS`). Files of /etc/skel that the home lacks are copied into the home.
    """
    home, kept = f"/home/{login}", f"{_OWN_HOMES}/{login}"
    lines = [_bound(_shared(login, share.at), home, share.at)]
    lines += [_bound(f"{kept}/{part}", f"{home}/{part}", home) for part in _OWN_PARTS]
    parts = " ".join(_OWN_PARTS)
    return Step(
        "shared-home",
        f"""
owner={login}:$(id -gn {login})
mkdir -p {_OWN_HOMES}
[ -d {kept} ] || cp -a {home} {_OWN_HOMES}/
{mounted(share)}
if ! grep -q ' {home} none ' /etc/fstab; then
  printf '%s\\n' {" ".join(f"'{line}'" for line in lines)} >> /etc/fstab
  systemctl daemon-reload
fi
{_made(login, share.at)}
mkdir -p {home}
mountpoint -q {home} || mount {home}
for path in /etc/skel/.[!.]* /etc/skel/*; do
  own={home}/${{path##*/}}
  # Another machine may copy the same file at the same time. It is enough that the file exists in the end.
  [ ! -e "$path" ] || [ -e "$own" ] || {{ cp -r "$path" "$own" && chown -Rh "$owner" "$own"; }} || [ -e "$own" ]
done
for part in {parts}; do
  if [ -L {home}/$part ]; then
    echo "busbar: {home}/$part is a symbolic link, but each machine needs its own $part: remove the link"
    exit 1
  fi
  mkdir -p {kept}/$part {home}/$part
  chown "$owner" {kept}/$part {home}/$part
  chmod 700 {kept}/$part {home}/$part
  mountpoint -q {home}/$part || mount {home}/$part
done
{_linked(login, share.at)}
""",
    )


def shared_folder(login: str, at: str) -> Step:
    """Create the login user's folder on the file system that is mounted at `at`; ~/shared is a link to this folder.

    The folder has the same path on all machines.
    """
    return Step("shared-folder", f"{_made(login, at)}\n{_linked(login, at)}\n")


def _shared(login: str, at: str) -> str:
    return f"{at}/.shared/{login}"


def _made(login: str, at: str) -> str:
    """Return the shell commands that create the login user's folder in the shared home folders at `at`.

    Several machines may run these commands at the same time, and later machines find the folder. If the file system is not at
    /home, every user may be able to write to it. So the commands stop if `.shared`, the folder above the login user's folder,
    is a symbolic link or does not belong to root: a user could have created it, and a link could point anywhere.
    """
    every, own = f"{at}/.shared", _shared(login, at)
    return f"""
mkdir -p {every}
if [ -L {every} ] || [ "$(stat -c %u {every})" != 0 ]; then
  echo 'busbar: {every} is not a folder that root owns: remove it, or turn root squash off on the file system'
  exit 1
fi
if ! [ -d {own} ] || [ "$(stat -c %U {own})" != {login} ]; then
  install -d -m 700 -o {login} -g "$(id -gn {login})" {own}
fi"""


def _linked(login: str, at: str) -> str:
    link = f"/home/{login}/shared"
    return f"[ -e {link} ] || ln -s {_shared(login, at)} {link} || [ -e {link} ]"


def _bound(source: str, at: str, needs: str) -> str:
    """Return the line of /etc/fstab that bind-mounts the folder `source` at `at`, after the network file system at `needs`.

    Without _netdev, systemd mistakes a bind mount for a local file system. The network would wait for the bind mount, and the
    bind mount for the network file system. systemd breaks such a cycle by not starting one of the units (systemd.mount(5)).
    """
    return f"{source} {at} none bind,_netdev,x-systemd.requires-mounts-for={needs} 0 0"
