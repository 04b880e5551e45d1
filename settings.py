"""The front door: the only reader of `pulumi.Config`. Refuses wrong intent before anything is rented.

It deliberately asks no cloud and holds what every target is asked for; what one target alone is, lies in `intent`.
"""

from __future__ import annotations

import difflib
from pathlib import Path
from typing import Annotated, Any, Self

import pulumi
from pydantic import AfterValidator, BaseModel, ConfigDict, Field, ValidationError, model_validator
from pydantic.alias_generators import to_camel

from benchmarks.judge.checks import SKIPPABLE
from benchmarks.plan.asked import Asked
from benchmarks.records.requests import Keeping
from catalogue import Price, Shape
from catalogue.containers import Container
from config.accept import Limit
from config.measure import Measure
from config.units import size_bytes
from intent.aws import AwsKeys
from intent.hosts import HostsKeys
from intent.oci import OciKeys


def _size(value: str) -> str:
    try:
        size_bytes(value)
    except ValueError as error:
        raise ValueError(str(error)) from None
    return value


_Size = Annotated[str, AfterValidator(_size)]


class Settings(BaseModel):
    """What a stack file may ask for on every target, checked; field names are the keys of Pulumi.yaml in snake case."""

    model_config = ConfigDict(frozen=True, extra="forbid", alias_generator=to_camel, populate_by_name=True)

    target: str
    nodes: int
    shape: str
    nccl_tests_version: str
    nccl_tests_source: str
    nccl_tests_sha256: Annotated[str, Field(pattern="^[0-9a-f]{64}$")]
    sizes_from: _Size
    sizes_to: _Size
    sizes_factor: int
    iterations: int
    warmup: int
    measurement: Annotated[int, Field(ge=1)]
    collectives: tuple[str, ...]
    others_sizes_to: str
    cycles: Annotated[int, Field(ge=1)]
    spread_iterations: int
    rank_exports: tuple[str, ...]
    fabric: tuple[str, ...]
    minimum_busbw_gb_s: str
    limits: tuple[str, ...]
    allow_skipped: tuple[str, ...]
    search_minutes: Annotated[int, Field(ge=0)]
    history: str
    report: str
    certificate_key: str
    certificate_days: Annotated[int, Field(ge=1, le=3650)]
    usd_per_node_hour: str
    ready_timeout_minutes: Annotated[int, Field(ge=1)]
    measure_timeout_minutes: Annotated[int, Field(ge=1)]

    @model_validator(mode="after")
    def _hangs_together(self) -> Self:
        _ = self.asked_limits
        _ = self.own_price
        if self.certificate_key and not Path(self.certificate_key).expanduser().is_file():
            raise ValueError(
                f"certificateKey is {self.certificate_key!r}, and there is no such file; give the path of an ed25519 private "
                "key, or nothing"
            )
        _ = self.plan
        source = self.nccl_tests_source
        if not source.startswith("https://") and not Path(source).is_file():
            raise ValueError(f"ncclTestsSource is {source!r}; it must be an https URL or an existing file")
        return self

    @property
    def plan(self) -> Measure:
        """What will be measured."""
        sizes = {"from": self.sizes_from, "to": self.sizes_to, "factor": self.sizes_factor}
        found = {
            "collectives": self.collectives,
            "sizes": sizes | ({"othersTo": self.others_sizes_to} if self.others_sizes_to else {}),
            "iterations": self.iterations,
            "warmup": self.warmup,
            "run": self.measurement,
            "timeout_s": self.measure_timeout_minutes * 60,
            "cycles": self.cycles,
            "spread_iterations": self.spread_iterations,
            "exports": dict(text.partition("=")[::2] for text in self.rank_exports),
        }
        try:
            made = Measure.model_validate(found)
        except ValidationError as error:
            first = error.errors()[0]
            raise ValueError(f"{'.'.join(map(str, first['loc']))} {first['msg'].removeprefix('Value error, ')}") from None
        for end in (made.sizes.to_bytes, made.sizes.others_to_bytes or made.sizes.to_bytes):
            if made.begin_bytes > end:
                raise ValueError(f"sizes.from is {made.begin_bytes} and must not be above {end}")
        return made

    def asked(self, shape: Shape, nodes: int) -> Asked:
        """Return what is asked of `nodes` nodes of `shape`."""
        return Asked(
            plan=self.plan,
            shape=shape,
            nodes=nodes,
            minimum_gb_s=self.minimum_gb_s,
            limits=self.asked_limits,
            fabric=self.fabric,
            allow_skipped=frozenset(self.allow_skipped),
        )

    @property
    def keeping(self) -> Keeping:
        """What is kept of the measurement beside the stack."""
        return Keeping(self.target, self.history, self.report, self.certificate_key, self.certificate_days)

    @property
    def image_of_ranks(self) -> Container | None:
        """What ranks run in: on most targets the machines themselves."""
        return None

    @property
    def own_price(self) -> Price | None:
        """What one node costs, as the stack itself says; None where it says nothing."""
        if not self.usd_per_node_hour:
            return None
        try:
            value = float(self.usd_per_node_hour)
        except ValueError:
            value = -1.0
        if not 0 < value < float("inf"):
            msg = f"usdPerNodeHour is {self.usd_per_node_hour!r}; it must be a positive number of USD, or empty"
            raise ValueError(msg)
        return Price(value, "the stack's own usdPerNodeHour")

    @property
    def asked_limits(self) -> tuple[Limit, ...]:
        """The user's limits on single collectives and sizes."""
        found = tuple(_limit(text) for text in self.limits)
        for text, limit in zip(self.limits, found, strict=True):
            if limit.collective not in self.collectives or limit.size_bytes not in self.plan.sizes_of(limit.collective):
                msg = f"limits has {text!r}, which the plan never measures; name one of its collectives at one of its sizes"
                raise ValueError(msg)
        unknown = sorted(set(self.allow_skipped) - SKIPPABLE)
        if unknown:
            msg = f"allowSkipped names {', '.join(unknown)}; checks that can be skipped are {', '.join(sorted(SKIPPABLE))}"
            raise ValueError(msg)
        _ = self.minimum_gb_s
        return found

    @property
    def minimum_gb_s(self) -> float | None:
        """The user's own limit, GB/s; None applies the rule."""
        if not self.minimum_busbw_gb_s:
            return None
        try:
            value = float(self.minimum_busbw_gb_s)
        except ValueError:
            value = -1.0
        if not 0 < value < float("inf"):
            msg = f"minimumBusbwGbS is {self.minimum_busbw_gb_s!r}; it must be a positive number of GB/s, or empty"
            raise ValueError(msg)
        return value


