"""Releases, manifests and images of Multus and whereabouts, which give pods networks in addition to the default network.

The thin Multus plugin is used. Multus's documents recommend the thick plugin "in most environments" and the thin plugin where
resources are scarce. The thick plugin has a daemon, and three facts decide against this daemon. First, whenever the daemon
restarts, it deletes Multus's configuration, and pods that start during that time get no rail (multus-cni issues 1468, 1527).
Second, the daemon runs the default network's plugin within the daemon's own 50 MiB, so that no pod of the node starts once that
memory is used up (1144, 1346). Third, the daemon mounts the node's whole file system. Calico is tested only with the thin
plugin (ovs-cni pull request 281).
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Manifest:
    """A file of a release.

    Attributes:
        url: where the vendor serves it.
        sha256: computed from the release's Go module, which go.sum pins and which contains the same file.
    """

    url: str
    sha256: str


@dataclass(frozen=True)
class Release:
    """The release of one of the two programs.

    Attributes:
        title: the program's name in sentences.
        version: the release's version, without the leading `v`.
        manifests: the manifests that the program's documents apply, unchanged.
        daemon_set: the DaemonSet in the manifests that runs the program on the nodes, in namespace `NAMESPACE`.
        image: the image of the program's containers; it is set because the manifests name a moving tag (multus-cni issue 1170,
            whereabouts issue 481).
        arguments: arguments that are added to the first container.
    """

    title: str
    version: str
    manifests: tuple[Manifest, ...]
    daemon_set: str
    image: str
    arguments: tuple[str, ...] = ()


#: The namespace of Multus's pods and of whereabouts' pods, as their manifests set it.
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
        # Without this option, no pod starts on a node from which Multus was removed (multus-cni issues 592, 1094, 1429), and
        # Multus does not renew its token for the Kubernetes API (cmd/thin_entrypoint/main.go: Multus looks for a new token
        # only with this option).
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
