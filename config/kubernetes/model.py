"""An existing Kubernetes cluster: how it is reached, on which nodes pods run, and which rails the pods get."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, Field

from catalogue import Homes
from catalogue.containers import HOMES_INSIDE
from catalogue.secondary_networks import RELEASES
from config.hosts import inventory, known_hosts
from config.measure import Measure
from config.model import Model
from config.shared_values import Cidr, Sha256

#: Name of the one set of pods.
SET = "kubernetes"
#: RFC 1123: a label has at most 63 characters; a name is one label, or several labels with dots between them (apimachinery,
#: util/validation).
_LABEL = r"[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?"
_NAME = rf"(?=.{{1,253}}$){_LABEL}(\.{_LABEL})*"
#: The grammar of image references (Go package distribution/reference); tag and digest are each optional.
_IMAGE = re.compile(
    r"(?P<name>[A-Za-z0-9.-]+(:\d+)?(/[a-z0-9]+([._-]+[a-z0-9]+)*)*)(:(?P<tag>[A-Za-z0-9_][\w.-]{0,127}))?"
    r"(@(?P<digest>sha256:[0-9a-f]{64}))?"
)


def _way(value: str) -> str:
    user, at, address = value.partition("@")
    if not at or not re.fullmatch(r"[a-z_][a-z0-9_.-]{0,31}", user) or not inventory.is_name(address):
        raise ValueError(f"is {value!r}; it must be user@address")
    return value


def _nodes(value: tuple[str, ...]) -> tuple[str, ...]:
    for name in value:
        if not re.fullmatch(_NAME, name):
            raise ValueError(f"has {name!r}, which is no name of a node; kubectl get nodes lists the names")
    return value


def _namespace(value: str) -> str:
    if not re.fullmatch(_LABEL, value):
        raise ValueError(f"is {value!r}; a namespace has lower-case letters, digits and hyphens, 63 at most")
    if value == "default" or value.startswith("kube-"):
        raise ValueError(f"is {value!r}, which the cluster uses itself; name another namespace for the pods")
    return value


def _secret(value: str) -> str:
    if not re.fullmatch(_NAME, value):
        raise ValueError(f"is {value!r}; the name of a secret has lower-case letters, digits, hyphens and dots, 253 at most")
    return value


def _image(value: str) -> str:
    found = _IMAGE.fullmatch(value)
    if not found:
        raise ValueError(f"is {value!r}, which is no image; write it like registry.example/nccl:1.0")
    if not found["digest"] and found["tag"] in {None, "latest"}:
        raise ValueError(
            f"is {value!r}, which means the tag latest, and latest may be another image tomorrow; name another tag or a "
            "digest, because a measurement must record what it measured"
        )
    return value


def _resource(value: str) -> str:
    domain, slash, name = value.partition("/")
    if not slash or not re.fullmatch(_NAME, domain) or not re.fullmatch(r"[A-Za-z0-9]([A-Za-z0-9_.-]{0,61}[A-Za-z0-9])?", name):
        raise ValueError(f"is {value!r}; an extended resource is called domain/name, such as nvidia.com/gpu")
    return value


def _path(value: str) -> str:
    if not value.startswith(("/", "~/")) or not re.fullmatch(r"~?[\w./-]+", value):
        raise ValueError(f"is {value!r}; it must be an absolute path on the machine that runs kubectl, or begin with ~/")
    return value


def _context(value: str) -> str:
    # Names that clouds give clusters: user@cluster, arn:aws:eks:REGION:ACCOUNT:cluster/NAME, gke_PROJECT_ZONE_NAME.
    if not re.fullmatch(r"[\w.@:/+-]{1,253}", value):
        raise ValueError(f"is {value!r}, which is no name of a context; kubectl config get-contexts lists the names")
    return value


def _server(value: str) -> str:
    if not re.fullmatch(r"https://[A-Za-z0-9.-]+(:\d{1,5})?", value):
        raise ValueError(f"is {value!r}; it must be the API server's address, such as https://10.138.61.49:6443")
    return value


def _interface(value: str) -> str:
    if not re.fullmatch(r"[A-Za-z][A-Za-z0-9_.-]{0,14}", value):
        raise ValueError(f"is {value!r}; it must be the name of a network interface, such as ens192")
    return value


def _device(value: str) -> str:
    if not re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9_-]{0,30}", value):
        raise ValueError(f"is {value!r}; it must be the name of an RDMA device, such as irdma0")
    return value


def _pci(value: str) -> str:
    if not re.fullmatch(r"[0-9a-f]{4}:[0-9a-f]{2}:[0-9a-f]{2}\.[0-7]", value):
        raise ValueError(f"is {value!r}; it must be a PCI address such as 0000:14:00.0, as `lspci -D` shows it")
    return value


def _archive(value: str) -> str:
    if not Path(value).expanduser().is_file():
        raise ValueError(f"is {value!r}, and there is no such file on this machine; helm pull fetches a chart's archive")
    return value


class Rail(Model):
    """One interface of every node, which moves into the pod on that node and gets an address of `range` there."""

    interface: Annotated[str, AfterValidator(_interface)] = Field(
        description="Interface on the nodes. It moves from the node into a pod, so never name the interface with SSH.",
        examples=["ens192"],
    )
    device: Annotated[str, AfterValidator(_device)] | None = Field(
        default=None,
        description="RDMA device of the interface; null measures over TCP.",
        examples=["irdma0"],
    )
    range: Cidr = Field(
        description="Range from which whereabouts gives each pod an address on this rail; it needs one address for each node.",
        examples=["10.100.100.0/24"],
    )
    pci: Annotated[str, AfterValidator(_pci)] | None = Field(
        default=None,
        description="PCI address of the device, which must be the same on all nodes. With this key rdma-cni moves the RDMA "
        "device into the pod together with its interface; with null you must move the device yourself.",
        examples=["0000:14:00.0"],
    )


class GpuOperator(Model):
    """NVIDIA's GPU Operator, which brings driver, container toolkit and device plugin onto the nodes."""

    chart: Annotated[str, AfterValidator(_archive)] = Field(
        description="Chart archive on the machine that runs Pulumi, as `helm pull nvidia/gpu-operator --version v24.3.0` "
        "writes it.",
        examples=["./gpu-operator-v24.3.0.tgz"],
    )
    sha256: Sha256 = Field(
        description="sha256 of the archive.", examples=["adbd3d27ba6c00bd7b7cf98cc8811c6ad860427ecd5de59527466b21472c0d93"]
    )
    namespace: Annotated[str, AfterValidator(_namespace)] = Field(
        default="gpu-operator",
        description="Namespace that is created for the operator, and removed with it.",
        examples=["gpu-operator"],
    )
    values: dict[str, Any] = Field(
        default={}, description="Values of the chart.", examples=[{"toolkit": {"version": "v1.15.0-ubi8"}}]
    )


