"""Alert rules and the dashboard use no metric and no label that the server does not export."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml

from tenure.core.lifecycle import JobState
from tenure.core.model import HostState
from tenure.core.reasons import Reason
from tenure.metric_names import METRICS, MetricType

PACKAGING = Path(__file__).parent.parent.parent / "packaging"
SERIES = {series: metric for metric in METRICS for series in metric.series}
VALUES = {
    "kind": {"total", "healthy", "charged", "unallocated", "claimed", "free", "held", "headroom"},
    "class": {"debug", "mid", "large", "unallocated"},
    "reason": {str(reason) for reason in Reason},
    "state": {str(state) for state in HostState} | {str(state) for state in JobState},
}


def alert_rules() -> list[dict[str, object]]:
    document = yaml.safe_load((PACKAGING / "prometheus" / "tenure.rules.yml").read_text())
    return [rule for group in document["groups"] for rule in group["rules"]]


def panels() -> list[dict[str, object]]:
    panels: list[dict[str, object]] = json.loads((PACKAGING / "grafana" / "tenure.json").read_text())["panels"]
    return panels


def expressions() -> Iterator[tuple[str, str]]:
    for rule in alert_rules():
        yield str(rule["alert"]), str(rule["expr"])
    for panel in panels():
        for target in panel["targets"]:  # type: ignore[attr-defined]
            yield str(panel["title"]), target["expr"]


@pytest.mark.parametrize(("where", "expression"), list(expressions()))
def test_only_exported_series_and_labels(where: str, expression: str) -> None:
    used = re.findall(r"\b(tenure_\w+)(?:\{([^}]*)\})?", expression)
    assert used
    for series, selector in used:
        metric = SERIES[series]
        for label, values in re.findall(r'(\w+)=~?"([^"]*)"', selector):
            assert label in metric.labels
            if not values.startswith("$"):
                assert set(values.split("|")) <= VALUES[label]
    labels = {label for series, _ in used for label in SERIES[series].labels} | {"le"}
    for grouping in re.findall(r"\bby \(([^)]*)\)", expression):
        assert {label.strip() for label in grouping.split(",")} <= labels


def test_every_metric_is_on_the_dashboard() -> None:
    text = json.dumps(panels())
    assert [metric.name for metric in METRICS if metric.name not in text] == []


def test_legends_use_labels_that_are_there() -> None:
    for panel in panels():
        for target in panel["targets"]:  # type: ignore[attr-defined]
            series = re.findall(r"\btenure_\w+", target["expr"])
            labels = {label for name in series for label in SERIES[name].labels}
            assert set(re.findall(r"\{\{(\w+)\}\}", target["legendFormat"])) <= labels


def test_every_alert_says_how_bad_and_what_to_do() -> None:
    for rule in alert_rules():
        assert rule["labels"]["severity"] in ("page", "ticket")  # type: ignore[index]
        assert rule["annotations"].keys() == {"summary", "action"}  # type: ignore[attr-defined]


def test_metric_names_follow_their_types() -> None:
    assert len({metric.name for metric in METRICS}) == len(METRICS)
    for metric in METRICS:
        assert metric.name.endswith("_total") == (metric.type is MetricType.COUNTER)
        assert bool(metric.buckets) == (metric.type is MetricType.HISTOGRAM)
        assert list(metric.buckets) == sorted(set(metric.buckets))


def test_the_unit_leaves_jobs_alone_when_the_server_stops() -> None:
    unit = (PACKAGING / "systemd" / "tenure.service").read_text()
    settings = [line for line in unit.splitlines() if "=" in line and not line.startswith("#")]
    assert "KillMode=process" in settings
    hiding = ("PrivateDevices", "PrivateTmp", "ProtectHome", "DevicePolicy", "ProtectClock")
    assert not [line for line in settings if line.startswith(hiding)]
