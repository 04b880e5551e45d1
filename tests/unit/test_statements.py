"""Checks tools/statements.json, the list of the statements in README and docs: commands to type, and blocks of a stack file.

For each statement, the list names the test that covers it, or says why no test does.
"""

from __future__ import annotations

import ast
import textwrap

import pytest
import yaml
from conftest import ROOT, groups, texts

from config import read
from tools import statements
from tools.stack_changes import merged

LISTS = statements.Lists.read()
FOUND = statements.found()
BLOCKS = [(page, text) for text, pages in FOUND.items() if "\n" in text for page in pages]


def test_the_lists_contain_every_statement_from_the_pages_once_and_nothing_else():
    listed = [*LISTS.run, *LISTS.recorded, *LISTS.not_run]
    assert len(listed) == len(set(listed))
    assert set(FOUND) == set(listed), "tools/statements.json must name each command's test, or say why it has none"


@pytest.mark.parametrize("node", sorted({*LISTS.run.values(), *LISTS.recorded.values()}))
def test_every_test_that_is_listed_for_a_statement_exists(node):
    file, _, name = node.partition("::")
    tree = ast.parse((ROOT / file).read_text())
    assert name in {one.name for one in ast.walk(tree) if isinstance(one, ast.FunctionDef)}


def test_statements_that_no_test_runs_are_counted_and_each_has_a_reason(capsys):
    statements.main()
    count, *shown = capsys.readouterr().out.splitlines()
    assert count.startswith(f"{len(FOUND)} statements: {len(LISTS.run)} run by a test, ")
    assert len(shown) == len(LISTS.not_run)
    assert all(len(why.split()) > 1 for why in LISTS.not_run.values())


@pytest.mark.parametrize(("page", "text"), BLOCKS, ids=[page for page, _ in BLOCKS])
def test_every_stack_file_block_in_the_docs_is_a_valid_configuration(page, text):
    """A block has groups of the stack file, such as busbar:aws, or keys of one group; the page then has this group's name."""
    block = yaml.safe_load(textwrap.dedent(text))
    target = page.removeprefix("docs/").partition(".")[0]
    named = {key.partition(":")[2]: value for key, value in block.items() if key.startswith("busbar:")}
    stack = {"aws": "aws-efa", "slurm": "oci-on-demand"}.get(target, "oci")
    own = {"compartment": "ocid1.compartment.oc1..aaaa", "access": {"sshFrom": ["203.0.113.7/32"]}} if stack == "oci" else {}
    given = merged(groups(stack, **{stack.partition("-")[0]: own}), named or {target: block})
    parsed = read.parse(texts(given))
    assert parsed.target == stack.partition("-")[0]


def test_commands_are_found_in_blocks_and_in_text_but_output_does_not_count_as_a_command():
    page = "Type `make up` or\n`pulumi stack export \\| x\ny`, see `make`.\n```\npulumi up\nverdict PASS: 1\n```\n"
    assert list(statements.statements(page)) == ["make up", "pulumi stack export | x y", "pulumi up"]
    with pytest.raises(ValueError, match="a block of rust"):
        list(statements.statements("```rust\nx\n```\n"))