def _limit(text: str) -> Limit:
    name, _, rest = text.partition("@")
    size, equals, rate = rest.partition("=")
    if not equals or float(rate) <= 0:
        raise ValueError(f"limits has {text!r}; write collective@size=GB/s, such as all_reduce@1G=300")
    return Limit(name, size_bytes(size), float(rate))


class OciSettings(OciKeys, Settings):
    """A stack of target oci."""


class HostsSettings(HostsKeys, Settings):
    """A stack of target hosts."""


class AwsSettings(AwsKeys, Settings):
    """A stack of target aws."""


Wanted = OciSettings | AwsSettings | HostsSettings
_TARGETS: dict[str, type[Wanted]] = {"oci": OciSettings, "aws": AwsSettings, "hosts": HostsSettings}
#: Every key that some target knows, as Pulumi.yaml spells it.
KEYS = tuple(
    dict.fromkeys(to_camel(name) for model in _TARGETS.values() for name in (*Settings.model_fields, *model.model_fields))
)


def load() -> Wanted:
    """Return the stack's settings.

    Raises:
        pulumi.RunError: with one sentence for each key that is wrong.
    """
    return parse(_configured(pulumi.get_project()))


def parse(values: dict[str, Any]) -> Wanted:
    """Return checked settings from configuration `values`, texts by camelCase key as the engine hands them over.

    Every key is declared once for all targets, so defaults of another target's keys come along; they are left aside.

    Raises:
        pulumi.RunError: with one sentence for each key that is wrong.
    """
    model = _TARGETS.get(str(values.get("target")))
    if model is None:
        raise pulumi.RunError(f"target is {values.get('target')!r}; known are {', '.join(_TARGETS)}.")
    if values.get("container") and model is not AwsSettings:
        raise pulumi.RunError(
            f"container is {values['container']!r}, and target is {values['target']}; only target aws has it, whose first boot "
            "installs enroot: leave it empty."
        )
    mine = {to_camel(name) for name in model.model_fields}
    own = {to_camel(name): value for name, value in model.defaults.items()}
    values = {key: own.get(key, value) if value == "" else value for key, value in values.items()}
    unset = {to_camel(name) for name in model.needed if values.get(to_camel(name)) == ""}
    given = {key: value for key, value in values.items() if (key in mine or key not in KEYS) and key not in unset}
    try:
        return model.model_validate(given)
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
            near = difflib.get_close_matches(key, KEYS, n=1, cutoff=0.5)
            hint = f"did you mean {near[0]}" if near else f"known are {', '.join(KEYS)}"
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
