"""What is measured: collectives, message sizes, operations, time limits, and the nccl-tests that run."""

from __future__ import annotations

import hashlib
import json
import re
from pathlib import Path
from typing import Annotated, Any, Literal, get_args

from pydantic import AfterValidator, Field

from catalogue.nccl_tests import SHA256, SOURCE, VERSION
from config.model import Model
from config.shared_values import Sha256
from config.units import Bytes, Seconds

Collective = Literal[
    "all_reduce",
    "all_gather",
    "reduce_scatter",
    "alltoall",
    "broadcast",
    "reduce",
    "gather",
    "scatter",
    "sendrecv",
    "hypercube",
]
#: Only variables of the libraries that ranks use can be set, because the state stores them and must contain no secret.
_PREFIXES = ("NCCL_", "UCX_", "FI_", "OMPI_", "OPAL_", "PRTE_", "PMIX_", "CUDA_")
_EXPORT = re.compile(rf"(?:{'|'.join(_PREFIXES)})[A-Z0-9_]+")
_FLOAT_BYTES = 4
_FEWEST_FOR_SPREAD = 5


def _whole_floats(value: int) -> int:
    if value % _FLOAT_BYTES:
        raise ValueError(f"is {value}; messages are floats, so it must be a multiple of {_FLOAT_BYTES} bytes")
    return value


def _exports(value: dict[str, str]) -> dict[str, str]:
    for name, text in value.items():
        if not _EXPORT.fullmatch(name):
            raise ValueError(
                f"has {name!r}, which is not passed to ranks; names must begin with {', '.join(_PREFIXES)}, because the state "
                "stores these variables and must contain no secret"
            )
        if re.search(r"[\s'\"]", text):
            raise ValueError(f"has {name} with the value {text!r}; it must contain no whitespace and no quotes")
    return value


def _spread(value: int) -> int:
    if 0 < value < _FEWEST_FOR_SPREAD:
        raise ValueError(f"is {value}, which is too few to judge a spread; set {_FEWEST_FOR_SPREAD} or more, or 0 for none")
    return value


def _each_once(value: tuple[str, ...]) -> tuple[str, ...]:
    twice = sorted({name for name in value if value.count(name) > 1})
    if twice or not value:
        raise ValueError(f"has {', '.join(twice)} twice; name each once" if twice else "is empty; name at least one collective")
    return value


def _interface(value: str) -> str:
    if not re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9._-]{0,14}", value):
        raise ValueError(f"is {value!r}; it must be the name of a network interface, such as eth1")
    return value


def _source(value: str) -> str:
    if not value.startswith("https://") and not Path(value).expanduser().is_file():
        raise ValueError(f"is {value!r}; it must be an https URL, or a file on this machine")
    return value


class Sizes(Model):
    """Message sizes."""

    from_bytes: Annotated[Bytes, AfterValidator(_whole_floats)] = Field(
        default=8, description="Smallest message, in bytes or with K, M or G (powers of 1024)."
    )
    to_bytes: Bytes = Field(
        default=8 * 1024**3,
        description="Largest message; its busbw is compared with the gate. The strictest gate needs 4G or more.",
    )
    factor: int = Field(default=2, ge=2, description="Factor from each size to the next.", examples=[4])
    others_to_bytes: Bytes | None = Field(
        default=None, description="Largest message of all collectives except the first; null takes `to`."
    )

    def up_to(self, last_bytes: int) -> tuple[int, ...]:
        """Return the sizes that are at most `last_bytes`, ascending."""
        found = []
        size = self.from_bytes
        while size <= last_bytes:
            found.append(size)
            size *= self.factor
        return tuple(found)


class NcclTests(Model):
    """The nccl-tests that are built and run."""

    version: str = Field(
        default=VERSION,
        description="Version that the outputs show. It does not select the archive; but if you change it, nccl-tests are "
        "built and run again.",
        examples=["2.19.6"],
    )
    source: Annotated[str, AfterValidator(_source)] = Field(
        default=SOURCE,
        description="Source archive (tar): an https URL that the head node can reach, or a file on this machine.",
        examples=["/srv/nccl-tests.tar"],
    )
    sha256: Sha256 | None = Field(
        default=None,
        description="sha256 of the archive; required only for a URL that catalogue/nccl_tests.py does not know.",
        examples=["adbd3d27ba6c00bd7b7cf98cc8811c6ad860427ecd5de59527466b21472c0d93"],
    )

    @property
    def is_url(self) -> bool:
        """Whether the head node downloads the archive itself."""
        return self.source.startswith("https://")

    @property
    def path(self) -> Path:
        """Path of the archive, if the archive is a file on this machine."""
        return Path(self.source).expanduser()

    @property
    def digest(self) -> str:
        """The sha256 that pins the archive: from the stack file, from the catalogue by URL, or computed from the local file."""
        if self.sha256:
            return self.sha256
        if self.is_url:
            return SHA256[self.source]
        return hashlib.sha256(self.path.read_bytes()).hexdigest()


