"""What the pages say about the repository is true: links, make targets, settings, metrics, alerts."""

from __future__ import annotations

import re
import subprocess
import tomllib
from dataclasses import fields
from pathlib import Path

import pytest
import yaml
from pages import NAMES, ROOT, anchors, blocks, links, rows, spans, text_of

from tenure.api.requests import JobRequest
from tenure.config import parse, schema
from tenure.config.sample import SAMPLE_FILES
from tenure.config.settings import COUNTS, Server
from tenure.core.model import Cluster, Policy
from tenure.metric_names import METRICS
from tenure.units import format_duration

TABLES = {
    "### Top level": schema.TopTable,
    "### [server]": schema.ServerTable,
    "### [notice]": schema.NoticeTable,
    "### [notice.smtp]": schema.SmtpTable,
    "### [policy]": schema.PolicyTable,
    "### [clusters.NAME]": schema.ClusterTable,
    "### Hosts": schema.HostTable,
    "## budgets.toml": schema.BudgetTable,
    "### [[grants]]": schema.GrantTable,
}


@pytest.mark.parametrize("name", NAMES)
def test_links_lead_somewhere(name: str) -> None:
    for target in links(text_of(name)):
        if re.match(r"[a-z]+:", target):
            continue
        path, _, anchor = target.partition("#")
        page = (ROOT / name).parent / path if path else ROOT / name
        assert page.exists(), f"{name}: {target}"
        assert page.resolve().is_relative_to(ROOT), f"{name}: {target}"
        if anchor:
            assert anchor in anchors(page.read_text("utf-8")), f"{name}: {target}"


def test_the_index_names_every_page() -> None:
    targets = set(links(text_of("docs/index.md")))
    assert targets == {page.name for page in (ROOT / "docs").glob("*.md")} - {"index.md"}


@pytest.mark.parametrize("name", NAMES)
def test_make_targets_exist(name: str) -> None:
    text = text_of(name)
    wanted = [m[1] for code in [*spans(text), *(b.text for b in blocks(text))] for m in _MAKE.finditer(code)]
    targets = set(re.findall(r"^([a-z]+):", text_of("Makefile"), re.MULTILINE))
    assert set(wanted) <= targets


_MAKE = re.compile(r"^(?:\$ )?make ([a-z]+)", re.MULTILINE)


@pytest.mark.parametrize("heading", TABLES)
def test_every_key_of_the_configuration_is_described(heading: str) -> None:
    known = {field.alias or name for name, field in TABLES[heading].model_fields.items()}
    described = {key for row in rows(_section(heading)) for key in re.findall(r"`(\w+)`", row[0])}
    assert described >= known
    extra = described - known
    assert not extra, f"{heading} describes what there is not: {extra}"


@pytest.mark.parametrize(
    ("heading", "record"), [("[server]", Server), ("[policy]", Policy), ("[clusters.NAME]", Cluster)]
)
def test_defaults_are_as_described(heading: str, record: type) -> None:
    described = {row[0].strip("`"): row[2].strip("`") for row in rows(_section(f"### {heading}"))}
    for field in fields(record):
        value = field.default
        if field.name in ("name", "hosts"):
            continue
        told = described[field.name]
        if isinstance(value, bool):
            assert told == str(value).lower()
        elif isinstance(value, int) and field.name not in COUNTS:
            assert told == format_duration(value), field.name
        else:
            assert told == str(value), field.name


def _section(heading: str) -> str:
    """A page's part from one heading to the next."""
    text = text_of("docs/configuration.md")
    start = text.index(f"\n{heading}\n") + len(heading) + 2
    end = re.compile(r"^#+ ", re.MULTILINE).search(text, start)
    # The level above: a budget's table goes on after no sub-heading, and stops where grants begin.
    return text[start : end.start()] if end else text[start:]


def test_metrics_and_alerts_are_all_described() -> None:
    text = text_of("docs/operator.md")
    named = set(re.findall(r"`(tenure_[a-z_]+)`", text))
    assert named == {metric.name for metric in METRICS}
    labels = {row[0].strip("`"): re.findall(r"`(\w+)`", row[1]) for row in rows(text) if row[0].startswith("`tenure_")}
    assert labels == {metric.name: list(metric.labels) for metric in METRICS}
    rules = yaml.safe_load(text_of("packaging/prometheus/tenure.rules.yml"))
    alerts = {rule["alert"] for group in rules["groups"] for rule in group["rules"]}
    assert set(re.findall(r"`(Tenure[A-Z]\w+)`", text)) == alerts


def test_every_policy_setting_has_a_price() -> None:
    priced = {key for row in rows(text_of("docs/operator.md")) for key in re.findall(r"`(\w+)`", row[0])}
    wanted = {f.name for f in fields(Policy)} | {f.name for f in fields(Cluster)}
    assert priced >= wanted - {"name", "hosts", "default_resumable"}


@pytest.mark.parametrize("name", NAMES)
def test_toml_can_be_used_as_it_stands(name: str) -> None:
    clusters, budgets = (dict(SAMPLE_TEXTS)[key] for key in ("tenure.toml", "budgets.toml"))
    found = [block.text for block in blocks(text_of(name)) if block.language == "toml"]
    files = [text for text in found if "[clusters." in text]
    for text in found:
        if "command = " in text:
            JobRequest.model_validate(tomllib.loads(text))
        elif text in files:
            parse(text, budgets)
        elif text.startswith("[notice]"):
            parse(f"{text}\n{clusters}", budgets)
        else:
            parse(files[0] if files else clusters, text)


SAMPLE_TEXTS = [(name, text_of(f"src/tenure/config/sample/{name}")) for name in SAMPLE_FILES]


def tracked() -> list[Path]:
    """Text files of the repository. Without git (an unpacked source archive): those that pages are made of."""
    try:
        listed = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, check=True, text=True).stdout
    except (OSError, subprocess.CalledProcessError):
        return [ROOT / name for name in NAMES]
    return [path for name in listed.split("\0") if name and (path := ROOT / name).is_file()]


def test_no_text_names_a_machine_or_a_registry() -> None:
    # Put together here, so that this file passes its own test.
    hosts = ["py" + "pi.org", "pythonhosted" + ".org", "npm" + "js.", "docker" + ".io", "crates" + ".io"]
    paths = re.compile(r"(?<![\w.])/(?:work|Users|home/\w+|root)/\w")
    for path in tracked():
        try:
            text = path.read_text("utf-8")
        except UnicodeDecodeError:
            continue
        where = path.relative_to(ROOT)
        for host in hosts:
            assert host not in text, f"{where} names {host}"
        named = paths.search(text)
        assert named is None, f"{where} names a path of one machine: {named[0]}"
