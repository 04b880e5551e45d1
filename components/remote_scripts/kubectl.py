"""Calls kubectl, with a timeout, and finds a stack's pods."""

import contextlib
import json
import os
import shutil
import subprocess
import sys
from typing import Any, Dict, List, NamedTuple, Optional, Tuple, Union

#: Name of the container in the pods, and the container's home folder.
CONTAINER, HOME = "ranks", "/busbar"
_TIMEOUT_S = 30
#: How long to wait for the output of a kubectl that was killed.
_ENDS_S = 5


class Answer(NamedTuple):
    """Exit status of a kubectl call (124: timed out), and the call's standard output and error."""

    status: int
    out: str
    err: str

    @property
    def why(self) -> str:
        """The last line of standard error (if that is empty, of standard output), without the prefix that kubectl adds."""
        lines = [line for line in (self.err or self.out).strip().splitlines() if not line.startswith("command terminated")]
        return (lines or [f"exit status {self.status}"])[-1].replace("Error from server ", "")[:500]


class Kubectl:
    """kubectl on this machine, in one namespace.

    The argument `its` has `kubeconfig` and `context` (None for kubectl's defaults) and `host`, this machine's name in messages.
    """

    def __init__(self, its: Dict[str, Any], namespace: str) -> None:
        os.environ["PATH"] = os.environ.get("PATH", "/usr/bin:/bin") + ":/usr/local/bin:/opt/bin:/snap/bin"
        self.program = shutil.which("kubectl") or sys.exit("{} has no kubectl; install it there".format(its["host"]))
        given = ["--kubeconfig", os.path.expanduser(its["kubeconfig"])] if its["kubeconfig"] else []
        given += ["--context", its["context"]] if its["context"] else []
        self.host = its["host"]
        self.words = [self.program, *given, "--namespace", namespace]

    def __call__(self, *words: str, stdin: Union[str, bytes] = b"", timeout_s: float = _TIMEOUT_S) -> Answer:
        """Run kubectl; a failure or a timeout is in the answer and raises no exception."""
        given = stdin.encode() if isinstance(stdin, str) else stdin
        argv = [*self.words, f"--request-timeout={int(timeout_s)}s", *words]
        process = subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        try:
            out, err = process.communicate(given, timeout=timeout_s + 5)
        except subprocess.TimeoutExpired:
            process.kill()
            # kubectl may have started a credential plugin that hangs and keeps the pipes open, so nothing more is read.
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.communicate(timeout=_ENDS_S)
            return Answer(124, "", f"kubectl {words[0]} did not answer within {timeout_s:.0f} s")
        return Answer(process.returncode, out.decode("utf-8", "replace"), err.decode("utf-8", "replace"))

    def get(self, *words: str) -> Any:
        """Return the object or the list that `kubectl get` finds, as data; None if nothing is found.

        On an error, exit with a message. A list without objects may be None, or have no items.
        """
        found = self("get", *words, "--output", "json", "--ignore-not-found")
        if "(Forbidden)" in found.err:
            sys.exit(f"the kubeconfig's user may not list {words[0]} (RBAC): {found.why}")
        if found.status != 0:
            sys.exit("kubectl get {}: {}".format(" ".join(words), found.why))
        return json.loads(found.out) if found.out.strip() else None

    def known(self, kind: str, *words: str) -> Any:
        """Return an object as data; None if it does not exist, or if the cluster does not know its kind (yet).

        On any other error, exit with a message.
        """
        found = self("get", kind, *words, "--output", "json", "--ignore-not-found")
        if found.status != 0 and "the server doesn't have a resource type" in found.err:
            return None
        if "(Forbidden)" in found.err:
            sys.exit(f"the kubeconfig's user may not read {kind} (RBAC): {found.why}")
        if found.status != 0:
            sys.exit("kubectl get {}: {}".format(" ".join((kind, *words)), found.why))
        return json.loads(found.out) if found.out.strip() else None

    def inside(self, pod: str, command: str, stdin: Union[str, bytes] = b"", timeout_s: float = _TIMEOUT_S) -> Answer:
        """Run a shell command in a pod."""
        return self(
            "exec", "--stdin", pod, "--container", CONTAINER, "--", "sh", "-c", command, stdin=stdin, timeout_s=timeout_s
        )


def is_applied_by_another(kubectl: Kubectl, noted: Tuple[str, str], way: List[str]) -> bool:
    """Tell whether kubectl on another machine was the last to apply a stack's objects.

    `noted` has the kind and the name of the object whose annotation records the machine. `way` has the annotation's key, and
    the value that this machine writes.
    """
    found = (kubectl.get(*noted) or {}).get("metadata", {}).get("annotations", {}).get(way[0], way[1])
    if found == way[1]:
        return False
    print(
        "{} {} is kept with its objects, because the stack is now applied from {}".format(*noted, found),
        file=sys.stderr,
    )
    return True


def brought(name: str) -> str:
    """Return the path of a file that an update has copied to this machine.

    A file that came over SSH is in the home folder. Any other file is in the user's cache.
    """
    over_ssh = os.path.join(os.path.expanduser("~"), name)
    cache = os.environ.get("XDG_CACHE_HOME") or os.path.join(os.path.expanduser("~"), ".cache")
    return over_ssh if os.path.exists(over_ssh) else os.path.join(cache, "busbar", name)


def pods_of(kubectl: Kubectl, selector: str) -> List[Dict[str, Any]]:
    """Return the pods that match `selector` and are not being deleted, the newest first."""
    found = (kubectl.get("pods", "--selector", selector) or {}).get("items", [])
    kept = [pod for pod in found if "deletionTimestamp" not in pod["metadata"]]
    return sorted(kept, key=lambda pod: str(pod["metadata"]["creationTimestamp"]), reverse=True)


def on_node(pods: List[Dict[str, Any]], node: str) -> Optional[Dict[str, Any]]:
    """Return the running pod of a node; None if no pod runs there."""
    there = [pod for pod in pods if pod["spec"].get("nodeName") == node and pod["status"].get("phase") == "Running"]
    return there[0] if there else None


def disrupted(pod: Optional[Dict[str, Any]]) -> str:
    """Return why a pod is being deleted, such as an eviction; empty if the cluster reports no reason."""
    for one in (pod or {}).get("status", {}).get("conditions", []):
        # Reasons since 1.26: EvictionByEvictionAPI, DeletionByTaintManager, PreemptionByScheduler, TerminationByKubelet ...
        if pod is not None and one["type"] == "DisruptionTarget" and one["status"] == "True":
            return "{} ended ({}: {})".format(pod["metadata"]["name"], one.get("reason", ""), one.get("message", ""))
    return ""


def ended(pods: List[Dict[str, Any]], node: str) -> str:
    """Return how the newest failed pod of a node ended, with the cluster's reason if any; empty if no pod failed."""
    for pod in pods:
        status = pod["status"]
        if pod["spec"].get("nodeName") == node and status.get("phase") == "Failed":
            whole = ": ".join(str(status[key]) for key in ("reason", "message") if status.get(key))
            return "{} ended ({})".format(pod["metadata"]["name"], whole or "failed")
    return ""
