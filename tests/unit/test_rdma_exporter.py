"""The exporter shows every counter that the kernel shows, and no other counter, in a text that Prometheus can parse."""

from __future__ import annotations

import http.client
import json
import os
import re
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest
import rdma_trees
from hypothesis import given
from hypothesis import strategies as st

from components import remote_scripts
from components.remote_scripts import exporter_on_node, rdma_exporter
from components.remote_scripts.rdma_exporter import PREFIX, Server, collect

DEVICES = ("mlx5_0", "irdma0", "rdmap0s6")
#: prometheus.io: Exposition formats, text format. A label's value has no unescaped quote, backslash or end of line.
_LABEL = r'[a-zA-Z_][a-zA-Z0-9_]*="((?:[^"\\\n]|\\["\\n])*)"'
_SAMPLE = re.compile(rf"([a-zA-Z_:][a-zA-Z0-9_:]*)(?:\{{({_LABEL}(?:,{_LABEL})*)\}})? (\S+)")


class Sample(NamedTuple):
    """A sample as Prometheus would parse it."""

    metric: str
    labels: dict[str, str]
    value: float


def read(body: bytes) -> tuple[list[Sample], dict[str, str]]:
    """Return all samples, and the type of each metric; fail if the text breaks a rule of its format."""
    text = body.decode()
    assert text.endswith("\n")
    samples, types, helped, series = [], {}, set(), set()
    last, ended = "", set()
    for line in text[:-1].split("\n"):
        if line.startswith("# HELP "):
            name = line.split(" ")[2]
            assert name not in helped, f"{name} has two HELP lines"
            assert re.fullmatch(r"(?:[^\\]|\\[\\n])*", line)
            helped.add(name)
            continue
        if line.startswith("# TYPE "):
            _, _, name, kind = line.split(" ")
            assert name not in types, f"{name} has two types"
            assert kind in {"counter", "gauge"}
            types[name] = kind
            continue
        found = _SAMPLE.fullmatch(line)
        assert found, line
        name = found[1]
        assert name in types, "a sample comes after its type"
        assert name in helped
        if name != last:
            assert name not in ended, f"the lines of {name} are not together"
            ended.add(last)
            last = name
        assert line.rpartition(" ")[0] not in series, f"{line} occurs twice"
        series.add(line.rpartition(" ")[0])
        assert types[name] == "gauge" or name.endswith("_total")
        labels = {
            one[1]: one[2]
            for one in re.finditer(_LABEL.replace("[a-zA-Z_]", "([a-zA-Z_]", 1).replace("=", ")=", 1), found[2] or "")
        }
        samples.append(Sample(name, labels, float(found[found.lastindex or 0])))
    return samples, types


def counters(samples: list[Sample]) -> list[Sample]:
    own = {
        "port_info",
        "port_state",
        "port_physical_state",
        "port_rate_bytes_per_second",
        "files_without_number",
        "collect_seconds",
    }
    return [one for one in samples if one.metric.removeprefix(PREFIX) not in own]


def one(samples: list[Sample], name: str) -> Sample:
    (found,) = [sample for sample in samples if sample.metric == PREFIX + name]
    return found


@pytest.mark.parametrize("device", DEVICES)
def test_every_counter_of_a_device_is_shown_once_and_no_counter_is_invented(device, tmp_path):
    rdma_trees.make(tmp_path, device)
    samples, types = read(collect(str(tmp_path)))
    listed = {
        path: int(text)
        for path, text in rdma_trees.files(device).items()
        if "counters/" in path and not path.endswith("lifespan")
    }
    found = counters(samples)
    assert len(found) == len(listed)
    groups = {"ports/1/counters": "", "ports/1/hw_counters": "hw_", "hw_counters": "device_hw_"}
    for path, value in listed.items():
        folder, _, name = path.rpartition("/")
        words = name in {"port_xmit_data", "port_rcv_data"}
        sample = one(found, f"{groups[folder]}{name}{'_bytes' if words else ''}_total")
        assert sample.value == value * (4 if words else 1)
        assert sample.labels == {"device": device} | ({"port": "1"} if folder.startswith("ports") else {})
        assert types[sample.metric] == "counter"
    assert one(samples, "files_without_number").value == 0


