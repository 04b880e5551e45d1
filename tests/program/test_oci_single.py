"""One GPU instance on OCI without a cluster network: its resources, the changes that terminate it, and its measurement."""

from __future__ import annotations

import base64
import hashlib
import json
from typing import Any

import pulumi
import pytest
import yaml
from conftest import ROOT, options, ready_line
from dev_stack import LINES
from oci_account import ELSEWHERE, account, asking

from benchmarks.plan.gate import gate
from catalogue.containers import NERDCTL, NERDCTL_SUMS
from components.oci import pool as pools
from config.measure import Measure
from config.oci.model import Oci, Pool, Storage
from rehearsal.image import internet

SINGLE = {"name": "gpu", "nodes": 1, "clusterNetwork": False, "root": {"size": "200 GB"}}
#: An image for tests of containers. The other tests use Oracle Linux 7, where first boot installs no container tools.
CONTAINED = {"image": "ol9-nv580", "imageFamily": "ol9"}


@pytest.fixture
def single(monkeypatch):
    """Return a function that runs the program with the pool SINGLE and returns the engine and the refusal."""
    asked = asking(monkeypatch, LINES | {"acceptance-ready-contact": ready_line(1)})

    def run(answers: dict[str, Any] | None = None, **changes: Any):
        return asked(account(**answers or {}), **{"pools": [SINGLE]} | changes)

    return run


def instance(engine) -> dict[str, Any]:
    (one,) = [given for kind, name, given in engine.resources if name == "cluster-pool-gpu-node"]
    return dict(one)


def test_one_instance_is_created_without_cluster_network_and_instance_configuration(single):
    engine, refused = single()
    assert refused == ""
    kinds = {kind.rpartition(":")[2] for kind, _, _ in engine.resources}
    assert not kinds & {"ClusterNetwork", "InstanceConfiguration", "ComputeCluster", "Pool"}
    given = instance(engine)
    assert (given["shape"], given["displayName"]) == ("BM.GPU4.8", "busbar-gpu")
    assert given["sourceDetails"]["bootVolumeSizeInGbs"] == "200"
    assert given["createVnicDetails"]["assignPublicIp"] == "false"
    assert given["instanceOptions"] == {"areLegacyImdsEndpointsDisabled": True}


def test_on_a_single_instance_no_rail_is_configured_and_only_the_subnet_is_trusted(single):
    given = instance(single()[0])
    flags = ("areAllPluginsDisabled", "isManagementDisabled", "isMonitoringDisabled")
    assert {given["agentConfig"][flag] for flag in flags} == {False}
    states = {plugin["name"]: plugin["desiredState"] for plugin in given["agentConfig"]["pluginsConfigs"]}
    assert states["Compute HPC RDMA Auto-Configuration"] == states["Compute HPC RDMA Authentication"] == "DISABLED"
    boot = base64.b64decode(given["metadata"]["user_data"]).decode()
    assert "--add-source=10.0.1.0/24" in boot
    assert "--add-source=192.168" not in boot
    assert "ifcfg-" not in boot
    assert "peermem" not in boot


def test_the_first_boot_of_a_single_instance_sets_up_time_zone_and_local_scratch_and_root_volume(single):
    boot = base64.b64decode(instance(single(timezone="Asia/Tokyo")[0])["metadata"]["user_data"]).decode()
    for line in ("timezone: Asia/Tokyo", "vgcreate nvme", "mkfs.xfs -L localscratch", "mount /mnt/localdisk", "oci-growfs -y"):
        assert line in boot, line


@pytest.mark.parametrize(
    ("shape", "published"),
    [("BM.GPU4.8", 233.0), ("BM.GPU.A100-v2.8", 231.58), ("BM.GPU.H100.8", 480), ("BM.GPU.H200.8", 482.3)],
)
def test_published_healthy_numbers_exceed_the_nvlink_limit_by_which_a_single_instance_is_judged(shape, published):
    """233.0 is from ocitutorials (benchmark/run-nccltests, a container on one BM.GPU4.8).

    231.58 is from catalogue/published.py (Azure), and the other numbers are from catalogue/gpus.py.
    """
    pool = Pool(name="gpu", nodes=1, shape=shape, cluster_network=False)
    wanted = pools.planned(Oci.model_construct(pools=(pool,), storage=Storage(), slurm=None, container=None), pool)
    assert wanted.shape is not None
    found = gate(Measure(), wanted.shape, 1)
    assert found.limit_gb_s is not None
    assert "NVLink's" in found.why
    assert 0.5 * published < found.limit_gb_s < published
    assert not wanted.authenticated, "no switch authenticates the rails of a single instance"


TENSORFLOW = {"image": "docker://nvcr.io#nvidia/tensorflow:25.02-tf2-py3"}


