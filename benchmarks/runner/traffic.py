"""What moved between two inventories: bytes by node and device, events on RDMA ports, and what NCCL said of its transport.

It deliberately judges nothing: `benchmarks.judge.transport` holds these numbers against what the algorithm must have moved.
"""

from typing import Any, Dict, List, Sequence

from benchmarks.launch.protocol import Node

#: Nodes whose traffic is kept one by one; above it only the extremes are.
_NODES_IN_DETAIL = 16
_EVENTS_KEPT = 32


def between(nodes: Sequence[Node], before: Sequence[Dict[str, Any]], after: Sequence[Dict[str, Any]]) -> Dict[str, Any]:
    """Return bytes sent by node and device, NVLink's bytes, port events, and NCCL's own words with how often they fell."""
    sent = {node.name: _sent(old, new) for node, old, new in zip(nodes, before, after)}
    nvlink = {
        node.name: new["nvlink_tx_bytes"] - old["nvlink_tx_bytes"]
        for node, old, new in zip(nodes, before, after)
        if old["nvlink_tx_bytes"] is not None and new["nvlink_tx_bytes"] is not None
    }
    hcas = sorted({name for its in after for name in its["hca"]})
    return {
        "tx_bytes": _kept(sent),
        "nvlink_tx_bytes": {"least": min(nvlink.values()), "nodes": len(nvlink)} if nvlink else None,
        "hcas": hcas,
        "netdevs": {hca: after[0]["hca"][hca]["netdev"] for hca in hcas if hca in after[0]["hca"]},
        "events": _events(nodes, before, after),
        "said": _said([its["nccl"] for its in after if "nccl" in its]),
    }


def _sent(old: Dict[str, Any], new: Dict[str, Any]) -> Dict[str, int]:
    return {
        name: new[kind][name]["tx_bytes"] - old[kind][name]["tx_bytes"]
        for kind in ("interfaces", "hca")
        for name in sorted(new[kind])
        if name in old[kind] and old[kind][name]["tx_bytes"] is not None and new[kind][name]["tx_bytes"] is not None
    }


def _kept(sent: Dict[str, Dict[str, int]]) -> Dict[str, Dict[str, int]]:
    """Keep every node's numbers, or of many nodes those of the one that sent least over each device, and most."""
    if len(sent) <= _NODES_IN_DETAIL:
        return sent
    devices = sorted({name for counted in sent.values() for name in counted})
    columns = {name: [counted.get(name, 0) for counted in sent.values()] for name in devices}
    return {"least": {n: min(v) for n, v in columns.items()}, "most": {n: max(v) for n, v in columns.items()}}


def _events(nodes: Sequence[Node], before: Sequence[Dict[str, Any]], after: Sequence[Dict[str, Any]]) -> List[Dict[str, Any]]:
    """Return the port counters of trouble that grew, largest first."""
    grown = []
    for node, old, new in zip(nodes, before, after):
        for hca in sorted(new["hca"]):
            then = old["hca"].get(hca, {}).get("events", {})
            for counter, value in sorted(new["hca"][hca]["events"].items()):
                if value is not None and then.get(counter) is not None and value > then[counter]:
                    grown.append({"node": node.name, "hca": hca, "counter": counter, "count": value - then[counter]})
    return sorted(grown, key=lambda event: -event["count"])[:_EVENTS_KEPT]


def _said(all_said: List[Dict[str, Dict[str, int]]]) -> Dict[str, Dict[str, int]]:
    """Add up what NCCL said on all nodes; addresses are cut off, for they differ on each."""
    total = {"networks": {}, "devices": {}, "channels": {}}  # type: Dict[str, Dict[str, int]]
    for said in all_said:
        for key, counts in said.items():
            for sentence, count in counts.items():
                plain = sentence if key != "devices" else _without_addresses(sentence)
                total[key][plain] = total[key].get(plain, 0) + count
    return total


def _without_addresses(sentence: str) -> str:
    words = [word.split(":")[0] if "<" in word else word for word in sentence.split(" ")]
    return " ".join(words)[:400]
