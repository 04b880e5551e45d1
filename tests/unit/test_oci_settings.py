"""File systems in a stack file of target oci: none by default, and what cannot be built is refused before anything exists."""

from __future__ import annotations

import pytest
from test_settings import refused, values

import settings
from catalogue.oci_storage import Lustre, Nfs

BOTH = {"home": True, "lustre": True}


def test_a_stack_that_says_nothing_has_no_file_system():
    wanted = settings.parse(values())
    assert (wanted.nfs, wanted.lustre_system) == (None, None)


def test_file_systems_are_asked_for_with_the_keys_of_the_other_cloud():
    wanted = settings.parse(
        values(**BOTH, homeMount="/fss", homeOnDestroy="retain", lustreThroughput=500, lustreCapacityGb=62_400)
    )
    assert wanted.nfs == Nfs(mount="/fss", target_gbit_s=1, on_destroy="retain")
    assert wanted.lustre_system == Lustre(capacity_gb=62_400, throughput=500, mount="/lustre", on_destroy="refuse")


@pytest.mark.parametrize("given", ["true", True])
def test_a_text_and_a_truth_mean_the_same_and_an_empty_text_is_the_targets_own(given):
    assert settings.parse(values(home=given)).nfs == Nfs(mount="/home")
    assert settings.parse(values(home="")).nfs is None


@pytest.mark.parametrize(
    ("changes", "sentence"),
    [
        ({"home": "perhaps"}, "home is 'perhaps': input should be a valid boolean"),
        ({"lustre": True, "lustreCapacityGb": 50_000}, "the Lustre file system has 50000 GB; it must be a multiple of 31200"),
        ({"lustre": True, "lustreCapacityGb": 0}, "the Lustre file system has 0 GB; it must be a multiple of 31200"),
        ({"lustre": True, "lustreThroughput": 300}, "has 300 MB/s for each TB; tiers are 125, 250, 500, 1000"),
        ({"home": True, "homeGbitS": 10}, "the mount target has 10 Gb/s; the vendor offers 1, 20, 40, 80"),
        ({"home": True, "homeOnDestroy": "keep"}, "onDestroy 'keep'; it must be one of refuse, retain, delete"),
        ({"lustre": True, "lustreOnDestroy": ""}, "onDestroy ''; it must be one of refuse, retain, delete"),
        ({"home": True, "homeMount": "fss"}, "mounted at fss; it must be an absolute path"),
        ({"home": True, "homeMount": "/"}, "mounted at /; it must be an absolute path"),
        ({"home": True, "homeMount": "/usr"}, "the system does not use itself"),
        ({"home": True, "homeMount": "/etc/shared"}, "the system does not use itself"),
        ({"home": True, "homeMount": "/fss/../etc"}, "the system does not use itself"),
        ({"home": True, "homeMount": "/my files"}, "an absolute path of plain letters"),
        ({"lustre": True, "lustreMount": "/fss;reboot"}, "an absolute path of plain letters"),
        ({**BOTH, "homeMount": "/data", "lustreMount": "/data"}, "mounted at /data and /data; neither may hide the other"),
        ({**BOTH, "homeMount": "/data", "lustreMount": "/data/l"}, "mounted at /data and /data/l; neither may hide the other"),
        ({"lustre": True, "lustreMount": "/mnt"}, "the nodes have /mnt/localdisk of their own"),
        ({"lustre": True, "lustreMount": "/mnt/localdisk"}, "the nodes have /mnt/localdisk of their own"),
        ({"lustre": True, "lustreMount": "/home"}, "mounted over /home/opc, which holds the keys"),
        ({"home": True, "homeMount": "/home/opc"}, "mounted over /home/opc, which holds the keys"),
        (
            {"lustre": True, "imageFamily": "ol7"},
            "imageFamily is ol7, for which no client can be built; use ol8, ol9, ubuntu2204",
        ),
        ({"home": True, "privateCidr": "10.0.1.0/29", "nodes": 3}, "has 5 addresses; 3 nodes and the servers of the file"),
        (
            {"lustre": True, "privateCidr": "10.0.1.0/28"},
            "has 13 addresses; 2 nodes and the servers of the file systems take 21",
        ),
    ],
)
def test_what_cannot_be_built_is_refused_in_one_sentence(changes, sentence):
    text = refused(**changes)
    assert sentence in text
    assert len(text.splitlines()) == 1


@pytest.mark.parametrize(
    "changes",
    [
        {"home": True, "homeMount": "/home"},
        {"home": True, "homeMount": "/home/shared"},
        {"home": True, "homeMount": "/opt/shared"},
        {"home": True, "homeMount": "/mnt/fss"},
        {**BOTH, "homeMount": "/data1", "lustreMount": "/data10"},
        {"home": True, "privateCidr": "10.0.1.0/29"},
        {"home": True, "imageFamily": "ol7"},
        {"homeMount": "nowhere", "lustreCapacityGb": 1, "lustreThroughput": 1, "homeGbitS": 3},
    ],
)
def test_what_hides_nothing_is_accepted_and_what_is_not_wanted_is_not_judged(changes):
    settings.parse(values(**changes))
