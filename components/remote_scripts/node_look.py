"""Checks one node: its host key, whether its first boot has finished and its rails work, and its facts."""

import json
import os
import re
import threading
from typing import Any, Callable, Dict, NamedTuple, Optional, Tuple

from components.remote_scripts.ssh_way import Node, Way, call, run_here, words

Note = Callable[[str], None]

#: Shell script that prints three lines: cloud-init's status; first boot's own record, boot.json, which is written before
#: cloud-init finishes; and the rails that are up, with a `!` after each rail that is not authenticated. If first boot has
#: failed, the end of cloud-init's output log follows.
STATE = """
# While result.json is missing, cloud-init still runs, and rails come up last. Asking cloud-init itself takes half a second.
rails=
if [ -e /run/cloud-init/result.json ]; then
  rails='HCAS'
  addresses=$(ip -4 -o address show 2>/dev/null)
  if grep -qF '"errors": []' /run/cloud-init/result.json; then
    printf 'status: done'
  else
    cloud-init status --long 2>/dev/null | tr '\\n' ' '
  fi
fi
echo
cat /var/lib/busbar/boot.json 2>/dev/null || echo '{}'
for hca in $rails; do
  dir=/sys/class/infiniband/$hca
  state=; { read -r state <$dir/ports/1/state; } 2>/dev/null
  case $state in *ACTIVE*) ;; *) continue ;; esac
  for net in $dir/device/net/*; do
    if [ ! -e "$net" ]; then
      # An EFA device has no interface, and therefore no address.
      case $(readlink $dir/device/driver) in */efa) echo "$hca" ;; esac
      continue
    fi
    case $addresses in *" ${net##*/} "*) ;; *) continue ;; esac
    # A switch with 802.1X drops packets from a port that is not authenticated, although the port has link and address.
    # oci-hpc: roles/healthchecks, check_gpu_setup.py, check_wpa_auth.
    if [ -z "SUPPLICANT" ] || sudo -n wpa_cli status -i "${net##*/}" 2>/dev/null | grep -q 'PAE state=AUTHENTICATED'; then
      echo "$hca"
    else
      echo "$hca!"
    fi
  done
done | tr '\\n' ' '; echo
if grep -q '"failed"' /var/lib/busbar/boot.json 2>/dev/null; then
  sudo -n tail -n 10 /var/log/cloud-init-output.log 2>/dev/null
fi
"""


class Failed(Exception):  # noqa: N818 - no defect of this program
    """Says why a node will not become ready, however long the program waits."""


class Seen(NamedTuple):
    """The report of a ready node: its public host key, and its facts, which are {} if the caller wants no facts."""

    host_key: str
    facts: Dict[str, Any]


def look(node: Node, way: Way, note: Note) -> Optional[Seen]:
    """Return the node's report; None while the node is not ready."""
    key = node.get("host_key") or host_key(node, way, note)
    if not key or (way.first_boot and not _is_booted(node, way, note)):
        return None
    facts = {}  # type: Dict[str, Any]
    if way.facts:
        its = "\n\nmain(**json.loads({!r}))\n".format(json.dumps({"address": node["address"], "mpi": way.mpi}))
        out = _answer(call(node, way, "python3 -IS -", way.facts + its), "python3 -IS -", node, note)
        if out is None:
            return None
        facts = dict(json.loads(out.splitlines()[-1]))
        _refuse_other(facts, way)
        silent = sorted(set(way.hcas) - {hca[0] for hca in facts["hca"] if hca[3]})
        if silent:
            note("{} of {} rails are not active: {}".format(len(silent), len(way.hcas), ", ".join(silent)))
            return None
    return Seen(key, facts)


def _refuse_other(facts: Dict[str, Any], way: Way) -> None:
    """Refuse a machine whose GPUs are not the GPUs of the shape `way.row`, or a machine that lacks a required Open MPI."""
    if way.row:
        name, number, model = way.row
        # Newer drivers append the form factor to the model's name.
        if facts["gpus"] != number or not (facts["gpu"] == model or facts["gpu"].startswith(model + " SXM")):
            raise Failed(
                "it has {} x {}, but shape {} has {} x {}; name the hosts' shape, or set shape: detect".format(
                    facts["gpus"], facts["gpu"] or "no GPU", name, number, model
                )
            )
    if way.mpi and not facts["mpi"]:
        raise Failed(
            "it has no Open MPI: no folder like {} has bin/mpirun; set hosts.software.mpi".format(" or ".join(way.mpi))
        )


