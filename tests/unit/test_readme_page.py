"""README's first commands, and the files and make targets in README; tests/rehearsed/test_readme.py runs the commands."""

from __future__ import annotations

import re

from readme_commands import ROOT, typed


def test_the_first_two_commands_in_readme_are_make_up_and_make_down():
    assert typed()[:2] == ["make up", "make down"]


def test_every_make_target_that_readme_names_exists():
    targets = set(re.findall(r"^([a-z]+):", (ROOT / "Makefile").read_text(), flags=re.MULTILINE))
    named = set(re.findall(r"`make ([a-z]+)", (ROOT / "README.md").read_text())) | {line.split()[1] for line in typed()}
    assert named <= targets


def test_every_file_that_readme_links_to_exists():
    for target in re.findall(r"\]\(([^)#:]+)\)", (ROOT / "README.md").read_text()):
        assert (ROOT / target).exists(), target
