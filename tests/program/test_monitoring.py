"""Monitoring in a stack file: what is refused, registered and exported, and what the dashboard queries."""

from __future__ import annotations

import io
import json
import re

import jsonschema
import pulumi
import pytest
import rdma_trees
import yaml
from aws_preview import run as run_aws
from cluster_in_memory import WANTED
from conftest import ROOT, run_program
from dev_stack import LINES
from parsed_stack import parsed, refused

from components.inventory import Node, NodeSet
from components.monitoring import scrape
from components.remote_scripts import rdma_exporter
from config.monitoring import Monitoring
from manifests import ours
from manifests import scrape as scrape_pods
from tools import dashboard, monitoring

NODES = NodeSet("gpu", (Node("inst-0", "10.0.1.2"), Node('in"st-1', "10.0.1.3")), "identity")


# Settings


def test_monitoring_is_off_by_default():
    assert parsed().monitoring.exporter is None
    assert not parsed().monitoring.wanted


@pytest.mark.parametrize(
    ("changes", "sentence"),
    [
        ({"monitoring": {"exporter": "yes"}}, "monitoring.exporter is 'yes'; it must be true or false."),
        ({"monitoring": {"port": 80}}, "monitoring.port is 80; it must be at least 1024."),
        (
            {"monitoring": {"readFrom": ["0.0.0.0/0"]}},
            "monitoring.readFrom[0] is 0.0.0.0/0, which is no private network; counters must not be public.",
        ),
        ({"monitoring": {"readFrom": ["203.0.113.0/24"]}}, "monitoring.readFrom[0] is 203.0.113.0/24, which is no private"),
        (
            {"monitoring": {"exporter": True, "readFrom": ["192.168.7.0/24"]}},
            "monitoring.readFrom[0] is 192.168.7.0/24, but nodes accept nothing from outside oci.network.vcn, 10.0.0.0/16.",
        ),
        *(
            (
                {"monitoring": {"switches": [value]}},
                f"monitoring.switches[0] is '{value}'; it must be a private IPv4 address and a",
            )
            for value in ("10.20.9.5", "8.8.8.8:9804", "switch:9804", "10.20.9.5:0", "10.20.9.5:99999")
        ),
        (
            {"monitoring": {"exporter": True}, "oci": {"network": {"ingress": "ssh"}}},
            (
                "monitoring.exporter is true, but oci.network.ingress is ssh, so nobody could read the exporter; "
                "set oci.network.ingress to all."
            ),
        ),
    ],
)
def test_monitoring_settings_that_are_invalid_or_admit_nobody_or_everybody_are_refused(changes, sentence):
    assert [one for one in refused(**changes) if one.startswith(sentence)]


def test_networks_that_no_security_group_admits_are_refused_on_aws(monkeypatch):
    with pytest.raises(pulumi.RunError, match=r"monitoring\.readFrom is set, but the stack's own security groups let only"):
        run_aws(monkeypatch, monitoring={"exporter": True, "readFrom": ["10.0.0.0/24"]})


# Registrations


def exporters(found):
    return [
        inputs for kind, name, inputs in found.resources if name == "monitoring-exporter" and kind.endswith("remote:Command")
    ]


def others(found):
    return {
        name: {key: value for key, value in inputs.items() if key != "source"}  # two assets are never equal
        for kind, name, inputs in found.resources
        if not name.startswith("monitoring") and not kind.startswith("pulumi:")
    }


@pytest.mark.parametrize("exporter", [True, False])
def test_one_command_installs_or_removes_the_exporter_without_any_other_change(exporter):
    found, without = run_program(LINES, monitoring={"exporter": exporter}), run_program(LINES)
    assert not exporters(without)
    (command,) = exporters(found)
    assert command["create"] == "python3 -IS -"
    assert "delete" not in command
    assert ("def collect(" in command["stdin"]) == exporter
    # First boot, machines and measurement are not affected: user-data, requests and triggers are as without monitoring.
    assert others(found) == others(without)


def test_the_exporter_is_installed_on_replaced_machines_but_not_again_if_only_the_measurement_changes():
    (command,), (same,) = (
        exporters(run_program(LINES, monitoring={"exporter": True}, measure=measure)) for measure in ({}, {"iterations": 3})
    )
    assert command == same
    assert len(command["triggers"]) == 1, "the only trigger is the identity of the machines"


def test_nothing_runs_on_the_nodes_if_only_dcgm_is_monitored():
    assert not exporters(run_program(LINES, monitoring={"dcgmPort": 9400}))


# Prometheus's configuration


def test_every_node_is_a_scrape_target_of_prometheus_and_has_the_name_of_the_node_as_a_label():
    found = yaml.safe_load(scrape(NODES, Monitoring(exporter=True, dcgm_port=9400)))
    assert found == {
        "scrape_configs": [
            {
                "job_name": job,
                "scrape_interval": "15s",
                "static_configs": [
                    {"targets": [f"10.0.1.2:{port}"], "labels": {"node": "inst-0", "pool": "gpu"}},
                    {"targets": [f"10.0.1.3:{port}"], "labels": {"node": 'in"st-1', "pool": "gpu"}},
                ],
            }
            for job, port in (("busbar-rdma", 9879), ("dcgm", 9400))
        ]
    }


