"""Quantities of a stack file, each written with its unit and parsed once into a number."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from decimal import Decimal
from typing import Annotated, Any

from pydantic import GetCoreSchemaHandler, GetJsonSchemaHandler, ValidationInfo
from pydantic_core import CoreSchema, core_schema

_NUMBER = re.compile(r"([0-9]+(?:\.[0-9]+)?) ?(.*)")


@dataclass(frozen=True, eq=False)
class Quantity:
    """How one kind of quantity is written.

    Attributes:
        unit: the unit of the parsed number.
        factors: every unit that may be written, and that unit's size in `unit`; ascending.
        example: a valid text.
        hint: text at the end of the message about an invalid text.
    """

    unit: str
    factors: Mapping[str, float]
    example: str
    hint: str = ""

    def read(self, text: str) -> float:
        """Return the quantity that `text` states, converted to `unit`.

        If `text` is no such quantity, raise a ValueError: it has the end of the sentence that begins with the key.
        """
        return float(self._exact(text))

    def _exact(self, text: str) -> Decimal:
        found = _NUMBER.fullmatch(text.strip())
        if not found or found[2] not in self.factors:
            raise ValueError(self._refusal(text))
        return Decimal(found[1]) * Decimal(str(self.factors[found[2]]))  # 1.1 h are exactly 3960 s

    def show(self, value: float) -> str:
        """Return `value` as a stack file would write it, in the largest unit that leaves a whole number."""
        for unit, factor in reversed(list(self.factors.items())):
            if value % factor == 0:
                return f"{value / factor:.0f} {unit}".strip()
        return f"{value:g} {self.unit}"

    def _refusal(self, given: Any) -> str:
        units = ", ".join(unit for unit in self.factors if unit)
        return f"is {given!r}; write a number and its unit ({units}), such as {self.example}{self.hint}"

    def _validate(self, value: Any, info: ValidationInfo) -> Any:
        if isinstance(value, str):
            return self.read(value)
        # Only Python code may give a plain number: there, the field's name has the unit. A stack file must write the unit.
        if info.mode == "json" or isinstance(value, bool) or not isinstance(value, int | float):
            raise ValueError(self._refusal(value))
        return value

    def __get_pydantic_core_schema__(self, source: Any, handler: GetCoreSchemaHandler) -> CoreSchema:
        return core_schema.with_info_before_validator_function(self._validate, handler(source))

    def __get_pydantic_json_schema__(self, schema: CoreSchema, handler: GetJsonSchemaHandler) -> dict[str, Any]:
        units = "|".join(re.escape(unit) for unit in self.factors)
        return {"type": "string", "pattern": rf"^[0-9]+(\.[0-9]+)? ?({units})$", "examples": [self.example]}


@dataclass(frozen=True, eq=False)
class Whole(Quantity):
    """A quantity that becomes a whole number."""

    def read(self, text: str) -> int:
        """Return the quantity that `text` states, converted to a whole number of `unit`.

        If `text` is no such quantity, raise a ValueError: it has the end of the sentence that begins with the key.
        """
        value = self._exact(text)
        if value != int(value):
            raise ValueError(f"is {text!r}; it must be a whole number of {self.unit}")
        return int(value)


_K, _M, _G = 1024, 1024**2, 1024**3


@dataclass(frozen=True, eq=False)
class MessageSize(Whole):
    """A message size as nccl-tests writes it (8, 64M, 8G; powers of 1024), or with a binary unit (64 MiB)."""

    def read(self, text: str) -> int:
        """Return the number of bytes that `text` states, or raise a ValueError, as `Quantity.read` does."""
        found = re.fullmatch(r"([0-9]+) ?([A-Za-z]*)", text.strip())
        if not found or found[2] not in self.factors or int(found[1]) == 0:
            raise ValueError(f"is {text!r}; write bytes, or a whole number and K, M, G, KiB, MiB or GiB, such as 64M")
        return int(found[1]) * int(self.factors[found[2]])

    def show(self, value: float) -> str:
        """Return `value` as nccl-tests writes it."""
        for unit in ("G", "M", "K"):
            if value % self.factors[unit] == 0:
                return f"{value / self.factors[unit]:.0f}{unit}"
        return f"{value:.0f}"

    def _validate(self, value: Any, info: ValidationInfo) -> Any:
        if isinstance(value, int) and not isinstance(value, bool):
            return self.read(str(value))
        return super()._validate(value, info)

    def __get_pydantic_json_schema__(self, schema: CoreSchema, handler: GetJsonSchemaHandler) -> dict[str, Any]:
        return {"type": ["string", "integer"], "pattern": "^[0-9]+ ?(B|K|M|G|KiB|MiB|GiB)?$", "examples": [self.example]}


MESSAGE = MessageSize(
    "bytes", {"": 1, "B": 1, "KiB": _K, "K": _K, "MiB": _M, "M": _M, "GiB": _G, "G": _G}, "64M"
)  # fmt: skip
_GB_S = Quantity("GB/s", {"GB/s": 1, "TB/s": 1000}, "350 GB/s", "; a byte is 8 bits: 80 Gbit/s are 10 GB/s")

Bytes = Annotated[int, MESSAGE]
GbS = Annotated[float, _GB_S]
GbitS = Annotated[int, Whole("Gbit/s", {"Gbit/s": 1}, "1 Gbit/s")]
MbS = Annotated[int, Whole("MB/s", {"MB/s": 1, "GB/s": 1000}, "640 MB/s")]
MibS = Annotated[int, Whole("MiB/s", {"MiB/s": 1, "GiB/s": 1024}, "125 MiB/s")]
Gib = Annotated[int, Whole("GiB", {"GiB": 1, "TiB": 1024}, "1200 GiB")]
Gb = Annotated[int, Whole("GB", {"GB": 1, "TB": 1000}, "256 GB")]
Seconds = Annotated[int, Whole("s", {"s": 1, "min": 60, "h": 3600}, "15 min")]
Minutes = Annotated[int, Whole("min", {"min": 1, "h": 60}, "10 min")]
Hours = Annotated[int, Whole("h", {"h": 1, "days": 24}, "24 h")]
Days = Annotated[int, Whole("days", {"days": 1}, "30 days")]
Usd = Annotated[float, Quantity("USD", {"USD": 1}, "32.5 USD")]


def size_bytes(text: str) -> int:
    """Return the bytes of a message size such as `64M`, or raise a ValueError, as `Quantity.read` does."""
    return MESSAGE.read(text)
