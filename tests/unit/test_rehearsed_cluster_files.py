"""The files of a rehearsed Kubernetes cluster: images that containerd can read, and devices as Intel's driver shows them."""

from __future__ import annotations

import dataclasses
import hashlib
import io
import json
import re
import tarfile

import pytest
import yaml
from conftest import ROOT

from catalogue.secondary_networks import RELEASES
from rehearsal.entry.existing_hosts import Site
from rehearsal.host import rdma_devices
from rehearsal.kubernetes import archive, texts


def test_an_image_is_an_oci_layout_with_correct_digests(tmp_path):
    archive.write(tmp_path / "a.tar", "registry.example/a:1", archive.root(), ["/usr/bin/env"])
    with tarfile.open(tmp_path / "a.tar") as held:
        files = {one.name: held.extractfile(one).read() for one in held.getmembers()}  # type: ignore[union-attr]

    def blob(row: dict[str, str]) -> bytes:
        data = files["blobs/sha256/" + row["digest"].removeprefix("sha256:")]
        assert hashlib.sha256(data).hexdigest() == row["digest"].removeprefix("sha256:")
        assert len(data) == row["size"]
        return data

    (row,) = json.loads(files["index.json"])["manifests"]
    assert row["annotations"]["io.containerd.image.name"] == "registry.example/a:1"
    manifest = json.loads(blob(row))
    (layer,) = manifest["layers"]
    config = json.loads(blob(manifest["config"]))
    assert config["rootfs"]["diff_ids"] == ["sha256:" + hashlib.sha256(blob(layer)).hexdigest()]
    with tarfile.open(fileobj=io.BytesIO(blob(layer))) as inside:
        assert {one.name for one in inside if one.issym()} == {"bin", "sbin", "lib", "lib64"}


def test_a_rehearsed_irdma_device_has_exactly_the_counters_of_its_driver():
    recorded = (ROOT / "tests" / "golden" / "rdma" / "irdma0.txt").read_text()
    folders = rdma_devices.folders([rdma_devices.Port("irdma0", "ens192", 25, driver="irdma")])
    counters = {path.rpartition("/")[2] for path in folders if "/hw_counters/" in path}
    assert counters == set(re.findall(r"/hw_counters/(\w+)\t", recorded))
    assert not [path for path in folders if "/counters/" in path]


def test_the_stack_file_and_the_site_file_describe_the_same_cluster():
    site = Site.read(ROOT / "rehearsal" / "entry" / "sites" / "kubernetes.json")
    group = yaml.safe_load((ROOT / "Pulumi.kubernetes.yaml").read_text())["config"]["busbar:kubernetes"]
    assert group["nodes"] == list(site.hosts)
    assert group["controlPlane"].endswith(f"@{site.jump}")
    assert group["image"] == texts.IMAGE
    assert group["gpus"] == site.shape.gpus
    assert [rail["device"] for rail in group["rails"]] == [port.hca for port in site.shape.ports]


def test_a_site_with_an_unknown_shape_is_refused_with_the_shapes_of_the_catalogue(tmp_path):
    (tmp_path / "site.json").write_text('{"shape": "NoSuch", "image": "ubuntu2204", "hosts": []}')
    with pytest.raises(ValueError, match=r"site\.json: shape is 'NoSuch'; the catalogue has .*BM\.GPU4\.8"):
        Site.read(tmp_path / "site.json")


def test_rehearsed_images_match_the_releases_and_the_two_site_files_differ_only_in_secondary_networks():
    sites = ROOT / "rehearsal" / "entry" / "sites"
    whole, bare = (Site.read(sites / name) for name in ("kubernetes.json", "kubernetes-default-network.json"))
    assert bare == dataclasses.replace(whole, secondary_networks=False)
    assert {name: release.image for name, release in RELEASES.items()} == {
        "multus": texts.MULTUS,
        "whereabouts": texts.WHEREABOUTS_IMAGE,
    }


def test_a_layer_has_executable_files_and_links_at_the_given_paths():
    with tarfile.open(fileobj=io.BytesIO(archive.files({"bin/busybox": b"x"}, {"bin/sh": "busybox"}))) as layer:
        held = {one.name: (one.mode, one.linkname) for one in layer.getmembers()}
    assert held == {"bin/busybox": (0o755, ""), "bin/sh": (0o644, "busybox")}


def test_pods_of_different_nodes_have_different_addresses_of_one_network():
    ranges = [json.loads(texts.multus(number))["delegates"][0]["plugins"][0]["ipam"]["ranges"][0][0] for number in (1, 2)]
    assert ranges[0]["subnet"] == ranges[1]["subnet"]
    assert ranges[0]["rangeStart"] != ranges[1]["rangeStart"]
