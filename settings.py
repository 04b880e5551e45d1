"""The front door: the only reader of `pulumi.Config`. Refuses wrong intent before anything is rented.

It deliberately asks no cloud: what only an account knows is asked by `components.oci.preflight`.
"""

from __future__ import annotations

import base64
import binascii
import difflib
import ipaddress
import re
import zoneinfo
from pathlib import Path
from typing import Annotated, Any, Self

import pulumi
from pydantic import AfterValidator, BaseModel, ConfigDict, Field, ValidationError, model_validator
from pydantic.alias_generators import to_camel

from benchmarks import plan
from catalogue import IMAGES, SHAPES, ImageFamily, Shape, nearest

#: Networks of the RDMA rails: written by first boot on Oracle Linux 7, given by the vendor's agent on later images.
RAIL_NETWORKS = (ipaddress.IPv4Network("192.168.0.0/16"), ipaddress.IPv4Network("10.224.0.0/12"))
#: The vendor keeps the first two addresses and the last one of a subnet.
_RESERVED_ADDRESSES = 3
_WORLD = ipaddress.IPv4Network("0.0.0.0/0")
_KEY_TYPES = ("ssh-ed25519", "ssh-rsa", "ecdsa-sha2-nistp256", "ecdsa-sha2-nistp384", "ecdsa-sha2-nistp521")
_LONGEST_PREFIX = 30
_FLOAT_BYTES = 4


def _network(value: str) -> str:
    try:
        return str(ipaddress.IPv4Network(value))
    except ValueError as error:
        msg = f"is {value!r}, which is no IPv4 network ({error}); write it like 10.0.0.0/16"
        raise ValueError(msg) from None


def _ocid(kind: str) -> AfterValidator:
    def check(value: str) -> str:
        if not re.fullmatch(rf"ocid1\.{kind}\.[a-z0-9]+\.[a-z0-9-]*\.[A-Za-z0-9_-]+", value):
            msg = f"is {value!r}; it must be an OCID that begins with ocid1.{kind}."
            raise ValueError(msg)
        return value

    return AfterValidator(check)


def _public_key(value: str) -> str:
    text = value.strip()
    if text.endswith(".pub") and "\n" not in text:
        try:
            text = Path(text).expanduser().read_text().strip()
        except OSError as error:
            msg = f"names the file {value!r}, which cannot be read ({error.strerror}); give a public key or the path of one"
            raise ValueError(msg) from None
    words = text.split()
    if "PRIVATE KEY" in text:
        msg = "is a private key, which must never leave its owner; give the public half (the .pub file)"
        raise ValueError(msg)
    if len(words) < 2 or words[0] not in _KEY_TYPES or not _is_key(words[0], words[1]):  # noqa: PLR2004 - type and key
        msg = f"is not an OpenSSH public key; it must look like '{_KEY_TYPES[0]} AAAA...', with one of {', '.join(_KEY_TYPES)}"
        raise ValueError(msg)
    return " ".join(words[:2])  # the comment often names a person and a machine, and no node needs it


def _is_key(kind: str, encoded: str) -> bool:
    """Tell whether the base64 text holds the key type that it claims (RFC 4253, section 6.6)."""
    try:
        raw = base64.b64decode(encoded, validate=True)
    except (binascii.Error, ValueError):
        return False
    return raw[4 : 4 + int.from_bytes(raw[:4], "big")] == kind.encode()


def _shape(value: str) -> str:
    if value not in SHAPES:
        msg = f"is {value!r}, which is not an RDMA shape in the catalogue; the nearest are {', '.join(nearest(value))}"
        raise ValueError(msg)
    shape = SHAPES[value]
    if not shape.gpus or shape.rdma is None:
        lack = "no GPU" if not shape.gpus else "no rail data in the catalogue"
        msg = f"is {value!r}, which has {lack}, so NCCL cannot be measured on it"
        raise ValueError(msg)
    return value


def _family(value: str) -> str:
    if value not in IMAGES:
        msg = f"is {value!r}; it must be one of {', '.join(IMAGES)}"
        raise ValueError(msg)
    return value


def _size(value: str) -> str:
    try:
        plan.size_bytes(value)
    except ValueError as error:
        msg = f"is wrong: {error}"
        raise ValueError(msg) from None
    return value


def _timezone(value: str) -> str:
    if value not in zoneinfo.available_timezones():
        near = difflib.get_close_matches(value, zoneinfo.available_timezones(), n=2)
        msg = f"is {value!r}, which the tz database does not know; like it are {', '.join(near) or 'UTC, Asia/Tokyo'}"
        raise ValueError(msg)
    return value