def test_a_series_name_that_an_earlier_collection_used_can_be_used_again_by_the_next_collection(tmp_path):
    for folder in ("one", "other"):
        rdma_trees.make(tmp_path / folder, "mlx5_0")
        samples, _ = read(collect(str(tmp_path / folder)))
        assert counters(samples)
        assert not [each for each in samples if "file" in each.labels]


def test_of_two_files_whose_names_become_the_same_metric_the_second_is_shown_with_the_label_file(tmp_path):
    for name, value in (("counters/hw_a", "7\n"), ("hw_counters/a", "8\n")):
        (tmp_path / "mlx5_0/ports/1" / name).parent.mkdir(parents=True)
        (tmp_path / "mlx5_0/ports/1" / name).write_text(value)
    samples, _ = read(collect(str(tmp_path)))
    port = {"device": "mlx5_0", "port": "1"}
    assert [(each.value, each.labels) for each in counters(samples)] == [(7, port), (8, port | {"file": "hw_counters/a"})]


@pytest.mark.parametrize(
    ("name", "metric", "explained"),
    [
        ("ports/1/counters/port_xmit_data", "port_xmit_data_bytes_total", "in bytes: the file counts words of 4 bytes."),
        ("hw_counters/rx_bytes", "device_hw_rx_bytes_total", "hw_counters/rx_bytes of the device, in bytes."),
        ("ports/1/counters/symbol_error", "symbol_error_total", "counters/symbol_error of the port."),
        ("ports/1/hw_counters/rx_bytes", "hw_rx_bytes_total", "hw_counters/rx_bytes of the port, in bytes."),
        ("ports/1/hw_counters/ip4InOctets", "hw_ip4InOctets_total", "hw_counters/ip4InOctets of the port, in bytes."),
        ("ports/1/hw_counters/rx_bytes_lost", "hw_rx_bytes_lost_total", "hw_counters/rx_bytes_lost of the port."),
    ],
)
def test_a_counters_help_text_contains_its_file_and_its_unit(tmp_path, name, metric, explained):
    path = tmp_path / "mlx5_0" / name
    path.parent.mkdir(parents=True)
    path.write_text("7\n")
    (said,) = [line for line in collect(str(tmp_path)).decode().splitlines() if line.startswith(f"# HELP {PREFIX}{metric} ")]
    assert said.endswith(explained)


def test_a_port_is_shown_with_its_driver_and_interface_and_rate_and_state(tmp_path):
    for device in DEVICES:
        rdma_trees.make(tmp_path, device)
    samples, _ = read(collect(str(tmp_path)))
    info = {each.labels["device"]: each.labels for each in samples if each.metric == f"{PREFIX}port_info"}
    assert {name: (its["driver"], its["interface"], its["link_layer"]) for name, its in info.items()} == {
        "mlx5_0": ("mlx5_core", "eth2", "Ethernet"),
        "irdma0": ("irdma", "ens14", "Ethernet"),
        "rdmap0s6": ("efa", "", "Unknown"),
    }
    rates = {each.labels["device"]: each.value for each in samples if each.metric == f"{PREFIX}port_rate_bytes_per_second"}
    assert rates == {"mlx5_0": 12.5e9, "irdma0": 3.125e9, "rdmap0s6": 12.5e9}
    assert {each.value for each in samples if each.metric == f"{PREFIX}port_state"} == {4}


def test_a_counter_without_a_number_is_left_out_and_adds_to_a_count_but_affects_no_other_device(tmp_path):
    rdma_trees.make(tmp_path, "mlx4_0")
    rdma_trees.make(tmp_path, "irdma0")
    samples, _ = read(collect(str(tmp_path)))
    assert not [each for each in counters(samples) if each.labels["device"] == "mlx4_0"]
    assert len(counters(samples)) == 46
    assert one(samples, "files_without_number").value == 12
    rates = [each.value for each in samples if each.metric == f"{PREFIX}port_rate_bytes_per_second"]
    assert rates == [3.125e9, 0.3125e9]


def test_a_device_that_is_removed_during_a_scrape_has_no_counters_and_no_file_without_a_number(tmp_path, monkeypatch):
    rdma_trees.make(tmp_path, "irdma0")
    listed = os.listdir

    def removed(place: int | str) -> list[str]:
        if isinstance(place, int):  # a folder of counters, which was open when the device was removed
            raise FileNotFoundError(place)
        return listed(place)

    monkeypatch.setattr(os, "listdir", removed)
    samples, _ = read(collect(str(tmp_path)))
    assert counters(samples) == []
    assert one(samples, "files_without_number").value == 0


