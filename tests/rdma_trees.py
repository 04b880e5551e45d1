"""Trees of RDMA devices below /sys/class/infiniband, built from the lists in tests/golden/rdma."""

from __future__ import annotations

from pathlib import Path

LISTS = Path(__file__).parent / "golden" / "rdma"


def files(device: str) -> dict[str, str]:
    """Return the text of every file of a listed device by its path.

    A path that ends with / is a folder; a text that begins with `->` is the target of a link.
    """
    rows = [line for line in (LISTS / f"{device}.txt").read_text().splitlines() if not line.startswith("#")]
    return dict((*line.split("\t"), "")[:2] for line in rows)


def make(base: Path, device: str, name: str | None = None) -> None:
    """Create the files of a listed device below `base`; `name` replaces the device's name."""
    for path, text in files(device).items():
        place = base / (name or device) / path
        if path.endswith("/"):
            place.mkdir(parents=True)
            continue
        place.parent.mkdir(parents=True, exist_ok=True)
        if text.startswith("->"):
            place.symlink_to(text[2:])
        else:
            place.write_text(f"{text}\n")