class SecondaryNetworks(Model):
    """Multus and whereabouts, which give pods their rails, installed from their vendors' own manifests."""

    install: Annotated[tuple[Literal["multus", "whereabouts"], ...], Field(min_length=1)] = Field(
        default=("multus", "whereabouts"),
        description="What the stack installs. The list must not contain what the cluster has already.",
        examples=[["whereabouts"]],
    )
    multus_image: Annotated[str, AfterValidator(_image)] = Field(
        default=RELEASES["multus"].image,
        description="Image of Multus's thin plugin, by tag or digest. If the nodes reach only your own registry, name an image "
        "in that registry.",
        examples=["registry.example/multus-cni:v4.1.4"],
    )
    whereabouts_image: Annotated[str, AfterValidator(_image)] = Field(
        default=RELEASES["whereabouts"].image,
        description="Image of whereabouts.",
        examples=["registry.example/whereabouts:v0.8.0"],
    )
    pull_secret: Annotated[str, AfterValidator(_secret)] | None = Field(
        default=None,
        description="Secret in the namespace kube-system with which these images are pulled; you create it.",
        examples=["regcred"],
    )

    def image(self, name: str) -> str:
        """Return the image of Multus or whereabouts."""
        return {"multus": self.multus_image, "whereabouts": self.whereabouts_image}[name]