def kept(job: dict, meta: dict[str, str]) -> dict[str, str] | None:
    """Return the labels that Prometheus gives a discovered pod, or None for a pod that `keep` rules drop."""
    labels = dict(meta)
    for rule in job["relabel_configs"]:
        value = ";".join(labels.get(name, "") for name in rule.get("source_labels", ()))
        found = re.fullmatch(rule.get("regex", "(.*)"), value)
        if rule.get("action", "replace") == "keep":
            if not found:
                return None
        elif found:
            labels[rule["target_label"]] = re.sub(
                r"\$(\d)", lambda at, found=found: found[int(at[1])], rule.get("replacement", "$1")
            )
    return {name: value for name, value in labels.items() if name in {"__address__", "node", "pool"}}


def discovered(at: int, **changes: str) -> dict[str, str]:
    """Return the labels from Prometheus's discovery for one of the stack's pods."""
    labels = {f"label_{re.sub('[^a-z]', '_', key)}": value for key, value in ours.labels("k8s").items()}
    about = {"container_name": "ranks", "phase": "Running", "ip": f"10.244.{at}.7", "node_name": f"gpu{at}"} | labels | changes
    return {f"__meta_kubernetes_pod_{name}": value for name, value in about.items()}


def test_prometheus_finds_the_pods_of_the_stack_and_no_other_pods():
    found = yaml.safe_load(scrape_pods.scrape(WANTED, Monitoring(exporter=True, dcgm_port=9400), "k8s", "kubernetes"))
    rdma, dcgm = found["scrape_configs"]
    assert rdma["kubernetes_sd_configs"] == [{"role": "pod", "namespaces": {"names": ["busbar"]}}]
    assert kept(rdma, discovered(0)) == {"__address__": "10.244.0.7:9879", "node": "gpu0", "pool": "kubernetes"}
    for other in ({"container_name": "x"}, {"phase": "Failed"}, {"label_app_kubernetes_io_instance": "another"}):
        assert kept(rdma, discovered(0, **other)) is None
    exporter = {"label_app": "nvidia-dcgm-exporter", "ip": "10.244.9.9"}
    assert kept(dcgm, discovered(1, **exporter)) == {"__address__": "10.244.9.9:9400", "node": "gpu1", "pool": "kubernetes"}
    assert kept(dcgm, discovered(7, **exporter)) is None, "a pod on somebody else's node is no target"


def test_for_clusters_of_hosts_and_of_pods_prometheus_scrapes_the_collectors_of_switches():
    asked = Monitoring(switches=("10.20.9.5:9804", "10.20.9.6:9804"))
    assert asked.wanted
    expected = {
        "job_name": "switches",
        "scrape_interval": "15s",
        "static_configs": [{"targets": ["10.20.9.5:9804", "10.20.9.6:9804"], "labels": {"pool": "gpu"}}],
    }
    for text in (scrape(NODES, asked), scrape_pods.scrape(WANTED, asked, "k8s", "gpu")):
        assert yaml.safe_load(text) == {"scrape_configs": [expected]}


def test_an_exporter_that_was_removed_is_not_scraped():
    found = yaml.safe_load(scrape(NODES, Monitoring(exporter=False, dcgm_port=9400)))
    assert [job["job_name"] for job in found["scrape_configs"]] == ["dcgm"]


def test_the_monitoring_tool_writes_the_prometheus_file_and_the_dashboard_file_from_a_stacks_outputs(
    tmp_path, monkeypatch, capsys
):
    monkeypatch.setattr("sys.stdin", io.StringIO(json.dumps({"monitoring": "scrape_configs:\n"})))
    assert monitoring.main([str(tmp_path / "new")]) == 0
    assert (tmp_path / "new" / "prometheus.yml").read_text() == "scrape_configs:\n"
    assert (tmp_path / "new" / "busbar.json").read_text() == dashboard.text()
    monkeypatch.setattr("sys.stdin", io.StringIO(json.dumps({"monitoring": None})))
    assert monitoring.main([str(tmp_path / "other")]) == 1
    assert "set monitoring.exporter, dcgmPort or switches, and update" in capsys.readouterr().err
    assert not (tmp_path / "other").exists()


# The dashboard

