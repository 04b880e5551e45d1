"""What a rehearsed stack's tests read in the engine's screen."""

from __future__ import annotations

import pytest

from tools.stage import Finished

OUTPUTS = '\nOutputs:\n{}\n    target: "oci"\n\nResources:\n    38 unchanged\n'


@pytest.mark.parametrize(
    "text",
    [
        " +  command:remote:Command acceptance-build creating (1s)",
        " ~  oci:Core/instance:Instance cluster-login-instance updating",
        " +- aws:ec2/instance:Instance cluster-pool-gpu-p5-0 replacing",
        " -- aws:ec2:Instance cluster-pool-gpu-p5-0 deleting original",
        OUTPUTS.format("  ~ measured: {"),
        OUTPUTS.format("  + report: null"),
        OUTPUTS.format('  - readme     : "# verdict"'),
    ],
)
def test_a_changed_resource_and_a_changed_output_are_changes(text):
    assert len(Finished(0, text, 1.0).changes()) == 1


@pytest.mark.parametrize(
    "text",
    [
        "      - rails: measured a second time; the first time: the rails of GPU 0 reached 0.01213 GB/s",
        OUTPUTS.format("    measured: {"),
        "Resources:\n    96 unchanged\n",
    ],
)
def test_a_line_of_our_own_table_is_no_change(text):
    assert Finished(0, text, 1.0).changes() == []
