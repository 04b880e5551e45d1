"""The documentation names only tests that exist, and its lists and numbers agree with the code and the measurements."""

from __future__ import annotations

import json
import re
from pathlib import PurePath

import pytest
from conftest import ROOT

from rehearsal.aws import host_images as aws_images
from rehearsal.image import internet, packages
from rehearsal.oci import host_images as oci_images

NAMED = sorted(
    {
        (page.name, name)
        for page in (ROOT / "docs").glob("*.md")
        for name in re.findall(r"`(test_\w+|tests/[\w/.]+)`", page.read_text())
    }
)
SOURCES = "\n".join(path.read_text() for path in (ROOT / "tests").rglob("test_*.py"))


@pytest.mark.parametrize(("page", "name"), NAMED)
def test_every_test_and_test_file_that_a_page_names_exists(page, name):
    assert (ROOT / name).exists() or f"def {name}(" in SOURCES, page


def test_the_readme_of_the_rehearsed_image_lists_every_stand_in():
    images = [oci_images.image(f"{name}{kind}") for name in oci_images.NAMES for kind in ("", "-gpu")]
    images += [oci_images.image("ol9-driver")]
    images += [aws_images.image(f"{name}-aws") for name in aws_images.NAMES]
    oracle = (packages.oracle("9"), packages.at_oracle("https://yum/developer/EPEL/", "9"))
    tables = (*oracle, packages.ubuntu("24.04"), packages.AMAZON, packages.LUSTRE_FOR_UBUNTU, packages.FILES, packages.TOOLKIT)
    files = [file for table in tables for one in table.values() for file in one.get("files", ())]
    programs = [PurePath(path) for kind, path, _ in files if kind == "program"]
    there = {path.name for path in programs if path.parent.name in {"bin", "sbin"}} | {"mpirun"}
    there |= {path.rpartition("/")[2] for path in internet.NERDCTL if path.startswith("bin/")}
    for image in images:
        copied = [path for path, source in image.own_copies.items() if source.startswith(("bin/", "system/"))]
        assert not set(image.commands) & set(image.real)
        there |= {*image.commands, *(path.rpartition("/")[2] for path in copied)}
    page = (ROOT / "rehearsal/image/README.md").read_text()
    listed = page.partition("| stand-in | why |\n| --- | --- |\n")[2].partition("\n\n")[0]
    named = [name for row in listed.splitlines() for name in re.findall(r"`([\w.-]+)`", row.split("|")[1])]
    assert sorted(named) == sorted(there)
    assert f"These {len(named)} commands are all" in page
    assert len(named) <= 20, "at most 20 commands may be stand-ins"
    kept = {path.name for path in (ROOT / "rehearsal/image/bin").iterdir()}
    assert kept - there == {"storage"}, "the program `storage` runs under the names of four stand-ins"


def test_the_glossary_defines_at_most_25_words():
    rows = (ROOT / "CONTRIBUTING.md").read_text().partition("## Glossary")[2].partition("\n## ")[0]
    assert 0 < len(re.findall(r"^\| (?!word |---)", rows, re.MULTILINE)) <= 25


PAGES = sorted((ROOT / "docs" / "measurements").glob("*/report.html"))


@pytest.mark.parametrize("page", PAGES, ids=[page.parent.name for page in PAGES])
def test_the_busbw_in_a_report_agrees_with_the_table_row_and_the_json_of_the_same_measurement(page):
    (shown,) = re.findall(r"([\d.]+) GB/s of bus bandwidth", page.read_text())
    (row,) = [one for one in (page.parents[1] / "README.md").read_text().splitlines() if f"]({page.parent.name})" in one]
    assert f"| {shown} GB/s" in row
    measured = json.loads((page.parent / "measurement.json").read_text())
    assert f"{measured['outputs']['busbw_gb_s']:.4g}" == shown
    decimals = len(shown.partition(".")[2])
    assert all(f"{one:.{decimals}f}" in row for one in measured["product_gb_s"])
