"""Set-up reports its steps and does nothing twice; with `--offline`, it names what is missing."""

from __future__ import annotations

import fcntl
import os
import re
import shutil
import subprocess
import tomllib
from pathlib import Path

import pytest

from tools.plain_environment import plain

ROOT = Path(__file__).parents[2]
PLAIN = "/usr/bin:/bin:/usr/sbin:/sbin"


@pytest.fixture
def checkout(tmp_path):
    """A new checkout: the set-up's own files and nothing installed."""
    copy = tmp_path / "new"
    copy.mkdir()
    shutil.copytree(ROOT / "tools", copy / "tools", ignore=shutil.ignore_patterns("__pycache__"))
    shutil.copytree(ROOT / "rehearsal" / "engine", copy / "rehearsal" / "engine", ignore=shutil.ignore_patterns("__pycache__"))
    shutil.copy(ROOT / "requirements.txt", copy)
    return copy


def run(checkout: Path, *words: str, **environment: str) -> subprocess.CompletedProcess[str]:
    clean = {"HOME": str(checkout / "home"), "PATH": PLAIN} | environment
    return subprocess.run(
        [str(checkout / "tools" / "setup"), *words], env=clean, capture_output=True, text=True, timeout=60, check=False
    )


def test_offline_the_missing_engine_is_named_and_the_sentence_says_where_to_put_the_engine(checkout):
    found = run(checkout, "--offline", "engine")
    assert found.returncode == 1
    assert "offline, so the engine cannot be fetched: put pulumi 3.259.0 or later on PATH, or into" in found.stderr


def test_with_the_option_offline_the_error_names_the_file_of_the_missing_python_packages(checkout):
    found = run(checkout, "--offline", "python")
    assert found.returncode == 1
    assert "offline, so the packages of tools/requirements/rehearsal.txt cannot be fetched" in found.stderr


def test_an_engine_on_path_is_used_if_it_is_new_enough(checkout):
    bin_ = checkout / "bin"
    bin_.mkdir()
    pulumi = bin_ / "pulumi"
    for version, status in (("v3.259.0", 0), ("v3.300.1", 0), ("v4.0.0", 0), ("v3.99.0", 1)):
        pulumi.write_text(f"#!/bin/sh\necho {version}\n")
        pulumi.chmod(0o755)
        found = run(checkout, "--offline", "engine", PATH=f"{bin_}:{PLAIN}")
        assert found.returncode == status, (version, found)


def test_an_engine_that_setup_installed_is_not_asked_for_its_version_even_if_it_is_in_another_cache(checkout):
    """To ask an engine for its version takes a fifth of a second.

    Every command of a rehearsed test reads tools/env, and every test has its own cache.
    """
    for folder, asked in (("a/busbar/pulumi-3.259.0", False), ("a/busbar/pulumi-3.99.0", True), ("a", True)):
        pulumi = checkout / folder / "pulumi"
        pulumi.parent.mkdir(parents=True, exist_ok=True)
        pulumi.write_text("#!/bin/sh\ntouch asked\necho v3.259.0\n")
        pulumi.chmod(0o755)
        clean = {"HOME": str(checkout / "home"), "XDG_CACHE_HOME": str(checkout / "b"), "PATH": f"{pulumi.parent}:{PLAIN}"}
        subprocess.run(["bash", "-c", ". tools/env"], cwd=checkout, env=clean, check=True)
        assert (checkout / "asked").exists() is asked, folder
        (checkout / "asked").unlink(missing_ok=True)
        pulumi.unlink()


def test_wherever_genuine_plugins_are_installed_they_are_used_instead_of_the_stand_ins(checkout):
    def path_of(plugin: str, **environment: str) -> str:
        clean = {"HOME": str(checkout / "home"), "PATH": PLAIN} | environment
        command = f". tools/env && command -v {plugin} || true"
        found = subprocess.run(["bash", "-c", command], cwd=checkout, env=clean, capture_output=True, text=True, check=True)
        return found.stdout.strip()

    for plugin in ("pulumi-language-python", "pulumi-resource-command"):
        assert path_of(plugin) == f"{checkout}/.busbar/bin/{plugin}"
        genuine = checkout / "genuine"
        genuine.mkdir(exist_ok=True)
        (genuine / plugin).write_text("#!/bin/sh\n")
        (genuine / plugin).chmod(0o755)
        assert path_of(plugin, PATH=f"{genuine}:{PLAIN}") == f"{genuine}/{plugin}"
        (genuine / plugin).unlink()
    installed = checkout / "home" / ".pulumi" / "plugins" / "resource-command-v1.2.1" / "pulumi-resource-command"
    installed.parent.mkdir(parents=True)
    installed.touch()
    assert path_of("pulumi-resource-command") == ""  # the engine finds the plugin by itself


