"""Which machines a person names: entries of a list, or the lines of an inventory file, Ansible's simple INI form included.

It deliberately understands no variables but a host's address, no ranges and no dynamic inventories, and says so.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass

_NAME = re.compile(r"[A-Za-z0-9]([A-Za-z0-9._-]{0,61}[A-Za-z0-9])?")
#: Sections of an INI inventory that name no host.
_OTHER_SECTIONS = (":vars", ":children")


@dataclass(frozen=True)
class Machine:
    """One machine: what it is called, and the address or host name by which it is reached."""

    name: str
    address: str


def entry(text: str) -> Machine:
    """Return the machine of one list entry, `address` or `name=address`; ValueError with a sentence if it is none."""
    name, _, address = text.strip().rpartition("=")
    return _machine(name.strip() or address.strip(), address.strip(), repr(text))


def read(text: str) -> tuple[Machine, ...]:
    """Return the machines of an inventory's text in its order; ValueError with a sentence for a line that is none."""
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
    """Add a machine; an INI inventory may list it in several groups, with its address in only one of them."""
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
        raise ValueError(f"{where} is a range; list each host, for each is named in results")
    for text in (name, address):
        if not _NAME.fullmatch(text):
            raise ValueError(f"{where} is no host; {text!r} must be an IPv4 address or a host name")
    return Machine(name, address)


def refuse_twice(machines: Iterable[Machine]) -> None:
    """Refuse a name or an address that two machines share: ranks would land on one of them; ValueError with a sentence."""
    seen: dict[str, str] = {}
    for machine in machines:
        for text in {machine.name, machine.address}:
            if text in seen:
                raise ValueError(f"hosts has {text} twice; every machine takes part once")
            seen[text] = machine.name