def host_key(node: Node, way: Way, note: Note) -> str:
    """Learn the host key over the cloud's private network, where no machine can take another machine's address.

    The key is queried at each check of the node, because first boot may replace the image's host key.

    Raises:
        Failed: the jump host refuses the operator's login, although the jump host's own first boot has finished.
    """
    status, out, err = run_here([*way.near, "ssh-keyscan", "-T", "5", "-t", "ed25519", node["address"]], "", 15)
    lines = [line for line in out.splitlines() if line and not line.startswith("#")]
    if "Permission denied" in err:
        raise Failed(f"{words(err)} Does your SSH agent have a key that the machine accepts (ssh-add -l)?")
    if status != 0 or not lines:
        note(f"the jump host does not answer ({words(err)})" if status == 255 else "no answer on TCP port 22")  # noqa: PLR2004 - ssh's own
        return ""
    key = " ".join(lines[0].split()[1:3])
    _remember(way.known, node, key)
    return key


_KNOWN_LOCK = threading.Lock()


def _remember(known: str, node: Node, key: str) -> None:
    """Replace the key of one node in the known_hosts file, atomically, because ssh may read the file at any moment."""
    line = "{} {}\n".format(node["address"], key)
    with _KNOWN_LOCK:
        with open(known) as source:
            lines = source.readlines()
        if line in lines:
            return
        with open(known + ".new", "w") as target:
            target.writelines([*(one for one in lines if one.split()[:1] != [node["address"]]), line])
        os.replace(known + ".new", known)


def _answer(found: Tuple[int, str, str], command: str, node: Node, note: Note) -> Optional[str]:
    """Return what `command` printed on the node; None while SSH does not accept logins.

    Raises:
        Failed: waiting does not help, because a node with a pinned host key shows another key or refuses the login, or because
            the command failed.
    """
    status, out, err = found
    if status == 0:
        return out
    changed = re.search(r"[Hh]ost key for (\S+) has changed", err)
    if changed and "host_key" in node:
        raise Failed(
            f"the host key of {changed.group(1)} is not the key in knownHosts: the machine was rebuilt, or another machine "
            "answers at its address; find out which of the two happened, then correct the file"
        )
    if "host_key" in node and "Permission denied" in err:
        raise Failed(f"{words(err)} Does your SSH agent have a key that the machine accepts (ssh-add -l)?")
    if status not in (124, 255):  # 124: the command timed out; 255: ssh itself failed
        raise Failed(f"{command!r} failed on the node: {words(err)}")
    note(f"SSH does not accept logins yet ({words(err)})")
    return None


def _is_booted(node: Node, way: Way, note: Note) -> bool:
    asked = STATE.replace("HCAS", " ".join(way.hcas)).replace("SUPPLICANT", "asked" if way.authenticated else "")
    out = _answer(call(node, way._replace(shares=False), "sh -s", asked), "sh -s", node, note)
    if out is None:
        return False
    cloud, mark_text, rails, *log = [*out.splitlines(), "", "", ""]
    try:
        mark = json.loads(mark_text or "{}")
    except ValueError:
        return False  # boot.json came back incomplete; the next check reads it again
    if mark.get("status") == "failed":
        end = " | ".join(text.strip() for text in log if text.strip())
        raise Failed("its first boot failed in step {}; /var/log/cloud-init-output.log ends: {}".format(mark.get("step"), end))
    if "status: error" in cloud:
        raise Failed(f"cloud-init ended in error: {cloud.strip()}")
    if "status: done" not in cloud or mark.get("status") != "done":
        note("first boot is running")
        return False
    if mark.get("warned"):
        failed = mark["warned"].strip()
        note(f"first boot is done, but these steps failed: {failed}; see the node's /var/log/cloud-init-output.log")
    up = set(rails.split())
    unknown = [hca for hca in way.hcas if hca + "!" in up]
    silent = sorted(set(way.hcas) - up - set(unknown))
    if silent:
        note("{} of {} rails are not active, or have no address: {}".format(len(silent), len(way.hcas), ", ".join(silent)))
        return False
    if unknown:
        note(
            "{} of {} rails are not authenticated (802.1X; wpa_cli status), so they carry no traffic: {}".format(
                len(unknown), len(way.hcas), ", ".join(sorted(unknown))
            )
        )
        return False
    return True
