"""Ask for what a stack of one target needs, and write its stack file: python -m tools.config TARGET STACK.

Answers found on this machine (region and tenancy in the vendor's own configuration) are offered as defaults, and Enter accepts
them. The file is checked as a preview checks it, and written only if nothing is wrong. An existing file is left as it is.
"""

from __future__ import annotations

import configparser
import json
import os
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pulumi
import yaml

from config import read
from config.stack import TARGETS

ROOT = Path(__file__).parent.parent


@dataclass(frozen=True)
class Question:
    """One question: the answer's name, the text of the question, and the default that Enter accepts (empty: no default)."""

    name: str
    asks: str
    offers: str = ""


def questions(target: str, home: Path, environ: Mapping[str, str]) -> list[Question]:
    """Return the questions for a new stack of `target`."""
    networks = Question("from", "networks that may connect by SSH, separated by commas, such as 203.0.113.7/32")
    if target == "oci":
        own = _ini(home / ".oci" / "config", "DEFAULT")
        return [
            Question("region", "region, such as ap-tokyo-1", environ.get("OCI_REGION") or own.get("region", "")),
            Question("compartment", "OCID of the compartment", own.get("tenancy", "")),
            networks,
            Question("shape", "shape of the nodes", "BM.GPU4.8"),
            Question("nodes", "number of nodes", "2"),
        ]
    if target == "aws":
        region = environ.get("AWS_REGION") or _ini(home / ".aws" / "config", "default").get("region", "")
        return [
            Question("region", "region, such as us-east-1", region),
            networks,
            Question("shape", "instance type of the nodes", "p5.48xlarge"),
            Question("nodes", "number of nodes", "2"),
        ]
    if target == "kubernetes":
        return [
            Question(
                "way",
                "the control plane's host, where kubectl works, such as root@10.138.61.49, or - for this machine",
                "-",
            ),
            Question("server", "API server, as kubectl cluster-info shows it, such as https://10.138.61.49:6443"),
            Question("machines", "nodes with GPUs, separated by commas, such as gpu0,gpu1"),
            Question("gpus", "GPUs of each node", "8"),
            Question("rails", "rails as interface:device:range, separated by commas, such as ens192:irdma0:10.100.100.0/24"),
            Question("image", "image with MPI, CUDA and NCCL, such as registry.example/pytorch:23.09-py3"),
        ]
    return [
        Question("machines", "machines as name=address, separated by commas, such as gpu-1=10.20.1.11,gpu-2=10.20.1.12"),
        Question("user", "login user on the machines", "ubuntu"),
        Question("jump", "jump host as user@address, or - for none", "-"),
    ]


def stack_file(target: str, answers: Mapping[str, str]) -> dict[str, Any]:
    """Return the configuration that the answers describe, by key."""
    networks = _listed(answers.get("from", ""))
    if target == "hosts":
        nodes = dict(one.partition("=")[::2] for one in _listed(answers["machines"]))
        jump = {} if answers["jump"] == "-" else {"jump": answers["jump"]}
        return {"busbar:target": target, "busbar:hosts": {"nodes": nodes, "user": answers["user"], **jump}}
    if target == "kubernetes":
        rails = [dict(zip(("interface", "device", "range"), one.split(":"), strict=False)) for one in _listed(answers["rails"])]
        gpus: Any = int(answers["gpus"]) if answers["gpus"].isdigit() else answers["gpus"]
        over_ssh = {} if answers["way"] == "-" else {"controlPlane": answers["way"]}
        group = {**over_ssh, "server": answers["server"], "nodes": _listed(answers["machines"]), "gpus": gpus}
        return {"busbar:target": target, "busbar:kubernetes": group | {"rails": rails, "image": answers["image"]}}
    count: Any = int(answers["nodes"]) if answers["nodes"].isdigit() else answers["nodes"]
    if target == "oci":
        pool = {"name": "gpu", "shape": answers["shape"], "nodes": count}
        group = {"compartment": answers["compartment"], "access": {"sshFrom": networks}, "pools": [pool]}
        return {"oci:region": answers["region"], "busbar:target": target, "busbar:oci": group}
    machine = {"name": "gpu", "type": answers["shape"], "static": count}
    group = {"access": {"sshFrom": networks}, "queues": [{"name": "gpu", "machines": [machine]}]}
    return {"aws:region": answers["region"], "busbar:target": target, "busbar:aws": group}


def wrong(config: Mapping[str, Any]) -> list[str]:
    """Return one sentence for each error that a preview would report."""
    empty = [f"{key} is empty; name a region" for key in ("oci:region", "aws:region") if config.get(key) == ""]
    given = {key.partition(":")[2]: value for key, value in config.items() if key.startswith("busbar:")}
    texts = {key: value if isinstance(value, str) else json.dumps(value) for key, value in given.items()}
    try:
        read.parse(texts, region=config.get("aws:region") or None)
    except pulumi.RunError as refused:
        return empty + str(refused).splitlines()
    return empty


def write(target: str, stack: str, folder: Path, ask: Callable[[Question], str], home: Path) -> tuple[Path | None, list[str]]:
    """Ask, check and write; return the file, or None and the reasons why it was not written."""
    if target not in TARGETS:
        return None, [f"TARGET is {target!r}; it must be one of {', '.join(TARGETS)}: make config TARGET=oci STACK=name"]
    file = folder / f"Pulumi.{stack}.yaml"
    if file.exists():
        return None, [
            f"STACK is {stack}, and {file.name} already exists; choose another name: make config TARGET={target} STACK=name"
        ]
    answers = {one.name: ask(one).strip() or one.offers for one in questions(target, home, os.environ)}
    config = stack_file(target, answers)
    sentences = wrong(config)
    if sentences:
        return None, sentences
    head = "# yaml-language-server: $schema=docs/stack.schema.json\n"
    file.write_text(head + yaml.safe_dump({"config": config}, sort_keys=False))
    return file, []


def _ini(path: Path, section: str) -> dict[str, str]:
    """Return a section of a vendor's configuration; empty if it does not exist or cannot be read."""
    found = configparser.ConfigParser(default_section="-", interpolation=None)
    try:
        found.read(path)
        return dict(found[section])
    except (configparser.Error, KeyError, OSError, UnicodeDecodeError):
        return {}


def _listed(text: str) -> list[str]:
    return [one.strip() for one in text.split(",") if one.strip()]


def main(argv: list[str]) -> int:
    """Write the stack file that `argv` names; return an exit status."""
    if len(argv) != 2:  # noqa: PLR2004 - a target and a stack
        sys.stderr.write(f"{__doc__}\n")
        return 2
    try:
        asked = lambda one: input(f"{one.asks}{f' [{one.offers}]' if one.offers else ''}: ")  # noqa: E731
        file, sentences = write(argv[0], argv[1], ROOT, asked, Path.home())
    except (EOFError, KeyboardInterrupt):
        sys.stderr.write("\nconfig: nothing was written\n")
        return 1
    for sentence in sentences:
        sys.stderr.write(f"config: {sentence}\n")
    if file is not None:
        sys.stdout.write(f"config: {file.name} is written; pulumi preview --stack {argv[1]} shows what an update would do\n")
    return 0 if file else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