_Cidr = Annotated[str, AfterValidator(_network)]
_Family = Annotated[str, AfterValidator(_family)]
_Size = Annotated[str, AfterValidator(_size)]


class Settings(BaseModel):
    """What one stack file asks for, checked; field names are the keys of Pulumi.yaml in snake case."""

    model_config = ConfigDict(frozen=True, extra="forbid", alias_generator=to_camel, populate_by_name=True)

    target: str
    cluster_name: Annotated[str, Field(pattern=r"^[a-z][a-z0-9]{0,14}$")]
    nodes: int
    shape: Annotated[str, AfterValidator(_shape)]
    image: Annotated[str, _ocid("image")]
    image_family: _Family
    bastion_image: Annotated[str, _ocid("image")]
    bastion_image_family: _Family
    bastion_shape: str
    bastion_ocpus: Annotated[int, Field(ge=1)]
    bastion_memory_gb: Annotated[int, Field(ge=1)]
    tenancy: Annotated[str, _ocid("tenancy")]
    compartment: Annotated[str, _ocid("(?:compartment|tenancy)")]
    availability_domain: Annotated[str, Field(min_length=1)]
    home_region: str
    ssh_public_key: Annotated[str, AfterValidator(_public_key)]
    ssh_from: tuple[_Cidr, ...]
    allow_world: bool
    vcn_cidr: _Cidr
    public_cidr: _Cidr
    private_cidr: _Cidr
    private_ingress: Annotated[str, Field(pattern="^(all|ssh)$")]
    boot_volume_gb: int
    timezone: Annotated[str, AfterValidator(_timezone)]
    iam: bool
    preflight: bool
    nccl_tests_version: str
    nccl_tests_source: str
    nccl_tests_sha256: Annotated[str, Field(pattern="^[0-9a-f]{64}$")]
    sizes_from: _Size
    sizes_to: _Size
    sizes_factor: int
    iterations: int
    warmup: int
    measurement: Annotated[int, Field(ge=1)]
    minimum_busbw_gbps: str
    ready_timeout_minutes: Annotated[int, Field(ge=1)]
    measure_timeout_minutes: Annotated[int, Field(ge=1)]

    @model_validator(mode="after")
    def _hangs_together(self) -> Self:
        if self.target != "oci":
            raise ValueError(f"target is {self.target!r}; known is oci")
        if self.nodes < 2:  # noqa: PLR2004 - one node has no fabric
            raise ValueError(
                f"nodes is {self.nodes}; a cluster network joins 2 or more, and with fewer there is no fabric to measure"
            )
        if self.boot_volume_gb < 200:  # noqa: PLR2004 - the vendor's tutorials say 200 for GPU nodes
            raise ValueError(
                f"bootVolumeGb is {self.boot_volume_gb}; GPU nodes need 200 or more for drivers, containers and logs"
            )
        self._networks_hang_together()
        self._access_is_narrow()
        _ = self.minimum_gbps
        if self.plan.begin_bytes % _FLOAT_BYTES:
            raise ValueError(f"sizesFrom is {self.sizes_from}; messages are floats: it must be a multiple of {_FLOAT_BYTES}")
        source = self.nccl_tests_source
        if not source.startswith("https://") and not Path(source).is_file():
            raise ValueError(f"ncclTestsSource is {source!r}; it must be an https URL or an existing file")
        return self

    def _networks_hang_together(self) -> None:
        vcn, public, private = (ipaddress.IPv4Network(cidr) for cidr in (self.vcn_cidr, self.public_cidr, self.private_cidr))
        for rails in RAIL_NETWORKS:
            if vcn.overlaps(rails):
                raise ValueError(
                    f"vcnCidr is {vcn}, which overlaps {rails}; the RDMA rails use that network, and traffic would go astray"
                )
        if not 16 <= vcn.prefixlen <= _LONGEST_PREFIX:  # noqa: PLR2004 - the vendor's own bound
            raise ValueError(f"vcnCidr is {vcn}; the cloud takes /16 to /{_LONGEST_PREFIX}")
        for key, subnet in (("publicCidr", public), ("privateCidr", private)):
            if not subnet.subnet_of(vcn):
                raise ValueError(f"{key} is {subnet}, which lies outside vcnCidr {vcn}")
            if subnet.prefixlen > _LONGEST_PREFIX:
                raise ValueError(f"{key} is {subnet}; the cloud takes /{_LONGEST_PREFIX} at the smallest")
        if public.overlaps(private):
            raise ValueError(f"publicCidr {public} and privateCidr {private} overlap; each machine must lie in one of them")
        room = private.num_addresses - _RESERVED_ADDRESSES
        if room < self.nodes:
            raise ValueError(f"privateCidr is {private}, which has room for {room} machines; {self.nodes} nodes are asked for")
        if self.family.rdma == "ifcfg":
            self._rails_hang_together(private)

    def _rails_hang_together(self, private: ipaddress.IPv4Network) -> None:
        rdma = self.node_shape.rdma
        if rdma is not None and not rdma.el7_netdevs:
            raise ValueError(
                f"imageFamily is {self.image_family}, and no such image drives the rails of {self.shape}; use ol8 or later"
            )
        if private.prefixlen < 24:  # noqa: PLR2004 - y of 192.168.x.y is the last octet
            raise ValueError(
                f"privateCidr is {private}; on {self.image_family} the rails take the last octet of a node's address, "
                "so the subnet must be /24 or smaller, or two nodes would share one"
            )

    def _access_is_narrow(self) -> None:
        if not self.ssh_from:
            raise ValueError("sshFrom is empty; name at least one network that may reach the bastion, such as your office's")
        together = ipaddress.collapse_addresses(ipaddress.IPv4Network(cidr) for cidr in self.ssh_from)
        if not self.allow_world and _WORLD in together:
            raise ValueError(
                "sshFrom contains 0.0.0.0/0, the whole Internet; name your networks, or set allowWorld: true if you mean it"
            )

    @property
    def node_shape(self) -> Shape:
        """The nodes' row of the catalogue."""
        return SHAPES[self.shape]

    @property
    def family(self) -> ImageFamily:
        """The nodes' image family."""
        return IMAGES[self.image_family]

    @property
    def bastion_family(self) -> ImageFamily:
        """The bastion's image family."""
        return IMAGES[self.bastion_image_family]

    @property
    def plan(self) -> plan.Plan:
        """What will be measured."""
        return plan.Plan(
            begin_bytes=plan.size_bytes(self.sizes_from),
            end_bytes=plan.size_bytes(self.sizes_to),
            factor=self.sizes_factor,
            iterations=self.iterations,
            warmup=self.warmup,
            cycle=self.measurement,
            timeout_s=self.measure_timeout_minutes * 60,
        )

    @property
    def minimum_gbps(self) -> float | None:
        """The user's own limit, GB/s; None applies the rule."""
        if not self.minimum_busbw_gbps:
            return None
        try:
            value = float(self.minimum_busbw_gbps)
        except ValueError:
            value = -1.0
        if not 0 < value < float("inf"):
            msg = f"minimumBusbwGbps is {self.minimum_busbw_gbps!r}; it must be a positive number of GB/s, or empty"
            raise ValueError(msg)
        return value


