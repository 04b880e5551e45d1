"""What will be run: collectives, sizes and iterations as data; `benchmarks.plan.steps` turns them into commands.

It deliberately starts nothing and knows no machine.
"""

from __future__ import annotations

import hashlib
import json
import re
from dataclasses import asdict, dataclass

from benchmarks.plan.collectives import collective

_EXPORT = re.compile(r"(?:NCCL|UCX|FI|OMPI|OPAL|PRTE|PMIX|CUDA)_[A-Z0-9_]+=[^\s'\"]*")
_SUFFIXES = {"": 1, "B": 1, "K": 1024, "M": 1024**2, "G": 1024**3}


def size_bytes(text: str) -> int:
    """Read a size as nccl-tests writes it: `8`, `64M`, `8G` (powers of 1024).

    Raises:
        ValueError: not such a size.
    """
    digits = text.rstrip("BKMG")
    suffix = text[len(digits) :]
    if not digits.isascii() or not digits.isdigit() or suffix not in _SUFFIXES or int(digits) == 0:
        msg = f"{text!r} is not a size; write bytes, or a whole number followed by K, M or G, such as 64M"
        raise ValueError(msg)
    return int(digits) * _SUFFIXES[suffix]


@dataclass(frozen=True)
class Plan:
    """One measurement: the first collective decides, the others inform; both placements, values always checked.

    Attributes:
        begin_bytes: smallest size.
        end_bytes: largest size; the gate reads the number there.
        factor: each size is the one before times this.
        iterations: timed operations at each size.
        warmup: untimed operations before them.
        cycle: raised by hand to measure again although nothing changed.
        timeout_s: bound on the whole measurement.
        collectives: what is run; the gate reads the first.
        others_end_bytes: largest size of the others, None as the first's.
        cycles: how often each size is measured (`-N`); the median run counts.
        spread_iterations: operations timed one by one at the gate's size, for their spread; 0 leaves that out.
        exports: variables that the site wants every rank to have, NAME=value; they go before what the shape says.
    """

    begin_bytes: int
    end_bytes: int
    factor: int
    iterations: int
    warmup: int
    cycle: int = 1
    timeout_s: int = 1800
    collectives: tuple[str, ...] = ("all_reduce",)
    others_end_bytes: int | None = None
    cycles: int = 1
    spread_iterations: int = 20
    exports: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        """Refuse a plan that would measure nothing."""
        for end in (self.end_bytes, self.others_end_bytes or self.end_bytes):
            if not 0 < self.begin_bytes <= end:
                msg = f"sizes run from {self.begin_bytes} B to {end} B; the first must be positive and not above the last"
                raise ValueError(msg)
        if self.factor < 2 or self.iterations < 1 or self.warmup < 0 or self.cycles < 1:  # noqa: PLR2004 - 1 never ends
            msg = "a plan needs a factor of at least 2, at least 1 iteration and cycle, and no negative warm-up"
            raise ValueError(msg)
        if not self.collectives or len(set(self.collectives)) != len(self.collectives):
            msg = f"collectives are {', '.join(self.collectives) or 'none'}; a plan names at least one, each once"
            raise ValueError(msg)
        if self.spread_iterations != 0 and self.spread_iterations < 5:  # noqa: PLR2004 - fewer have no spread worth a name
            msg = f"{self.spread_iterations} operations have no spread; time at least 5 one by one, or 0 for none"
            raise ValueError(msg)
        for name in self.collectives:
            collective(name)
        for text in self.exports:
            if not _EXPORT.fullmatch(text):
                msg = (
                    f"{text!r} is not given to ranks; write NAME=value with a name that begins with NCCL_, UCX_, FI_, OMPI_, "
                    "OPAL_, PRTE_, PMIX_ or CUDA_, for what ranks are given is kept in the state"
                )
                raise ValueError(msg)

    @property
    def collective(self) -> str:
        """Return the collective whose number decides."""
        return self.collectives[0]

    @property
    def sizes_bytes(self) -> tuple[int, ...]:
        """Return the sizes that the deciding collective is asked for, ascending."""
        return self.sizes_of(self.collective)

    def end_of(self, name: str) -> int:
        """Return the largest size of collective `name`."""
        return self.end_bytes if name == self.collective else self.others_end_bytes or self.end_bytes

    def sizes_of(self, name: str) -> tuple[int, ...]:
        """Return the sizes that collective `name` is asked for, ascending."""
        sizes = []
        size = self.begin_bytes
        while size <= self.end_of(name):
            sizes.append(size)
            size *= self.factor
        return tuple(sizes)

    def digest(self) -> str:
        """Return a hash of everything in the plan."""
        return hashlib.sha256(json.dumps(asdict(self), sort_keys=True).encode()).hexdigest()