def test_a_machine_without_rdma_devices_has_no_counters(tmp_path):
    samples, _ = read(collect(str(tmp_path / "infiniband")))
    assert counters(samples) == []


def test_a_counter_that_disappears_is_absent_and_a_new_counter_appears(tmp_path):
    rdma_trees.make(tmp_path, "irdma0")
    folder = tmp_path / "irdma0" / "ports" / "1" / "hw_counters"
    collect(str(tmp_path))
    (folder / "cnpSent").rename(folder / "cnpSentToo")
    names = {each.metric for each in read(collect(str(tmp_path)))[0]}
    assert f"{PREFIX}hw_cnpSentToo_total" in names
    assert f"{PREFIX}hw_cnpSent_total" not in names


def test_a_value_that_can_fall_is_a_gauge(tmp_path):
    folder = tmp_path / "bnxt_re0" / "ports" / "1" / "hw_counters"
    folder.mkdir(parents=True)
    for name in ("active_qps", "watermark_qps", "rx_pkts"):
        (folder / name).write_text("7\n")
    _, types = read(collect(str(tmp_path)))
    assert [types[f"{PREFIX}hw_{name}"] for name in ("active_qps", "watermark_qps", "rx_pkts_total")] == [
        "gauge",
        "gauge",
        "counter",
    ]


#: Names that a file system allows, so similar that some become the same metric.
NAMES = st.text('ab_-"\\\n.é7', min_size=1, max_size=4).filter(lambda name: name not in {".", ".."}) | st.sampled_from(
    ["port_xmit_data", "port_xmit_data_bytes", "hw_a", "active_a", "active_a_total", "hw_active_a"]
)


@given(
    st.dictionaries(
        st.tuples(NAMES, st.sampled_from(["hw_counters", "ports/1/counters", "ports/1/hw_counters"]), NAMES),
        st.integers(0, 2**64 - 1) | st.just(None) | st.sampled_from(["", "-1", "0x1", "1 2", "N/A (no PMA)"]),
        max_size=6,
    )
)
def test_any_names_and_texts_give_valid_output_with_every_number_once(tmp_path_factory, tree):
    base = Path(tmp_path_factory.mktemp("any"))
    for (device, folder, name), text in tree.items():
        place = base / device / folder / name
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_text("" if text is None else f"{text}\n")
    samples, _ = read(collect(str(base)))
    numbers = [
        number * (4 if name in {"port_xmit_data", "port_rcv_data"} and folder == "ports/1/counters" else 1)
        for (_, folder, name), number in tree.items()
        if isinstance(number, int)
    ]
    assert sorted(each.value for each in counters(samples)) == sorted(float(number) for number in numbers)
    assert one(samples, "files_without_number").value == len(tree) - len(numbers)


def test_a_file_name_that_is_not_utf_8_is_shown_with_escaped_bytes(tmp_path):
    folder = tmp_path / "mlx5_0" / "ports" / "1" / "counters"
    folder.mkdir(parents=True)
    Path(os.fsdecode(os.fsencode(folder) + b"/\xff")).write_text("1\n")
    (found,) = counters(read(collect(str(tmp_path)))[0])
    assert found.labels["file"] == r"counters/\\xff"


@pytest.fixture
def served(tmp_path) -> Iterator[Server]:
    """The exporter over HTTP, on a port of this machine."""
    rdma_trees.make(tmp_path, "mlx5_0")
    server = Server(("127.0.0.1", 0), str(tmp_path), ["127.0.0.0/8"])
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True)
    thread.start()
    yield server
    server.shutdown()
    server.server_close()
    thread.join()


def asked(server: Server, path: str, source: str = "127.0.0.1") -> tuple[int, str, bytes]:
    client = http.client.HTTPConnection("127.0.0.1", server.server_port, timeout=10, source_address=(source, 0))
    client.request("GET", path)
    answer = client.getresponse()
    return answer.status, answer.getheader("Content-Type", ""), answer.read()


def test_a_scrape_over_http_has_every_counter(served):
    status, kind, body = asked(served, "/metrics")
    assert (status, kind) == (200, "text/plain; version=0.0.4; charset=utf-8")
    assert len(counters(read(body)[0])) == 21 + 31 + 31