def load() -> Settings:
    """Return the stack's settings.

    Raises:
        pulumi.RunError: with one sentence for each key that is wrong.
    """
    return parse(_configured(pulumi.get_project()))


def parse(values: dict[str, Any]) -> Settings:
    """Return checked settings from configuration `values`, texts by camelCase key as the engine hands them over.

    Raises:
        pulumi.RunError: with one sentence for each key that is wrong.
    """
    try:
        return Settings.model_validate(values)
    except ValidationError as error:
        raise pulumi.RunError("\n".join(_sentence(found) for found in error.errors())) from None


def _configured(project: str) -> dict[str, Any]:
    """Return every key of our own namespace; pulumi.Config reads known keys only and so would never see a misspelt one."""
    raw = {**pulumi.runtime.config.get_config_env(), **pulumi.runtime.config.CONFIG.get()}
    config = pulumi.Config(project)
    values: dict[str, Any] = {}
    for key, text in raw.items():
        namespace, _, name = key.partition(":")
        if namespace == project:
            values[name] = config.get_object(name) if str(text).startswith("[") else config.get(name)
    return values


def _sentence(found: Any) -> str:
    key = str(found["loc"][0]) if found["loc"] else ""
    given = found.get("input")
    match found["type"]:
        case "extra_forbidden":
            known = [to_camel(name) for name in Settings.model_fields]
            near = difflib.get_close_matches(key, known, n=1, cutoff=0.5)
            hint = f"did you mean {near[0]}" if near else f"known are {', '.join(known)}"
            return f"{key} is not a configuration key of busbar; {hint}?" if near else f"{key} is not a key of busbar; {hint}."
        case "missing":
            return f"{key} is not set, and it has no default; see its description in Pulumi.yaml."
        case "value_error":
            text = str(found["ctx"]["error"])
            return f"{key} {text}." if key else f"{text}."
        case "string_pattern_mismatch":
            return f"{key} is {given!r}; it must match {found['ctx']['pattern']}."
        case _:
            return f"{key} is {given!r}: {found['msg'][0].lower()}{found['msg'][1:]}."
