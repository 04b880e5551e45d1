"""The nccl-tests that is built where a stack names no other, and the sums of its archives."""

from __future__ import annotations

import re

VERSION = "2.19.6"
SOURCE = f"https://github.com/NVIDIA/nccl-tests/archive/refs/tags/v{VERSION}.tar.gz"
#: sha256 by URL. Made from the tag as GitHub makes its archives:
#: git archive --format=tar --prefix=nccl-tests-2.19.6/ v2.19.6 | gzip -n
#: The same command gives the sums that Spack publishes for 2.0.0 and 2.13.6. A sum that does not fit stops the build.
SHA256 = {SOURCE: "adbd3d27ba6c00bd7b7cf98cc8811c6ad860427ecd5de59527466b21472c0d93"}
#: The first version with all that a measurement asks of it: JSON results (-J, 2.18.5, NVIDIA/nccl-tests ad956f1) and times of
#: single operations (-I, 0fdb00a).
LEAST = (2, 19, 2)


def too_old(source: str) -> bool:
    """Say whether that URL is of one of NVIDIA's versions before `LEAST`; of other archives nobody knows."""
    found = re.match(r"https://github\.com/NVIDIA/nccl-tests/.*/v?(\d+)\.(\d+)\.(\d+)\.(?:tar|zip)", source)
    return found is not None and tuple(map(int, found.groups())) < LEAST