class Measure(Model):
    """How the cluster is measured; the gate applies to the first collective."""

    collectives: Annotated[tuple[Collective, ...], AfterValidator(_each_once)] = Field(
        default=get_args(Collective),
        description="Collectives to run; the gate applies to the first of them. hypercube runs only if the number of ranks is "
        "2, 4, 8 ...",
        examples=[["all_reduce", "alltoall"]],
    )
    sizes: Sizes = Field(default=Sizes(), description="Message sizes.")
    iterations: int = Field(default=20, ge=1, description="Timed operations at each size.", examples=[50])
    warmup: int = Field(default=5, ge=0, description="Untimed operations before the timed operations.", examples=[0])
    cycles: int = Field(default=1, ge=1, description="Runs of each size; the run with the median time counts.", examples=[3])
    spread_iterations: Annotated[int, Field(ge=0), AfterValidator(_spread)] = Field(
        default=20,
        description="Operations that are timed one by one at the largest size, to judge their spread: 5 or more; 0 for none.",
        examples=[0],
    )
    looks: int = Field(
        default=16,
        ge=0,
        description="Number of looks, which are short separate measurements at the largest size; 0 for none. Half of them "
        "follow the run of the first collective, and half are at the end. Looks detect a fabric that is slow at times, which "
        "one run can miss.",
        examples=[0],
    )
    prove_rails: bool = Field(
        default=False,
        description="true tests every rail by itself, before the collectives, between neighbours in the ring of nodes. With "
        "RDMA the test runs rping and, except on EFA, ib_write_bw, and compares the result of ib_write_bw with the line rate. "
        "Without RDMA it opens a TCP connection. The test takes some 10 s for each rail of a node.",
        examples=[True],
    )
    exports: Annotated[dict[str, str], AfterValidator(_exports)] = Field(
        default={}, description="Variables that every rank gets, by name.", examples=[{"NCCL_NVLS_ENABLE": "0"}]
    )
    fabric: tuple[Annotated[str, AfterValidator(_interface)], ...] = Field(
        default=(),
        description="Interfaces that must carry the bytes if there is no RDMA. An empty list accepts any interface.",
        examples=[["eth1"]],
    )
    run: int = Field(default=1, ge=1, description="Raise this number to measure again even if nothing changed.", examples=[2])
    pool: str | None = Field(
        default=None,
        description="What to measure: a pool (oci), or one entry of a queue's machines (aws: the names of queue and entry, "
        "with a hyphen between them). Required only if several pools or entries have nodes.",
        examples=["gpu-p5"],
    )
    timeout_s: Annotated[Seconds, Field(ge=1)] = Field(default=30 * 60, description="Time limit for one measurement.")
    ready_timeout_s: Annotated[Seconds, Field(ge=1)] = Field(
        default=60 * 60, description="Time limit for the wait until all nodes have finished their first boot with all rails up."
    )
    search_s: Annotated[Seconds, Field(ge=0)] = Field(
        default=10 * 60,
        description="Time limit for the search for the cause of a short fabric. After this time the search starts no new "
        "round, but a round that has begun may take 5 min more. The retest before the search does not count. 0 s: no search.",
    )
    nccl_tests: NcclTests = Field(default=NcclTests(), description="The nccl-tests that are built and run.")

    @property
    def begin_bytes(self) -> int:
        """Smallest message."""
        return self.sizes.from_bytes

    @property
    def end_bytes(self) -> int:
        """Largest message of the first collective; the gate is checked at that size."""
        return self.sizes.to_bytes

    @property
    def collective(self) -> str:
        """The first collective, whose busbw is compared with the gate."""
        return self.collectives[0]

    @property
    def sizes_bytes(self) -> tuple[int, ...]:
        """The sizes of the first collective, ascending."""
        return self.sizes_of(self.collective)

    def end_of(self, name: str) -> int:
        """Return the largest size of collective `name`."""
        return self.end_bytes if name == self.collective else self.sizes.others_to_bytes or self.end_bytes

    def sizes_of(self, name: str) -> tuple[int, ...]:
        """Return the sizes of collective `name`, ascending."""
        return self.sizes.up_to(self.end_of(name))

    def asked(self) -> dict[str, Any]:
        """Return the settings that a result depends on: all except `readyTimeout`, `search`, `pool` and `ncclTests`."""
        return self.model_dump(mode="json", by_alias=True, exclude={"ready_timeout_s", "search_s", "pool", "nccl_tests"})

    def digest(self) -> str:
        """Return a hash of the settings that a result depends on."""
        return hashlib.sha256(json.dumps(self.asked(), sort_keys=True).encode()).hexdigest()
