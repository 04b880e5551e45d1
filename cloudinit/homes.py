"""Mounts home folders at first boot, and says which of them the login user has on all machines."""

from __future__ import annotations

from cloudinit.mounts import Mount, mounted
from cloudinit.steps import Step

_OWN_HOMES = "/var/lib/busbar/home"
#: Of a shared home of the login user, what stays on each machine: keys, and what the program writes for this machine.
_OWN_PARTS = (".ssh", ".busbar")


def home(login: str, share: Mount) -> Step:
    """Mount the shared home folders; the login user's own folder stays on this machine.

    That folder has the keys that let the operator in. The share must not hide them, nor machines overwrite each other's.
    """
    if share.at != "/home":
        return Step("home", mounted(share))
    own = _bound(f"{_OWN_HOMES}/{login}", f"/home/{login}", "/home")
    return Step(
        "home",
        f"""
if ! grep -q ' /home nfs ' /etc/fstab; then
  mkdir -p {_OWN_HOMES}
  cp -a /home/{login} {_OWN_HOMES}/
  printf '%s\\n' '{share.line}' '{own}' >> /etc/fstab
  systemctl daemon-reload
fi
mountpoint -q /home || again mount /home
mkdir -p /home/{login}
mountpoint -q /home/{login} || mount /home/{login}
""",
    )


def shared_home(login: str, share: Mount) -> Step:
    """Mount the shared home folders, and the login user's home from there: one folder for all machines that have `login`.

    Keys and the program's own files stay on each machine, as with `home`. A new home gets what is in /etc/skel.
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
  # Another machine may copy it at the same time: what counts is that it is there.
  [ ! -e "$path" ] || [ -e "$own" ] || {{ cp -r "$path" "$own" && chown -Rh "$owner" "$own"; }} || [ -e "$own" ]
done
for part in {parts}; do
  if [ -L {home}/$part ]; then
    echo "busbar: {home}/$part is a link; each machine has its own $part, so remove the link"
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
    """Give the login user a folder on the shared home folders at `at`, by the same path on all machines, and ~/shared."""
    return Step("shared-folder", f"{_made(login, at)}\n{_linked(login, at)}\n")


def _shared(login: str, at: str) -> str:
    return f"{at}/.shared/{login}"


def _made(login: str, at: str) -> str:
    """Return the shell that makes the login user's folder on the shared home folders at `at`.

    Machines make it at the same time, and later ones find it. Anybody may write to a file system that is not at /home, so a
    folder that is not root's own is not walked into: it could be a link to anywhere.
    """
    every, own = f"{at}/.shared", _shared(login, at)
    return f"""
mkdir -p {every}
if [ -L {every} ] || [ "$(stat -c %u {every})" != 0 ]; then
  echo 'busbar: {every} is not a folder of root: remove it, or let root be root on the file system (no root squash)'
  exit 1
fi
if ! [ -d {own} ] || [ "$(stat -c %U {own})" != {login} ]; then
  install -d -m 700 -o {login} -g "$(id -gn {login})" {own}
fi"""


def _linked(login: str, at: str) -> str:
    link = f"/home/{login}/shared"
    return f"[ -e {link} ] || ln -s {_shared(login, at)} {link} || [ -e {link} ]"


def _bound(source: str, at: str, needs: str) -> str:
    """Return the line of /etc/fstab that shows the folder `source` at `at`, once the network file system `needs` is mounted.

    Without _netdev systemd takes a bind mount for one of local file systems, which a network manager waits for: a circle, out
    of which a later boot drops any one part (systemd.mount(5)).
    """
    return f"{source} {at} none bind,_netdev,x-systemd.requires-mounts-for={needs} 0 0"