class Kubernetes(Model):
    """An existing Kubernetes cluster. All objects that the stack creates have the stack's own labels."""

    control_plane: Annotated[str, AfterValidator(_way)] | None = Field(
        default=None,
        description="Host that runs kubectl, as user@address. It needs Python 3.6 or later, and your private key stays in "
        "your SSH agent. With null, kubectl and its kubeconfig are on the machine that runs Pulumi.",
        examples=["root@10.138.61.49"],
    )
    jump: Annotated[str, AfterValidator(_way)] | None = Field(
        default=None,
        description="Jump host, as user@address; null if the control plane's host is reached directly.",
        examples=["ubuntu@203.0.113.200"],
    )
    known_hosts: str = Field(
        default="~/.ssh/known_hosts",
        description="File with the host keys of the control plane's host and the jump host; nothing is trusted on first use.",
        examples=["./known_hosts"],
    )
    kubeconfig: Annotated[str, AfterValidator(_path)] | None = Field(
        default=None,
        description="The kubeconfig on the machine that runs kubectl; null takes kubectl's default.",
        examples=["/etc/kubernetes/admin.conf"],
    )
    context: Annotated[str, AfterValidator(_context)] | None = Field(
        default=None, description="Context in the kubeconfig; null takes the current context.", examples=["admin@site"]
    )
    server: Annotated[str, AfterValidator(_server)] | None = Field(
        default=None,
        description="API server that the kubeconfig must name, so that no other cluster is used by mistake. null accepts any "
        "API server; it is allowed only with `controlPlane`.",
        examples=["https://10.138.61.49:6443"],
    )
    namespace: Annotated[str, AfterValidator(_namespace)] = Field(
        default="busbar",
        description="Namespace of the pods. If it does not exist, the stack creates it, and removes it together with the pods.",
        examples=["busbar"],
    )
    nodes: Annotated[tuple[str, ...], AfterValidator(_nodes)] = Field(
        description="Nodes with GPUs, one pod on each; the pod on the first node is the head node.", examples=[["gpu0", "gpu1"]]
    )
    gpus: Annotated[int, Field(ge=1, le=16)] = Field(
        default=8, description="GPUs of each node; a pod takes all of them.", examples=[1]
    )
    gpu_resource: Annotated[str, AfterValidator(_resource)] = Field(
        default="nvidia.com/gpu", description="Extended resource of the GPUs.", examples=["nvidia.com/gpu"]
    )
    gpu_operator: GpuOperator | None = Field(
        default=None,
        description="NVIDIA's GPU Operator, if the stack is to install it; null for a cluster that offers GPUs already.",
    )
    secondary_networks: SecondaryNetworks | None = Field(
        default=None,
        description="Multus and whereabouts, if the stack is to install them; null for a cluster that has them already.",
    )
    rails: tuple[Rail, ...] = Field(
        default=(),
        description="Interfaces that pods get in addition to the default network; the first is rail 0. May be empty for one "
        "node.",
        examples=[[{"interface": "ens192", "device": "irdma0", "range": "10.100.100.0/24"}]],
    )
    rdma: Literal["exclusive", "shared"] = Field(
        default="exclusive",
        description="How the nodes divide RDMA devices among network namespaces (`rdma system` shows it). With shared, every "
        "pod can use every device.",
        examples=["exclusive"],
    )
    rdma_resource: Annotated[str, AfterValidator(_resource)] | None = Field(
        default=None,
        description="Extended resource of an RDMA device plugin; a pod requests one unit for each rail. null makes "
        "pods with RDMA devices privileged, so that they can open /dev/infiniband.",
        examples=["rdma/hca"],
    )
    image: Annotated[str, AfterValidator(_image)] = Field(
        description="Image of the pods, by tag or digest. It must contain Python 3, Open MPI, CUDA and NCCL's headers.",
        examples=["registry.example/nccl-tests:23.09"],
    )
    job: Literal["Job", "MPIJob"] = Field(
        default="Job",
        description="Kind of object that creates the pods: Kubernetes' own Job, or the MPIJob of Kubeflow's MPI Operator. "
        "Choose MPIJob if the cluster's queues and policies apply to MPIJobs. Ranks start in the same way with both.",
        examples=["MPIJob"],
    )
    pull_secret: Annotated[str, AfterValidator(_secret)] | None = Field(
        default=None,
        description="Secret in `namespace` with which the image is pulled. You create the namespace and this secret before the "
        "first update, so no password is in the stack.",
        examples=["regcred"],
    )

    @property
    def sizes(self) -> dict[str, int]:
        """Number of pods, by the name of the only set."""
        return {SET: len(self.nodes)}

    def measured(self, _measure: Measure) -> str:
        """Return the name of the one set of pods."""
        return SET

    def host_key(self, address: str) -> str:
        """Return the pinned key of `address`.

        Raises:
            ValueError: `address` has no key. A refusal is the path of `knownHosts`, followed by this error's message.
        """
        return known_hosts.read(self.known_hosts).key(address)

    @property
    def way(self) -> str:
        """Where kubectl runs: user@address, or `this-machine`."""
        return self.control_plane or "this-machine"

    @property
    def folder(self) -> str:
        """Folder of this cluster's measurement files on the machine where kubectl runs.

        Without `controlPlane`, the API server is part of the path, because one machine may serve several clusters.
        """
        if self.control_plane or not self.server:
            return self.namespace
        return f"{self.server.removeprefix('https://').replace(':', '_')}/{self.namespace}"

    @property
    def addresses(self) -> tuple[str, ...]:
        """Addresses whose host keys must be known: the control plane's host, and the jump host if there is one."""
        return tuple(way.partition("@")[2] for way in (self.control_plane, self.jump) if way)

    @property
    def devices(self) -> tuple[str, ...]:
        """RDMA devices of the rails, in the rails' order."""
        return tuple(rail.device for rail in self.rails if rail.device)

    @property
    def privileged(self) -> bool:
        """Whether pods must be privileged: they use RDMA devices, and no device plugin provides these devices."""
        return bool(self.devices) and self.rdma_resource is None

    @property
    def homes(self) -> Homes:
        """Where MPI, CUDA and NCCL are in images."""
        return HOMES_INSIDE
