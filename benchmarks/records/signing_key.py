"""Finds out whether the stack's key can sign certificates. This check comes before anything is rented or measured."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

    from config.records import Records


def unusable(records: Records) -> Iterator[str]:
    """Yield what is wrong with the signing key of `records`, in a sentence that begins with the path of the setting."""
    if not records.certificate.key:
        return
    from benchmarks.records import certificate  # noqa: PLC0415 - this import takes a tenth of a second, which most updates can save

    try:
        certificate.private_key(Path(records.certificate.key).expanduser())
    except certificate.CertificateError as error:
        yield f"records.certificate.key: {error}"
