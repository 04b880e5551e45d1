"""Keys and signatures of the rehearsed repositories, verified by this machine's own GnuPG."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from rehearsal.image import signing_keys
from rehearsal.plugin import openpgp


@pytest.mark.parametrize("owner", signing_keys.OWNERS)
def test_the_public_key_in_images_and_the_fingerprint_in_stack_files_belong_to_the_key_that_signs(owner):
    assert signing_keys.OWNERS[owner] == (openpgp.public_key(owner), openpgp.fingerprint(owner))


@pytest.mark.parametrize("content", [b"", b"Suite: jammy\n" * 1000], ids=["nothing", "a list"])
@pytest.mark.parametrize("owner", signing_keys.OWNERS)
def test_gnupg_accepts_a_signature_only_with_the_signed_content_and_the_signers_key(tmp_path, owner, content):
    signature = openpgp.detached(owner, content)
    assert judged(tmp_path, owner, signature, content)
    assert not judged(tmp_path, owner, signature, content + b"x")
    other = next(one for one in signing_keys.OWNERS if one != owner)
    assert not judged(tmp_path, other, signature, content)


def judged(folder: Path, owner: str, signature: str, content: bytes) -> bool:
    """Return whether gpgv accepts the signature as a signature by `owner`."""
    files = {"key.asc": signing_keys.OWNERS[owner][0].encode(), "signature": signature.encode(), "content": content}
    for name, data in files.items():
        (folder / name).write_bytes(data)
    home = {"GNUPGHOME": str(folder), "PATH": "/usr/bin:/bin"}
    ring = ["gpg", "--batch", "--yes", "--dearmor", "-o", "ring", "key.asc"]
    subprocess.run(ring, cwd=folder, env=home, check=True, capture_output=True)
    check = ["gpgv", "--keyring", "./ring", "signature", "content"]
    return subprocess.run(check, cwd=folder, env=home, check=False, capture_output=True).returncode == 0
