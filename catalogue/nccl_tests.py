"""The version of nccl-tests that is built by default, and the checksum of its archive."""

from __future__ import annotations

import re

VERSION = "2.19.6"
SOURCE = f"https://github.com/NVIDIA/nccl-tests/archive/refs/tags/v{VERSION}.tar.gz"
#: sha256 of the archive, by URL. It was computed from the tag. This command packs the tag in the way in which GitHub packs it:
#: git archive --format=tar --prefix=nccl-tests-2.19.6/ v2.19.6 | gzip -n
#: The same command gives the checksums that Spack publishes for 2.0.0 and 2.13.6. The build stops if the archive has another
#: checksum.
SHA256 = {SOURCE: "adbd3d27ba6c00bd7b7cf98cc8811c6ad860427ecd5de59527466b21472c0d93"}
#: The first version with everything that a measurement needs: JSON results (-J, from 2.18.5 on, NVIDIA/nccl-tests ad956f1) and
#: times of individual operations (-I, 0fdb00a).
LEAST = (2, 19, 2)


def too_old(source: str) -> bool:
    """Tell whether the URL `source` names an NVIDIA release older than `LEAST`; False if the URL names no NVIDIA release."""
    found = re.match(r"https://github\.com/NVIDIA/nccl-tests/.*/v?(\d+)\.(\d+)\.(\d+)\.(?:tar|zip)", source)
    return found is not None and tuple(map(int, found.groups())) < LEAST
