"""Computes what happened between two inventories: bytes by node and device, RDMA port events, and NCCL's log of its transport.

`benchmarks.judge.transport` compares these numbers with the bytes that the collective's algorithm must have moved.
"""

from typing import Any, Dict, List, Sequence

from benchmarks.launch.lines import NvlinkBytes, PortEvents, Transport, Warned
from benchmarks.launch.protocol import Node

#: If there are more nodes than this, only the byte counts of the worst nodes are kept.
_NODES_IN_DETAIL = 16
_NODES_KEPT = 8
#: How many nodes without GPUDirect RDMA, and how many ports without error counters, are named.
_NAMED = 8
#: How many different sentences of each kind are kept from NCCL's log.
_SENTENCES_KEPT = 32
#: How many ports are kept for each counter name, and how many events are kept in total. Whatever the total, the worst port of
#: every counter name is kept. These ports fit into the total, because an mlx5 port has only about 30 counters.
_PORTS_KEPT = 4
_EVENTS_KEPT = 64
#: How many warnings are kept per node and in total, and how many characters of each.
_WARNINGS_OF_A_NODE, _WARNINGS_KEPT, _SENTENCE = 4, 32, 300


def between(
    nodes: Sequence[Node], before: Sequence[Dict[str, Any]], after: Sequence[Dict[str, Any]], rails: Sequence[str]
) -> Transport:
    """Return bytes sent by node and device, NVLink's bytes, port events, and sentences of NCCL's log with their counts.

    `rails` has the RDMA devices whose error counters must have been read. Without `rails`, these are all devices of the nodes.
    """
    sent = {node.name: _sent(old, new) for node, old, new in zip(nodes, before, after)}
    nvlink = {
        node.name: new["nvlink_tx_bytes"] - old["nvlink_tx_bytes"]
        for node, old, new in zip(nodes, before, after)
        if old["nvlink_tx_bytes"] is not None and new["nvlink_tx_bytes"] is not None
    }
    hcas = sorted({name for its in after for name in its["hca"]})
    uncounted = [
        f"{hca} of {node.name}"
        for node, old, new in zip(nodes, before, after)
        for hca in rails or sorted(new["hca"])
        if not _has_events(old, new, hca)
    ]
    unmapped = [node.name for node, its in zip(nodes, after) if its.get("nccl", {}).get("gpudirect", {}).get("NET")]
    return Transport(
        tx_bytes=sent if len(sent) <= _NODES_IN_DETAIL else worst(sent, list(rails) or hcas, _NODES_KEPT),
        hcas=hcas,
        netdevs={hca: after[0]["hca"][hca]["netdev"] for hca in hcas if hca in after[0]["hca"]},
        events=_events(nodes, before, after),
        said=_said([its["nccl"] for its in after if "nccl" in its]),
        nvlink_tx_bytes=NvlinkBytes(min(nvlink.values()), len(nvlink)) if nvlink else None,
        counted_nodes=sum(bool(set(rails or counted) & set(counted)) for counted in sent.values()),
        through_host_memory=_some(unmapped),
        uncounted_ports=_some(uncounted),
    )


def _sent(old: Dict[str, Any], new: Dict[str, Any]) -> Dict[str, int]:
    return {
        name: new[kind][name]["tx_bytes"] - old[kind][name]["tx_bytes"]
        for kind in ("interfaces", "hca")
        for name in sorted(new[kind])
        if name in old[kind] and old[kind][name]["tx_bytes"] is not None and new[kind][name]["tx_bytes"] is not None
    }


def worst(sent: Dict[str, Dict[str, int]], rails: Sequence[str], count: int) -> Dict[str, Dict[str, int]]:
    """Return the bytes that the worst nodes sent, by node: if these nodes sent enough bytes, all nodes did.

    At most `count` nodes are returned. One half of them are the nodes whose rails together sent the fewest bytes. The other
    half are the nodes with the most uneven traffic across their rails.
    """

    def counted(name: str) -> List[int]:
        return [sent[name].get(rail, 0) for rail in rails]

    def evenness(name: str) -> float:
        return min(counted(name), default=0) / max(max(counted(name), default=0), 1)

    half = count // 2
    names = sorted(sent, key=lambda name: sum(counted(name) or sent[name].values()))[:half]
    names += [name for name in sorted(sent, key=evenness) if name not in names][:half]
    return {name: sent[name] for name in names}


def _events(nodes: Sequence[Node], before: Sequence[Dict[str, Any]], after: Sequence[Dict[str, Any]]) -> List[PortEvents]:
    """Return the port error counters that grew, largest growth first; for each counter name, only the worst ports."""
    grown = []
    for node, old, new in zip(nodes, before, after):
        for hca in sorted(new["hca"]):
            then = old["hca"].get(hca, {}).get("events", {})
            for counter, value in sorted(new["hca"][hca]["events"].items()):
                if value is not None and then.get(counter) is not None and value > then[counter]:
                    grown.append(PortEvents(node.name, hca, counter, value - then[counter]))
    grown.sort(key=lambda event: -event.count)
    # Counters with many ports, or with large numbers, must not crowd out the single link that went down.
    names = len({event.counter for event in grown})
    most = max(1, min(_PORTS_KEPT, _EVENTS_KEPT // max(names, 1)))
    kept = {}  # type: Dict[str, int]
    found = []  # type: List[PortEvents]
    for event in grown:
        if kept.setdefault(event.counter, 0) < most:
            kept[event.counter] += 1
            found.append(event)
    return found


def _has_events(old: Dict[str, Any], new: Dict[str, Any], hca: str) -> bool:
    """Tell whether an error counter of a device was read in both inventories."""
    then, now = (its["hca"].get(hca, {}).get("events", {}) for its in (old, new))
    return any(value is not None and then.get(counter) is not None for counter, value in now.items())


def _some(names: List[str]) -> List[str]:
    """Return all names, or only the first names and an entry that says how many more there are."""
    return names[:_NAMED] + ([f"and {len(names) - _NAMED} more"] if len(names) > _NAMED else [])


def _said(all_said: List[Dict[str, Dict[str, int]]]) -> Dict[str, Dict[str, int]]:
    """Add up how often each sentence is in the nodes' NCCL logs.

    Addresses of devices differ between nodes, so addresses are removed first.
    """
    total = {}  # type: Dict[str, Dict[str, int]]
    for said in all_said:
        for key, counts in said.items():
            if key == "warnings":
                continue  # warnings are kept per node
            sums = total.setdefault(key, {})
            for sentence, count in counts.items():
                plain = sentence if key != "devices" else _without_addresses(sentence)
                sums[plain] = sums.get(plain, 0) + count
    most = {key: sorted(counts, key=lambda one: -counts[one])[:_SENTENCES_KEPT] for key, counts in total.items()}
    return {key: {sentence: total[key][sentence] for sentence in sentences} for key, sentences in most.items()}


def warnings(nodes: Sequence[Node], after: Sequence[Dict[str, Any]]) -> List[Warned]:
    """Return the most frequent warnings that NCCL logged on each node."""
    found = []  # type: List[Warned]
    for node, its in zip(nodes, after):
        counts = its.get("nccl", {}).get("warnings", {})
        worst_said = sorted(counts, key=lambda one: (-counts[one], one))[:_WARNINGS_OF_A_NODE]
        found += [Warned(node.name, one[:_SENTENCE], counts[one]) for one in worst_said]
    return found[:_WARNINGS_KEPT]


def _without_addresses(sentence: str) -> str:
    words = [word.split(":")[0] if "<" in word else word for word in sentence.split(" ")]
    return " ".join(words)[:400]
