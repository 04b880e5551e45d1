"""Multus and whereabouts, which give pods networks beside the default one: their releases, manifests and images.

Multus comes as the thin plugin. Its documents recommend the thick one "in most environments" and the thin one where resources
are scarce; here these decide: a thick daemon deletes Multus's configuration whenever it is restarted, and pods that start
meanwhile get no rail (multus-cni issues 1468, 1527); it runs the default network's plugin within its own 50 MiB, so that no
pod of the node starts once that is used up (1144, 1346); and it mounts the root of the node. Calico is tested with the thin one
only (ovs-cni pull request 281).
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Manifest:
    """A file of a release.

    Attributes:
        url: where the vendor serves it.
        sha256: made from the release's Go module, which go.sum holds and which has the same file.
    """

    url: str
    sha256: str


@dataclass(frozen=True)
class Release:
    """One of the two programs.

    Attributes:
        title: what sentences call it.
        version: without the letter before it.
        manifests: what its documents apply, as they are.
        daemon_set: the object in them that puts it on the nodes, of namespace `NAMESPACE`.
        image: what its containers run. The manifests name a tag that moves (multus-cni issue 1170, whereabouts issue 481).
        arguments: what is added to the first container's.
    """

    title: str
    version: str
    manifests: tuple[Manifest, ...]
    daemon_set: str
    image: str
    arguments: tuple[str, ...] = ()


#: Where both manifests put their pods.
NAMESPACE = "kube-system"
_GITHUB = "https://raw.githubusercontent.com/k8snetworkplumbingwg"
RELEASES = {
    "multus": Release(
        "Multus",
        "4.1.4",
        (
            Manifest(
                f"{_GITHUB}/multus-cni/v4.1.4/deployments/multus-daemonset.yml",
                "e79898f936e32e50426d6b23e75f85a71d134918e8f82b612b531146fb2a5a45",
            ),
        ),
        "kube-multus-ds",
        "ghcr.io/k8snetworkplumbingwg/multus-cni:v4.1.4",
        # Without it a node that Multus has left starts no pod any more (multus-cni issues 592, 1094, 1429), and nobody renews
        # the token that it reads the cluster with (cmd/thin_entrypoint/main.go: it looks for a new one with this option only).
        ("--cleanup-config-on-exit=true",),
    ),
    "whereabouts": Release(
        "whereabouts",
        "0.8.0",
        (
            Manifest(
                f"{_GITHUB}/whereabouts/v0.8.0/doc/crds/daemonset-install.yaml",
                "4292b79c85115823b697d99171eb701783eaecf13c0eb8d6a6657f1c5d86b2eb",
            ),
            Manifest(
                f"{_GITHUB}/whereabouts/v0.8.0/doc/crds/whereabouts.cni.cncf.io_ippools.yaml",
                "8957e53f260e5ee0ad6560743d02c609ff21e15f6c3b23851971522b3bf6027a",
            ),
            Manifest(
                f"{_GITHUB}/whereabouts/v0.8.0/doc/crds/whereabouts.cni.cncf.io_overlappingrangeipreservations.yaml",
                "59ff31b1cbe8ff7732160f3f533a71884c4bb03b18d2aa48c97b0a2aadcc4cb0",
            ),
        ),
        "whereabouts",
        "ghcr.io/k8snetworkplumbingwg/whereabouts:v0.8.0",
    ),
}
