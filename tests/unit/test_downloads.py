"""Before root uses a download, first boot checks the download's sha256 or key; the tests run the real sha256sum and gpg."""

from __future__ import annotations

import hashlib
import re
import subprocess
from pathlib import Path

import pytest

from catalogue.aws import MACHINE_IMAGES, STACK
from catalogue.containers import TOOLKIT, TOOLKIT_KEY
from cloudinit import aws_steps, downloads, enroot

pytestmark = pytest.mark.programs
GOLDEN = Path(__file__).parents[1] / "golden/cloudinit"
PLACE = "https://vendor.example/archive.tar.gz"
CONTENT = b"a program that root will run\n"
RIGHT, OTHER = hashlib.sha256(CONTENT).hexdigest(), "0" * 64


def run(folder, shell, served, fails=0):
    """Run a part of a step in dash; its curl fails as often as `fails` says and then downloads the bytes `served`."""
    (folder / "served").write_bytes(served)
    world = f"""set -eu
sleep() {{ echo "pause $1"; }}
curl() {{
  echo x >> {folder}/tries
  while [ "$1" != -o ]; do shift; done
  # A transfer that breaks leaves the part of the file that has arrived.
  [ "$(grep -c x {folder}/tries)" -gt {fails} ] || {{ printf part > "$2"; return 18; }}
  cp {folder}/served "$2"
}}
"""
    words = ["dash", "-c", f"{world}{downloads.FUNCTIONS}{shell}\necho used"]
    home = {"PATH": "/usr/bin:/bin", "HOME": str(folder), "GNUPGHOME": str(folder)}
    return subprocess.run(words, capture_output=True, text=True, check=False, timeout=60, cwd=folder, env=home)


@pytest.fixture(scope="module")
def keys(tmp_path_factory):
    """Public keys that gpg generates here, and their fingerprints: `vendor` has a subkey, `other` is somebody else's."""
    home = tmp_path_factory.mktemp("gnupg")
    home.chmod(0o700)

    def gpg(*words):
        done = subprocess.run(["gpg", "--homedir", home, "--batch", *words], capture_output=True, check=True, timeout=60)
        return done.stdout

    found = {}
    for name in ("vendor", "other"):
        gpg("--passphrase", "", "--quick-generate-key", f"{name} <{name}@invalid>", "ed25519", "sign", "never")
        listed = gpg("--with-colons", "--list-keys", f"{name}@invalid").decode()
        (print_,) = re.findall(r"^fpr:+([0-9A-F]{40}):", listed, re.MULTILINE)
        if name == "vendor":
            gpg("--passphrase", "", "--quick-add-key", print_, "cv25519", "encr", "never")
        found[name] = (print_, gpg("--armor", "--export", f"{name}@invalid"))
    subprocess.run(["gpgconf", "--homedir", home, "--kill", "all"], check=True, timeout=60)
    return found


@pytest.mark.parametrize("sums", [(RIGHT,), (OTHER, RIGHT)])
def test_a_file_with_one_of_the_given_checksums_is_used(tmp_path, sums):
    done = run(tmp_path, downloads.checked(PLACE, "archive", sums), CONTENT)
    assert (done.returncode, done.stdout) == (0, "used\n")


def test_a_file_with_an_unexpected_checksum_ends_the_step_with_a_message_that_has_both_checksums(tmp_path):
    done = run(tmp_path, downloads.checked(PLACE, "archive", (OTHER,)), CONTENT)
    assert (done.returncode, done.stdout) == (1, f"busbar: sha256 {RIGHT} is not {OTHER} (from {PLACE})\n")


def test_a_file_without_a_given_checksum_is_used_and_its_checksum_is_printed(tmp_path):
    done = run(tmp_path, downloads.checked(PLACE, "archive", ()), CONTENT)
    assert (done.returncode, done.stdout) == (0, f"busbar: sha256 {RIGHT} is unchecked: no sha256 is given for {PLACE}\nused\n")