def test_a_second_setup_does_nothing():
    found = subprocess.run(
        [str(ROOT / "tools" / "setup"), "python"],
        env=plain(os.environ),
        capture_output=True,
        text=True,
        timeout=30,
        check=False,
    )
    assert found.returncode == 0
    assert "Python packages are as locked" in found.stderr


def test_a_setup_that_lacks_something_waits_for_another_setup_and_checks_again(checkout, tmp_path):
    cache = tmp_path / "cache"
    (cache / "busbar").mkdir(parents=True)
    words = [str(checkout / "tools" / "setup"), "engine"]
    clean = {"HOME": str(checkout / "home"), "PATH": f"{tmp_path}:{PLAIN}", "XDG_CACHE_HOME": str(cache)}
    with (cache / "busbar" / "setup.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        with subprocess.Popen(words, env=clean, stderr=subprocess.PIPE, text=True) as waiting:
            assert waiting.stderr is not None
            assert waiting.stderr.readline().startswith("setup: another set-up runs on this machine")
            (tmp_path / "pulumi").write_text("#!/bin/sh\necho v3.259.0\n")  # the other set-up installs pulumi
            (tmp_path / "pulumi").chmod(0o755)
            fcntl.flock(lock, fcntl.LOCK_UN)
            said = waiting.stderr.read()
    assert (waiting.returncode, said) == (0, f"setup: engine: {tmp_path}/pulumi (v3.259.0)\n")


def test_a_setup_that_lacks_nothing_does_not_wait_for_another_setup(tmp_path):
    (tmp_path / "busbar").mkdir()
    with (tmp_path / "busbar" / "setup.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        found = subprocess.run(
            [str(ROOT / "tools" / "setup"), "python"], env=plain(os.environ) | {"XDG_CACHE_HOME": str(tmp_path)},
            capture_output=True, text=True, timeout=30, check=False,
        )  # fmt: skip
    assert "Python packages are as locked" in found.stderr
    assert "waiting" not in found.stderr


def test_lock_files_have_versions_and_hashes_and_no_package_index():
    for path in (ROOT / "requirements.txt", *(ROOT / "tools" / "requirements").glob("*.txt")):
        text = path.read_text()
        assert "://" not in text
        assert not re.search(r"^-", text, flags=re.MULTILINE)
        for line in text.splitlines():
            assert re.match(r"[A-Za-z0-9._-]+==\S+ \\|    --hash=sha256:[0-9a-f]{64}", line), (path, line)


def test_packing_the_archive_of_the_rehearsal_twice_gives_the_same_bytes(tmp_path):
    targets = [tmp_path / "first.tar", tmp_path / "second.tar"]
    for target in targets:
        subprocess.run(["python3", str(ROOT / "tools" / "nccl_tests_archive.py"), str(target)], check=True)
    assert targets[0].read_bytes() == targets[1].read_bytes()


def test_a_reader_of_the_old_archive_gets_the_complete_old_archive_although_a_new_archive_replaces_the_file(tmp_path):
    target = tmp_path / "nccl-tests.tar"
    target.write_bytes(b"old")
    with target.open("rb") as reader:
        subprocess.run(["python3", str(ROOT / "tools" / "nccl_tests_archive.py"), str(target)], check=True)
        assert reader.read() == b"old"
    assert target.read_bytes() != b"old"
    assert list(tmp_path.iterdir()) == [target]


@pytest.mark.xdist_group("kept-together")
def test_tests_of_one_group_are_kept_together_by_the_installed_pytest(request):
    spread_over_workers = hasattr(request.config, "workerinput")
    assert request.node.nodeid.endswith("@kept-together") == spread_over_workers


def test_mypy_follows_every_imported_package_of_the_clouds_sdks():
    overrides = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["mypy"]["overrides"]
    (followed,) = [one["module"] for one in overrides if one.get("follow_imports") == "normal"]
    sources = [path for room in ("components", "rehearsal") for path in (ROOT / room).rglob("*.py")]
    found = re.findall(r"^from (pulumi_aws|pulumi_oci) import (.+)$", "\n".join(map(Path.read_text, sources)), re.MULTILINE)
    packages = {f"{sdk}.{name}" for sdk, names in found for name in names.split(", ")}
    assert len(packages) > 10
    assert packages <= {name.removesuffix(".*") for name in followed}


def test_every_test_file_is_in_a_folder_that_says_what_its_tests_need():
    """The tests in `unit` call functions, and the tests in `program` run the program on a recording engine.

    The tests in `rehearsed` run whole stacks, and the tests in `rehearsal` test the rehearsal itself.
    """
    assert list((ROOT / "tests").glob("test_*.py")) == []
    assert {path.parent.name for path in (ROOT / "tests").rglob("test_*.py")} == {"unit", "program", "rehearsed", "rehearsal"}
