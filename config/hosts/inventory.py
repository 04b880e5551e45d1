"""Reads machines from an inventory file, which has one machine per line or is in Ansible's INI form.

A line cannot be a range of machines. Of Ansible's variables, only ansible_host and ansible_port are read.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

_NAME = re.compile(r"[A-Za-z0-9]([A-Za-z0-9._-]{0,251}[A-Za-z0-9])?")
#: Endings of names of sections in an INI inventory; a section whose name has such an ending lists no hosts.
_OTHER_SECTIONS = (":vars", ":children")


@dataclass(frozen=True)
class Machine:
    """One machine: its name, and the address or host name by which it is reached."""

    name: str
    address: str


def is_name(text: str) -> bool:
    """Tell whether `text` can be a host name or an IPv4 address."""
    return _NAME.fullmatch(text) is not None


def read(text: str) -> tuple[Machine, ...]:
    """Return the machines of an inventory's text, in the text's order.

    Raises:
        ValueError: a line has a mistake; the message quotes the line.
    """
    found: list[Machine] = []
    counts = True
    for number, line in enumerate(text.splitlines(), 1):
        words = re.sub(r"(^|\s)[#;].*", "", line).split()
        if not words:
            continue
        if words[0].startswith("["):
            counts = not words[0].rstrip("]").endswith(_OTHER_SECTIONS)
        elif counts:
            _add(found, _line(words, f"line {number}, {line.strip()!r},"))
    return tuple(found)


def _add(found: list[Machine], machine: Machine) -> None:
    """Add a machine; an INI inventory may list it in several groups, with its address in only one of these groups."""
    bare = Machine(machine.name, machine.name)
    known = next((one for one in found if one.name == machine.name), None)
    if known == bare:
        found[found.index(known)] = machine
    elif known is None or machine not in {known, bare}:
        found.append(machine)


def _line(words: list[str], where: str) -> Machine:
    variables = dict(word.split("=", 1) for word in words[1:] if "=" in word)
    plain = [word for word in words[1:] if "=" not in word]
    if len(plain) > 1 or (plain and variables):
        raise ValueError(f"{where} is no host; write 'name address', or 'name ansible_host=address'")
    if variables.get("ansible_port", "22") != "22":
        raise ValueError(f"{where} names port {variables['ansible_port']}; sshd must listen on 22")
    address = variables.get("ansible_host", plain[0] if plain else words[0])
    return _machine(words[0], address, where)


def _machine(name: str, address: str, where: str) -> Machine:
    if "[" in name:
        raise ValueError(f"{where} is a range; list every host, because results name every host")
    for text in (name, address):
        if not is_name(text):
            raise ValueError(f"{where} is no host; {text!r} must be an IPv4 address or a host name")
    return Machine(name, address)
