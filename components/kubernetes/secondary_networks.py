"""Installs Multus and whereabouts: this machine fetches and checks the vendors' manifests, and kubectl applies them."""

from __future__ import annotations

import pulumi

from catalogue.secondary_networks import NAMESPACE, RELEASES
from components.downloads import fetched
from components.kubernetes.kubectl_host import KubectlHost
from components.kubernetes.vendors_manifest import Part, applied
from config.kubernetes.model import Kubernetes, SecondaryNetworks
from config.measure import Measure
from manifests import secondary_networks, vendors


def brought(  # noqa: PLR0913, PLR0917 - what to apply, and where
    name: str, wanted: Kubernetes, asked: SecondaryNetworks, host: KubectlHost, measure: Measure, parent: pulumi.Resource
) -> list[pulumi.Resource]:
    """Register one Command for each part to install, so that a later update can remove one part and keep the other."""
    return [_one(f"{name}-{each}", each, wanted, asked, host, measure, parent) for each in asked.install]


def _pods(which: str, asked: SecondaryNetworks) -> secondary_networks.Pods:
    return secondary_networks.Pods(asked.image(which), RELEASES[which].arguments, asked.pull_secret)


def _one(  # noqa: PLR0913, PLR0917 - what to apply, and where
    name: str,
    which: str,
    wanted: Kubernetes,
    asked: SecondaryNetworks,
    host: KubectlHost,
    measure: Measure,
    parent: pulumi.Resource,
) -> pulumi.Resource:
    release, part = RELEASES[which], Part(which, "kubernetes_secondary_network")
    try:
        texts = {each.url: fetched(each.url, each.sha256) for each in release.manifests}
    except ValueError as error:
        raise pulumi.RunError(
            f"kubernetes.secondaryNetworks.install has {which}, and {error}, or install {release.title} yourself and leave "
            f"{which} out of the list."
        ) from None
    found = secondary_networks.documents(texts, _pods(which, asked), part.labels, wanted.way)
    pulumi.log.info(f"{release.title} {release.version} comes with {vendors.summary(found)}", parent)
    ask = {"title": release.title, "name": which, "namespace": NAMESPACE, "daemon_set": release.daemon_set}
    return applied(name, part, found, ask, wanted, host, measure, parent)
