"""Sets up this machine as the controller of a cluster whose nodes Slurm starts; runs as root, at first and after every change.

`identity` runs first, because the launch of a machine needs the controller's public key. `install` runs when everything else
that a launch needs exists, too.
"""

import json
import os
import subprocess
import sys
from typing import Any, Callable, Dict, Optional

from scheduler import accounting_setup, node_setup, plugins, programs, slurm_conf, slurm_facts
from scheduler.elastic import earlier_launches, handover, http_client, join, places, removed_nodes, settings, work
from scheduler.elastic.cloud import Cloud
from scheduler.elastic.slurm import Slurm
from scheduler.elastic.state import State, UnreadableError, only_one
from scheduler.users import controller_setup, home_folder
from scheduler.users.refusal import RefusalError

#: The controller's own key pair: created here, and only the public key leaves this machine.
KEY = "/etc/busbar/id_ed25519"
_PLACES = {
    "conf": slurm_conf.CONF,
    "mark": slurm_conf.MARK,
    "folders": [slurm_conf.STATE, slurm_conf.SPOOL, slurm_conf.LOGS],
}
_UNITS = "/etc/systemd/system"
_TIMEOUT_S = 30
#: URL and headers with which a machine asks for its region (OCI documentation, "Getting Instance Metadata").
_REGION = {"oci": ("http://169.254.169.254/opc/v2/instance/canonicalRegionName", {"Authorization": "Bearer Oracle"})}


def identity(cloud: str, send: http_client.Http = http_client.send) -> Dict[str, Any]:
    """Return the values for the nodes' configuration: `public_key`, `facts` of this machine (`slurm_facts`), and the `region`.

    Exits with a message if this machine cannot be a controller.
    """
    facts = slurm_facts.facts()
    lacks = [*facts["lacks"], *([] if facts.get("controls") else ["slurmctld"])]
    if lacks:
        sys.exit("the login node has no {}, which first boot installs".format(", ".join(lacks)))
    if facts["first_line"] not in (None, slurm_conf.MARK):
        sys.exit(f"{slurm_conf.CONF}/slurm.conf of the login node belongs to another cluster, and is left as it is")
    others = [daemon for daemon, unit in facts["running"].items() if unit != slurm_conf.MARK]
    if others:
        sys.exit("the login node runs {} of another cluster, which is left as it is".format(" and ".join(others)))
    if not os.path.exists(KEY):
        os.makedirs(os.path.dirname(KEY), mode=0o755, exist_ok=True)
        subprocess.run(
            ["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-C", "busbar-controller", "-f", KEY],
            stdin=subprocess.DEVNULL,
            timeout=_TIMEOUT_S,
            check=True,
        )
    region = ""
    if cloud in _REGION:
        url, headers = _REGION[cloud]
        unknown = "the login node's metadata service does not say which region this is"
        try:
            answer = send("GET", url, headers, b"", _TIMEOUT_S)
        except OSError as error:
            sys.exit(f"{unknown}: {error}")
        region = answer.body.decode().strip()
        if answer.status != 200 or not region:  # noqa: PLR2004 - success
            sys.exit(f"{unknown}: the service answers {answer.status} to {url}")
    return {"public_key": public_key(), "facts": facts, "region": region}


def public_key() -> str:
    """Return the controller's public key."""
    with open(KEY + ".pub", encoding="utf-8") as source:
        return source.read().strip()