#: The metrics in dcgm-exporter's etc/default-counters.csv, and two NVLink fields of DCGM (dcgm_fields.h: 1011, 1012).
DCGM = {
    *(
        "DCGM_FI_DEV_GPU_UTIL",
        "DCGM_FI_DEV_FB_USED",
        "DCGM_FI_DEV_POWER_USAGE",
        "DCGM_FI_DEV_GPU_TEMP",
        "DCGM_FI_DEV_XID_ERRORS",
    ),
    *("DCGM_FI_PROF_NVLINK_TX_BYTES", "DCGM_FI_PROF_NVLINK_RX_BYTES"),
}
#: Keys that every version of Grafana requires in a dashboard of the classic model ("Dashboard JSON model").
SHAPE = {
    "type": "object",
    "required": ["uid", "title", "schemaVersion", "panels", "templating", "time"],
    "properties": {
        "panels": {
            "type": "array",
            "items": {
                "type": "object",
                "required": ["id", "type", "title", "gridPos"],
                "properties": {
                    "id": {"type": "integer"},
                    "type": {"enum": ["row", "timeseries"]},
                    "gridPos": {"type": "object", "required": ["x", "y", "w", "h"]},
                },
                "if": {"properties": {"type": {"const": "timeseries"}}},
                "then": {
                    "required": ["targets", "datasource", "fieldConfig"],
                    "properties": {
                        "targets": {
                            "minItems": 1,
                            "items": {
                                "required": ["refId", "expr", "legendFormat"],
                                "additionalProperties": {"type": "string"},
                            },
                        }
                    },
                },
            },
        },
        "templating": {"required": ["list"], "properties": {"list": {"items": {"required": ["name", "type", "query"]}}}},
    },
}


def queries() -> list[str]:
    return [target["expr"] for panel in dashboard.dashboard()["panels"] for target in panel.get("targets", ())]


def metrics(expression: str) -> list[str]:
    return re.findall(r"\b(?:busbar|DCGM)_\w+", expression)


@pytest.fixture(scope="module")
def emitted(tmp_path_factory) -> dict[str, str]:
    """The type of every metric that the exporter prints on a machine with devices of three drivers."""
    base = tmp_path_factory.mktemp("drivers")
    for device in ("mlx5_0", "irdma0", "rdmap0s6"):
        rdma_trees.make(base, device)
    return dict(re.findall(r"^# TYPE (\S+) (\S+)$", rdma_exporter.collect(str(base)).decode(), flags=re.MULTILINE))


def test_every_query_of_the_dashboard_reads_exactly_one_existing_metric(emitted):
    for expression in queries():
        (metric,) = metrics(expression)
        assert metric in emitted or metric in DCGM, expression


def test_the_dashboard_draws_gauges_unchanged_and_draws_counters_as_rates_or_increases(emitted):
    for expression in queries():
        (metric,) = metrics(expression)
        grows = emitted.get(metric, "gauge") == "counter"
        assert expression.startswith(("rate(", "increase(")) == grows, expression


@pytest.mark.parametrize(
    ("title", "names"),
    [
        ("RDMA out", {"mlx5": "port_xmit_data_bytes", "irdma": "ip4OutOctets", "efa": "tx_bytes"}),
        ("RDMA in", {"mlx5": "port_rcv_data_bytes", "irdma": "ip4InOctets", "efa": "rx_bytes"}),
        ("CNP and ECN", {"mlx5": "np_cnp_sent", "irdma": "cnpSent"}),
        ("Discards", {"mlx5": "port_xmit_discards", "irdma": "ip4InDiscards", "efa": "rx_drops"}),
        ("NVLink", {"dcgm": "DCGM_FI_PROF_NVLINK_TX_BYTES"}),
        ("GPU utilisation", {"dcgm": "DCGM_FI_DEV_GPU_UTIL"}),
    ],
)
def test_a_panel_draws_its_counters_for_every_driver_that_has_such_counters(title, names):
    (panel,) = [panel for panel in dashboard.dashboard()["panels"] if panel["title"] == title]
    text = " ".join(target["expr"] for target in panel["targets"])
    assert [name for name in names.values() if name not in text] == []


def test_the_dashboard_has_the_fields_that_grafana_requires():
    found = dashboard.dashboard()
    jsonschema.validate(found, SHAPE)
    panels = found["panels"]
    assert len({panel["id"] for panel in panels}) == len(panels)
    for panel in panels:
        letters = [target["refId"] for target in panel.get("targets", ())]
        assert len(set(letters)) == len(letters)
    spots = [
        (x, y)
        for one in (panel["gridPos"] for panel in panels)
        for x in range(one["x"], one["x"] + one["w"])
        for y in range(one["y"], one["y"] + one["h"])
    ]
    assert len(set(spots)) == len(spots), "no panel covers another"
    assert max(x for x, _ in spots) < 24
    variables = {one["name"] for one in found["templating"]["list"]}
    used = set(re.findall(r"\$\{?(\w+)", json.dumps(found))) - {"__rate_interval", "__all"}
    assert used == variables


def test_the_dashboard_file_in_docs_is_the_output_of_the_dashboard_tool():
    assert dashboard.FILE == ROOT / "docs" / "grafana" / "busbar.json"
    assert dashboard.FILE.read_text() == dashboard.text(), "python -m tools.dashboard writes the file anew"
