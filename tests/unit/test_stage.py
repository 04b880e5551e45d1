"""What tests of rehearsed stacks read: changes in the engine's output, a rehearsal's scale, and Slurm's answers."""

from __future__ import annotations

import json

import pytest
from rehearsed_slurm import until

from rehearsal.entry.existing_hosts import Site
from rehearsal.world.world import scale_for
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
def test_a_changed_resource_and_a_changed_output_count_as_changes(text):
    assert len(Finished(0, text, 1.0).changes()) == 1


@pytest.mark.parametrize(
    "text",
    [
        "      - rails: measured a second time; the first time: the rails of GPU 0 reached 0.01213 GB/s",
        OUTPUTS.format("    measured: {"),
        "Resources:\n    96 unchanged\n",
    ],
)
def test_lines_of_the_report_and_lines_about_unchanged_resources_and_outputs_do_not_count_as_changes(text):
    assert Finished(0, text, 1.0).changes() == []


def test_the_scale_grows_if_a_core_has_too_many_ranks(tmp_path):
    assert [scale_for(ranks, 2) for ranks in (0, 2, 32, 33, 64, 65, 1024)] == [4000, 4000, 4000, 8000, 8000, 12000, 128000]
    assert scale_for(64, 4) == 4000
    hosts = {f"gpu-{number}": f"203.0.113.{10 + number}" for number in range(64)}
    (tmp_path / "site.json").write_text(json.dumps({"shape": "BM.GPU4.8", "image": "ubuntu2204-gpu", "hosts": hosts}))
    assert Site.read(tmp_path / "site.json").scale == scale_for(64 * 8)


def test_waiting_for_slurm_repeats_a_command_that_fails_and_never_takes_its_output_for_an_answer(monkeypatch):
    class Login:
        """A login node on which the first command fails, as squeue does while slurmctld restarts."""

        calls = 0

        def on_host(self, _: str) -> str:
            self.calls += 1
            assert self.calls > 1, "slurm_load_jobs error: Unable to contact slurm controller"
            return "RUNNING\n" if self.calls == 2 else ""

    monkeypatch.setattr("time.sleep", lambda _: None)
    login = Login()
    assert until(login, "squeue -h -o %T", lambda said: not said.strip(), "the queue is empty") == ""  # type: ignore[arg-type]
    assert login.calls == 3