@pytest.mark.parametrize(("fails", "status"), [(4, 0), (5, 1)])
def test_a_download_is_tried_five_times_and_a_partly_transferred_file_is_not_used(tmp_path, fails, status):
    for sums in ((RIGHT,), ()):
        (tmp_path / "tries").unlink(missing_ok=True)
        done = run(tmp_path, downloads.checked(PLACE, "archive", sums), CONTENT, fails)
        assert done.returncode == status, done
        assert done.stdout.count("pause") == fails
        assert ("sha256" in done.stdout) == (status == 0 and not sums), done


def test_the_vendors_key_is_recognised_by_its_primary_fingerprint(tmp_path, keys):
    print_, text = keys["vendor"]
    done = run(tmp_path, downloads.signing_key(PLACE, "key", print_), text)
    assert (done.returncode, done.stdout) == (0, "used\n")


def test_a_key_with_an_unexpected_fingerprint_ends_the_step_with_a_message_that_shows_both_fingerprints(tmp_path, keys):
    (print_, _), (other, text) = keys["vendor"], keys["other"]
    done = run(tmp_path, downloads.signing_key(PLACE, "key", print_), text)
    assert (done.returncode, done.stdout) == (1, f"busbar: fingerprint {other} is not {print_} (from {PLACE})\n")


@pytest.mark.parametrize("asked", ["vendor", ""])
@pytest.mark.parametrize("second", ["other", "nothing"])
def test_a_file_with_two_keys_or_no_key_is_refused_even_if_one_key_is_the_vendors(tmp_path, keys, asked, second):
    served = keys["vendor"][1] + keys["other"][1] if second == "other" else b"<html>404</html>"
    done = run(tmp_path, downloads.signing_key(PLACE, "key", keys["vendor"][0] if asked else ""), served)
    assert (done.returncode, done.stdout) == (1, f"busbar: {PLACE} does not contain exactly one key\n")


def test_a_key_without_a_given_fingerprint_is_used_and_its_fingerprint_is_printed(tmp_path, keys):
    print_, text = keys["vendor"]
    done = run(tmp_path, downloads.signing_key(PLACE, "key", ""), text)
    assert (done.returncode, done.stdout) == (
        0,
        f"busbar: fingerprint {print_} is unchecked: no fingerprint is given for {PLACE}\nused\n",
    )


def test_every_step_compares_its_download_with_the_checksum_or_fingerprint_that_the_step_is_given():
    key = "A" * 40
    for shell, known in (
        (aws_steps.efa_software(STACK, in_use=True).shell, STACK.efa_sha256),
        (aws_steps.lustre_client(MACHINE_IMAGES["ubuntu2204"], key).shell, key),
        (aws_steps.lustre_over_efa("e" * 64).shell, "e" * 64),
        (enroot.enroot("dnf", "4.1.2", "/scratch", ("b" * 64,)).shell, "b" * 64),
        (enroot.gpus("dnf", TOOLKIT, TOOLKIT_KEY).shell, TOOLKIT_KEY),
        (enroot.gpus("apt", TOOLKIT, TOOLKIT_KEY).shell, TOOLKIT_KEY),
    ):
        assert re.search(rf"^ *(checked_file|signing_key) .* {known}$", shell, re.MULTILINE)


def test_every_download_of_a_first_boot_passes_the_functions_that_compare_checksums_and_keys():
    named = 0
    for path in sorted(GOLDEN.iterdir()):
        text = path.read_text()
        named += len(re.findall(r"^ +(?:checked_file|signing_key) \S", text, re.MULTILINE))
        others = [line.strip() for line in text.splitlines() if re.search(r"\bcurl -|\bwget\b|\bapt-key\b|rpm --import", line)]
        others += [line.strip() for line in text.splitlines() if re.search(r"\b(dnf|yum|apt-get) [^#]*https?://", line)]
        # Two uses of curl are allowed: `! curl` in the function `download`, and the download of nerdctl's archive, which is
        # compared with SHA256SUMS. SHA256SUMS itself is checked before this comparison.
        archive = "curl -fsSL --retry 5 -o nerdctl-full-2.2.0-linux-amd64.tar.gz"
        assert all(one.startswith(("! curl -fsSL --connect-timeout", archive)) for one in others), path.name
        assert ("grep ' nerdctl-full-2.2.0-linux-amd64.tar.gz$' SHA256SUMS | sha256sum --check" in text) == (archive in text)
    assert named > 10
