"""The name service of one VCN: answers A queries for the VCN's hosts and file systems, and for the vendors' services.

This is a program (standard library only): `name_service.py ADDRESS HOSTS_FOLDER VCN_ID`. HOSTS_FOLDER has the hosts' records;
the records of file systems and services are in folders beside HOSTS_FOLDER. The service reads these files again for each query,
so a host's name can be resolved from boot until the host terminates, as in the vendors' clouds.
"""

from __future__ import annotations

import json
import socket
import struct
import sys
from pathlib import Path

TYPE_A, NO_ERROR, NO_SUCH_NAME, NOT_IMPLEMENTED = 1, 0, 3, 4
HEADER = struct.Struct(">6H")
TIME_TO_LIVE_S = 5


def known(folder: Path, vcn_id: str) -> dict[str, str]:
    """Return the addresses of the VCN's hosts and file systems, and of vendors' services, by full name in lower case."""
    table = {}
    for record in folder.glob("*/spec.json"):
        try:
            spec = json.loads(record.read_text())
        except (OSError, ValueError):  # the record has just been removed
            continue
        if spec.get("vcn_id") == vcn_id:
            table[f"{spec['hostname']}.{spec['search_domain']}".lower()] = spec["address"]
    for record in folder.parent.glob("storage/*/record.json"):
        try:
            system = json.loads(record.read_text())
        except (OSError, ValueError):
            continue
        if system["vcn_id"] == vcn_id:
            table |= {name.lower(): system["address"] for name in system["names"]}
    for record in folder.parent.glob("services/*.json"):
        try:
            service = json.loads(record.read_text())
        except (OSError, ValueError):
            continue
        table |= dict.fromkeys(service["names"], service["address"])
    return table


def answer(query: bytes, table: dict[str, str]) -> bytes:
    """Return the reply to a query; only queries with one question are supported.

    Raises:
        struct.error, IndexError, UnicodeDecodeError: the query is invalid.
    """
    number, _, questions, *_ = HEADER.unpack_from(query)
    labels, at = [], HEADER.size
    while length := query[at]:
        labels.append(query[at + 1 : at + 1 + length].decode("ascii"))
        at += 1 + length
    (kind,) = struct.unpack_from(">H", query, at + 1)
    question, name = query[HEADER.size : at + 5], ".".join(labels).lower()
    code = NO_ERROR if name in table else NO_SUCH_NAME if questions == 1 else NOT_IMPLEMENTED
    found = b""
    if kind == TYPE_A and name in table:
        # 0xC00C is a pointer to the name in the question.
        found = struct.pack(">HHHLH", 0xC00C, TYPE_A, 1, TIME_TO_LIVE_S, 4) + socket.inet_aton(table[name])
    # Flags QR, AA, RD and RA: an authoritative answer.
    return HEADER.pack(number, 0x8580 | code, 1, int(bool(found)), 0, 0) + question + found


def serve(address: str, folder: Path, vcn_id: str) -> None:
    """Answer queries until the process is killed."""
    listening = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    listening.bind((address, 53))
    table: dict[str, str] = {}
    while True:
        query, asker = listening.recvfrom(512)
        try:
            table = known(folder, vcn_id)
            listening.sendto(answer(query, table), asker)
        except (struct.error, IndexError, UnicodeDecodeError, OSError):
            continue


if __name__ == "__main__":
    serve(sys.argv[1], Path(sys.argv[2]), sys.argv[3])