def test_with_a_container_the_build_gets_the_containers_image_and_the_node_installs_containerd(single):
    engine, refused = single(pools=[SINGLE | CONTAINED], container=TENSORFLOW)
    assert refused == ""
    (build,) = [given for _, name, given in engine.resources if name == "acceptance-build"]
    asked_for = json.loads(build["stdin"])["container"]
    assert (asked_for["uri"], asked_for["runtime"]) == ("nvcr.io/nvidia/tensorflow:25.02-tf2-py3", "containerd")
    boot = base64.b64decode(instance(engine)["metadata"]["user_data"]).decode()
    assert f"nerdctl-full-{NERDCTL}-linux-amd64.tar.gz" in boot
    assert NERDCTL_SUMS in boot
    plain = base64.b64decode(instance(single(pools=[SINGLE | CONTAINED])[0])["metadata"]["user_data"]).decode()
    assert "containerd" not in plain


def test_removing_the_container_replaces_a_running_instance_but_another_container_image_does_not(single):
    contained = {"pools": [SINGLE | CONTAINED], "container": TENSORFLOW}
    given = instance(single(**contained)[0])
    assert "oci.pools[0] needs new machines" in single(there(given), pools=[SINGLE | CONTAINED])[1]
    assert single(there(given), **contained | {"container": {"image": "docker://nvcr.io#nvidia/pytorch:25.06-py3"}})[1] == ""


def test_the_rehearsed_stack_pins_the_archive_that_the_rehearsal_serves():
    """A stack file for a real account sets no checksum; then the release's checksum applies."""
    stack = yaml.safe_load((ROOT / "Pulumi.oci-single.yaml").read_text())["config"]["busbar:oci"]
    served = internet.served(f"https://github.com/containerd/nerdctl/releases/download/v{NERDCTL}/SHA256SUMS")
    assert served is not None
    assert stack["container"]["containerd"]["sums"] == hashlib.sha256(served).hexdigest()


def there(given: dict[str, Any], **changes: Any) -> dict[str, Any]:
    """Return the account's answer while the instance with the inputs `given` runs."""
    listed = {"displayName": given["displayName"], "state": "RUNNING", "freeformTags": given["freeformTags"]} | changes
    return {"getInstances": {"instances": [listed]}, "getResourceAvailability": {"available": "0"}}


def test_a_running_instance_survives_a_change_of_the_time_zone_and_needs_no_free_capacity(single, monkeypatch):
    registered = options(monkeypatch)

    def ignored() -> list[str] | None:
        return registered.pop("cluster-pool-gpu-node").ignore_changes

    given = instance(single()[0])
    assert ignored() is None
    engine, refused = single(there(given), timezone="Asia/Tokyo")
    assert refused == ""
    assert instance(engine)["freeformTags"] == given["freeformTags"], "other tags would replace the instance"
    assert ignored() == ["metadata", "sourceDetails"]
    single(there(given), pools=[SINGLE | {"root": {"size": "300 GB"}}], allowReplace=1)
    assert ignored() is None, "an instance that is replaced gets the new first boot"
    elsewhere = there(given, availabilityDomain=ELSEWHERE) | {"getResourceAvailability": {"available": "64"}}
    assert single(elsewhere, allowReplace=1)[1] == ""
    assert ignored() is None, "an instance in another availability domain is replaced, too"


@pytest.mark.parametrize(
    ("changes", "path"),
    [
        ({"pools": [SINGLE | {"root": {"size": "300 GB"}}]}, "oci.pools[0] needs new machines"),
        ({"pools": [SINGLE | {"nodes": 0}]}, "oci.pools[0] asks for fewer nodes than run now"),
        ({"pools": [SINGLE | {"name": "other", "nodes": 0}]}, "oci.pools has no pool for busbar-gpu any more"),
        ({"pools": [SINGLE | {"clusterNetwork": True, "nodes": 2}]}, "oci.pools[0] needs new machines"),
    ],
    ids=["another boot volume", "no node", "another pool", "a cluster network"],
)
def test_a_change_that_terminates_the_instance_is_refused_until_the_stack_file_allows_it(single, changes, path):
    answers = there(instance(single()[0])) | {"getResourceAvailability": {"available": "64"}}
    _, refused = single(answers, **changes)
    assert path in refused
    assert "set oci.allowReplace to 1" in refused
    assert single(answers, **changes, allowReplace=1)[1] == ""


@pytest.mark.parametrize("gone", [{"state": "TERMINATED"}, {"freeformTags": {}}])
def test_a_terminated_instance_and_an_instance_of_another_stack_are_ignored(single, gone):
    _, refused = single(there(instance(single()[0]), **gone))
    assert "1 more nodes need 8 GPUs" in refused


def test_no_timeout_of_a_single_instance_is_shorter_than_the_providers_own(single, monkeypatch):
    given: dict[str, Any] = {}
    register = pulumi.runtime.mocks.MockMonitor.RegisterResource

    def note(self: Any, request: Any) -> Any:
        given[request.name] = request.customTimeouts
        return register(self, request)

    monkeypatch.setattr(pulumi.runtime.mocks.MockMonitor, "RegisterResource", note)
    single()
    its = given["cluster-pool-gpu-node"]
    assert (its.create, its.update, its.delete) == ("45m", "45m", "75m")
