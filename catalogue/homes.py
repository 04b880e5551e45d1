"""Where software is on machines and in images."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Homes:
    """Where MPI, CUDA and NCCL are: globs for each, tried in order; the newest match of a glob is used."""

    mpi: tuple[str, ...]
    cuda: tuple[str, ...]
    nccl: tuple[str, ...]
