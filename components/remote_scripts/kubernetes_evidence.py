"""Copies the runner's files out of a pod, to the machine that runs kubectl, and later into the next pod.

A pod's home folder is deleted with the pod. So the files of a measurement or a search are copied to
`~/.busbar/kubernetes/CLUSTER` while the measurement or search runs and when it ends: if the pod is evicted, the transcript is
not lost.
"""

import base64
import json
import os
import re
import shlex
import sys
import threading
from typing import Any, Dict, List

from components.remote_scripts.kubectl import HOME, Kubectl

#: Kinds of requests whose results are evidence. Results of other kinds are not copied: a new pod can produce such results
#: again.
_KINDS = ("measure", "search")
_EVERY_S, _COPY_S = 15.0, 60
#: How many of the newest finished runs are copied to a new pod.
_GIVEN_BACK = 16
#: Paths below the runner's folder that are copied: files of a run, and `looks`, the earlier looks that the next run reads.
_PATH = re.compile(r"(runs/[0-9A-Za-z]+|looks)/[A-Za-z0-9_.-]+")
#: Program for the pod: prints the new and changed files of some folders, as {path: [size, time, base64]}.
_TAKE = """
import base64, json, os, sys
asked, found = json.load(sys.stdin), {}
os.chdir(os.path.expanduser("~/.busbar")) if os.path.isdir(os.path.expanduser("~/.busbar")) else sys.exit(print("{}"))
for folder in asked["folders"]:
    for name in sorted(os.listdir(folder)) if os.path.isdir(folder) else []:
        path = folder + "/" + name
        seen = os.lstat(path)
        if os.path.islink(path) or not os.path.isfile(path) or asked["known"].get(path) == [seen.st_size, seen.st_mtime]:
            continue
        with open(path, "rb") as source:
            found[path] = [seen.st_size, seen.st_mtime, base64.b64encode(source.read()).decode()]
print(json.dumps(found))
"""
#: Program for the pod: writes those files of its standard input that do not exist yet.
_GIVE = """
import base64, json, os, sys
os.umask(0o077)
for path, data in json.load(sys.stdin).items():
    there = os.path.expanduser("~/.busbar/") + path
    if not os.path.exists(there):
        os.makedirs(os.path.dirname(there), exist_ok=True)
        with open(there + ".part", "wb") as target:
            target.write(base64.b64decode(data))
        os.rename(there + ".part", there)
"""


class Evidence:
    """Context manager that copies the evidence of one request out of the pod while the request runs."""

    def __init__(self, kubectl: Kubectl, cluster: str, pod: str, request: Dict[str, Any]) -> None:
        self._kubectl, self._pod = kubectl, pod
        self.folder = os.path.join(os.path.expanduser("~"), ".busbar", "kubernetes", cluster)
        run = str(request.get("run_id", ""))
        self._run = run if request.get("kind") in _KINDS and run.isalnum() else ""
        self._known = {}  # type: Dict[str, List[float]]
        self._ended = threading.Event()
        self._copier = threading.Thread(target=self._copy_on, daemon=True)

    @property
    def kept(self) -> str:
        """The folder with the copies of this request's files; empty if there are no copies."""
        folder = os.path.join(self.folder, "runs", self._run)
        return folder if self._run and os.path.isdir(folder) else ""

    def __enter__(self) -> "Evidence":  # noqa: PYI034 - typing.Self is of Python 3.11
        """Start copying."""
        if self._run:
            self._copier.start()
        return self

    def __exit__(self, *_: object) -> None:
        """Copy the last files; if the pod is gone, the earlier copies remain."""
        if self._run:
            self._ended.set()
            self._copier.join()
            why = self.take()
            if why:
                print(f"evidence was not copied out of {self._pod}: {why}", file=sys.stderr)

    def _copy_on(self) -> None:
        while not self._ended.wait(_EVERY_S):
            self.take()

    def take(self) -> str:
        """Copy new and changed files out of the pod; return why the copying failed, empty after a success."""
        asked = {"folders": ["runs/" + self._run, "looks"], "known": self._known}
        answer = self._kubectl.inside(self._pod, _python(_TAKE), json.dumps(asked), _COPY_S)
        if answer.status != 0:
            return answer.why
        try:
            for path, (size, changed, data) in json.loads(answer.out or "{}").items():
                if _PATH.fullmatch(path):
                    _write(os.path.join(self.folder, path), base64.b64decode(data))
                    self._known[path] = [size, changed]
        except (AttributeError, OSError, TypeError, ValueError) as error:  # also if the answer is JSON of another form
            return str(error)
        return ""

    def give_back(self) -> None:
        """Copy the saved files of earlier runs to a pod that lacks these files; a failure is only reported."""
        listed = self._kubectl.inside(self._pod, "ls ~/.busbar/runs 2>/dev/null || true")
        missing = [run for run in _newest(os.path.join(self.folder, "runs")) if run not in listed.out.split()]
        files = {}
        for folder in [*("runs/" + run for run in missing), *(["looks"] if missing else [])]:
            for name in _names(os.path.join(self.folder, folder)):
                try:
                    with open(os.path.join(self.folder, folder, name), "rb") as source:
                        files[f"{folder}/{name}"] = base64.b64encode(source.read()).decode()
                except OSError as error:
                    print(f"earlier evidence was not copied: {error}", file=sys.stderr)
        if files:
            answer = self._kubectl.inside(self._pod, _python(_GIVE), json.dumps(files), _COPY_S)
            if answer.status != 0:
                print(f"earlier evidence was not copied into {self._pod}: {answer.why}", file=sys.stderr)


def _python(program: str) -> str:
    return f"HOME={HOME} python3 -IS -c {shlex.quote(program)}"


def _names(folder: str) -> List[str]:
    return sorted(name for name in os.listdir(folder) if name != "worker.lock") if os.path.isdir(folder) else []


def _newest(folder: str) -> List[str]:
    """Return the newest finished runs; interrupted runs are left out, because a new request starts them from the beginning."""
    ended = [run for run in _names(folder) if os.path.exists(os.path.join(folder, run, "line.json"))]
    return sorted(ended, key=lambda run: os.path.getmtime(os.path.join(folder, run, "line.json")))[-_GIVEN_BACK:]


def _write(path: str, data: bytes) -> None:
    os.makedirs(os.path.dirname(path), mode=0o700, exist_ok=True)
    with open(path + ".part", "wb") as target:
        target.write(data)
    os.rename(path + ".part", path)