def install(text: str, own: str, cloud_of: Callable[[Dict[str, Any]], Cloud]) -> None:
    """Write the contents of the JSON `text` (`files` and `units` by name, `settings`, `shared`), and start the daemons.

    Exits with a message, before anything is written, if nodes on which jobs run would be removed and `allowed` is too small.

    Args:
        text: see `scheduler.elastic.settings` for `settings`; `shared` is a folder that the login user will own, as well as the
            folder above it.
            `allowed` has the path of the stack file's key that allows terminations, and the value of this key.
            `jobs` has `home`, the mount point of the home folders, and the `folder` below it for the copy of Slurm's jobs.
            `logins`, `accounting` and `users` are optional: `logins` has id and address of each login node except this machine,
            by name; `accounting` is the result of `scheduler.accounting.document`; `users` is the argument of
            `scheduler.users.controller_setup.set_up`.
        own: path of this zipapp.
        cloud_of: returns the cloud for the `cloud` of the settings.
    """
    given = json.loads(text)
    if "plugstack.conf" in given["files"] and not os.path.exists(plugins.PYXIS):
        sys.exit(f"the login node has no {plugins.PYXIS}, which its first boot builds; without it, srun would start nothing")
    if handover.is_given(settings.FOLDER):
        sys.exit("another controller of this stack has taken over, so nothing was installed here; terminate this login node")
    wanted = settings.read(given["settings"])
    before = settings.load(settings.CONFIGURATION) if os.path.exists(settings.CONFIGURATION) else None
    state = _state()
    _refuse_other_tags(before, wanted, state)
    cloud = cloud_of(given["settings"]["cloud"])
    refused = removed_nodes.refusal(state, wanted, Slurm().states, *given["allowed"])
    if refused:
        sys.exit(refused)
    with open(own, "rb") as source:
        node_setup.put(programs.ARCHIVE, source.read(), 0o755, "root")
    for path, body in programs.wrappers().items():
        node_setup.put(path, body.encode(), 0o755, "root")
    spool = os.path.join(settings.FOLDER, "wanted")
    os.makedirs(spool, mode=0o755, exist_ok=True)
    node_setup.give(spool, "slurm")
    place = _place(given["jobs"], before)
    given["settings"]["jobs"] = place._asdict()
    node_setup.put(settings.CONFIGURATION, json.dumps(given["settings"], sort_keys=True).encode(), 0o600, "root")
    _share(given["shared"], given["settings"]["join"]["user"])
    closed = os.path.join(settings.FOLDER, work.CLOSED)
    if os.path.exists(closed):  # a destroy that did not finish has left this file
        os.unlink(closed)
    if places.NAME in given["files"]:
        # Include the places of running machines: without them the file would change, and Slurm would be restarted.
        given["files"][places.NAME] = places.conf(wanted.sets, state)
    node = dict(_PLACES, key="", files=given["files"])
    if given.get("accounting"):
        node_setup.set_up(dict(node, units={}))  # starts munge, which the database needs; slurmctld needs the database
        accounting_setup.set_up(given["accounting"])
    second = _take_over(place, cloud)
    node_setup.set_up(dict(node, units=given["units"]))
    if given.get("users"):
        controller_setup.set_up(given["users"])
    _set_up_logins(given)
    # In a first installation the timers start last, so that an installation that fails starts no machine.
    _start_timers()
    if second or state.batches:
        # A run of `reconcile` that began with the earlier settings may still launch machines with those settings.
        with only_one(os.path.join(settings.FOLDER, "lock"), programs.RUN_TIMEOUT_S):
            pass
        _tell(earlier_launches.adopt(cloud, wanted, _state))


def _share(folder: str, user: str) -> None:
    """Create `folder` and the folder above it, and give both to `user`; the upper one also has the images that jobs import."""
    for each in (os.path.dirname(folder), folder):
        os.makedirs(each, mode=0o755, exist_ok=True)
        node_setup.give(each, user)


def _refuse_other_tags(before: Optional[settings.Settings], wanted: settings.Settings, state: State) -> None:
    """Refuse to change the tags, which contain the names of cluster and stack, while machines with the former tags exist.

    The controller finds its machines by these tags: with other tags it would never terminate those machines.
    """
    if before and before.cloud.get("tags") != wanted.cloud.get("tags") and state.machines:
        sys.exit(
            f"the name of the cluster or the stack has changed, but {', '.join(sorted(state.machines))} run under the former "
            "name: nothing would terminate them, and they would be billed. Undo the change, or wait until they have ended"
        )


def _set_up_logins(given: Dict[str, Any]) -> None:
    for name, (machine, address) in sorted(given.get("logins", {}).items()):
        why = join.login_node(given["settings"]["join"], machine, address, given["files"])
        if why:
            sys.exit(f"no job can be submitted on {name} at {address}, which the controller could not set up: {why}")


def _state() -> State:
    try:
        return State.load(os.path.join(settings.FOLDER, "state.json"))
    except UnreadableError as error:
        sys.exit(str(error))


def _tell(warning: str) -> None:
    if warning:
        print(warning, file=sys.stderr)


def _place(given: Dict[str, str], before: Optional[settings.Settings]) -> handover.Place:
    """Return where the copy of Slurm's jobs is; exit if a file system that was mounted there earlier is not mounted now."""
    try:
        mounted = home_folder.is_mounted(given["home"]) or bool(before and (before.jobs or {}).get("mounted"))
        home_folder.refuse_unmounted(given["home"], mounted, handover.CONTENT)
    except RefusalError as refusal:
        sys.exit(str(refusal))
    return handover.Place(mounted=mounted, state=slurm_conf.STATE, **given)


def _take_over(place: handover.Place, cloud: Cloud) -> bool:
    """Take over the jobs of this stack's earlier controller and terminate its machines; return whether there was one."""
    second = handover.is_second(place, public_key(), settings.FOLDER)
    try:
        _tell(handover.take(place, public_key(), slurm_facts.version()))
    except (OSError, RefusalError) as error:
        sys.exit(f"the jobs of the earlier controller could not be taken over: {error}")
    if second:
        _tell(earlier_launches.end(cloud))
        handover.ended(settings.FOLDER)
    return second


def _start_timers() -> None:
    wrote = [
        node_setup.put(os.path.join(_UNITS, name), body.encode(), 0o644, "root") for name, body in programs.timers().items()
    ]
    if any(wrote):
        node_setup.run("systemctl", "daemon-reload")
    for name in sorted(programs.timers()):
        if name.endswith(".timer"):
            node_setup.run("systemctl", "enable", "--now", name)
