"""Stack files that tests write: parsed, or refused in sentences that each begin with the path of a key."""

from __future__ import annotations

from typing import Any

import pulumi
import pytest
from conftest import KEY, texts
from early_refusal import begins_with_a_path

from config import read
from config.stack import Stack
from tools.stack_changes import merged

IMAGE = "ocid1.image.oc1.ap-tokyo-1.aaaa"
GIVEN: dict[str, Any] = {
    "target": "oci",
    "oci": {
        "compartment": "ocid1.compartment.oc1..dddd",
        "access": {"publicKey": f"{KEY} operator@example", "sshFrom": ["198.51.100.0/24"]},
        "login": {"image": IMAGE},
        "pools": [{"name": "gpu", "nodes": 2, "image": IMAGE}],
    },
}


def parsed(**changes: Any) -> Stack:
    return read.parse(texts(merged(GIVEN, changes)))


def refused(**changes: Any) -> list[str]:
    """Return the sentences that refuse the stack file; each begins with the path of a key."""
    with pytest.raises(pulumi.RunError) as found:
        parsed(**changes)
    sentences = str(found.value).splitlines()
    assert sentences
    assert all(begins_with_a_path(one) for one in sentences), sentences
    return sentences