def test_a_scrape_leaves_no_file_open_and_the_server_does_not_look_up_its_own_name(served):
    asked(served, "/metrics")
    before = len(list(Path("/proc/self/fd").iterdir()))
    for _ in range(5):
        assert asked(served, "/metrics")[0] == 200
    assert len(list(Path("/proc/self/fd").iterdir())) <= before + 2, "the last connections may still be closing"
    assert (served.server_name, served.server_port) == ("127.0.0.1", served.server_address[1])


def test_the_exporter_serves_only_metrics(served):
    assert asked(served, "/")[0] == 404
    assert asked(served, "/../../etc/passwd")[0] == 404


def test_a_caller_whose_address_is_not_the_address_of_a_reader_gets_no_answer(served):
    served.allowed = [rdma_exporter.ipaddress.ip_network("127.0.0.1")]
    assert asked(served, "/metrics")[0] == 200
    with pytest.raises((http.client.RemoteDisconnected, ConnectionResetError)):
        asked(served, "/metrics", "127.0.0.2")


@pytest.mark.parametrize("address", ["0.0.0.0", "8.8.8.8"])  # noqa: S104 - the exporter must refuse it
def test_the_exporter_listens_on_no_address_reachable_from_the_internet(address):
    with pytest.raises(SystemExit, match=f"--listen is {address}, which is not a private address of one machine"):
        rdma_exporter.main(["--listen", address, "--port", "9879"])


# Installation of the exporter


def brought(tmp_path: Path, sudo: str) -> subprocess.CompletedProcess[str]:
    """Run the head node's program with this machine as the only node, and with the shell script `sudo` in place of sudo."""
    tmp_path.joinpath("sudo").write_text(f"#!/bin/sh\n{sudo}\n")
    tmp_path.joinpath("sudo").chmod(0o755)
    nodes = [{"name": "gpu-a", "address": "10.20.1.11"}]
    program = remote_scripts.read("exporter_on_nodes").call(nodes=nodes, program="installs", there=True)
    environment = {"PATH": f"{tmp_path}:/usr/bin:/bin", "SSH_CONNECTION": "10.20.1.5 4711 10.20.1.11 22"}
    return subprocess.run(
        [sys.executable, "-IS", "-"], input=program, capture_output=True, text=True, timeout=60, check=False, env=environment
    )


def test_a_node_on_which_sudo_needs_a_password_is_named_with_the_output_of_sudo(tmp_path):
    found = brought(tmp_path, "echo 'sudo: a password is required' >&2; exit 1")
    assert found.returncode == 1
    said = "1 of 1 nodes have no exporter of RDMA counters: gpu-a (10.20.1.11): sudo: a password is required\n"
    assert found.stderr == said


def test_the_program_on_a_node_gets_the_nodes_address_and_the_addresses_of_readers(tmp_path):
    found = brought(tmp_path, f'cat > {tmp_path}/program; printf "%s|" "$@" > {tmp_path}/words')
    assert found.returncode == 0, found
    assert json.loads(found.stdout) == {"schema": 1, "kind": "exporter", "nodes": 1, "there": True}
    assert (tmp_path / "program").read_text() == "installs"
    assert (tmp_path / "words").read_text() == "-n|python3|-IS|-|10.20.1.5 4711 10.20.1.11 22|10.20.1.5|"


def test_a_removal_on_a_node_that_never_had_the_exporter_succeeds_and_says_that_no_exporter_is_there():
    ask = {"exporter": False, "port": 9879, "readers": []}
    program = remote_scripts.read("exporter_on_node").call(program="", ask=ask)
    found = subprocess.run([sys.executable, "-IS", "-"], input=program, capture_output=True, text=True, timeout=60, check=False)
    assert (found.returncode, found.stdout) == (0, '{"there": false}\n'), found


@pytest.mark.parametrize(
    ("connection", "why"),
    [
        ("203.0.113.9 4711 8.8.8.8 22", "SSH reaches this machine at 8.8.8.8, which is not a private address"),
        ("2001:db8::1 4711 2001:db8::2 22", "SSH reaches this machine at 2001:db8::2 from 2001:db8::1, but the exporter"),
        ("", "SSH reaches this machine at no address from"),
    ],
)
def test_a_node_without_a_private_address_gets_no_exporter(connection, why, monkeypatch):
    monkeypatch.setattr(sys, "argv", ["-", connection, connection.split(" ")[0]])
    with pytest.raises(SystemExit) as said:
        exporter_on_node.main("", {"exporter": True, "port": 9879, "readers": []})
    assert why in str(said.value)
