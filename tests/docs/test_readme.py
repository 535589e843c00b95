"""What the first page tells a newcomer to submit is accepted by the configuration that ``tenure init`` writes."""

from __future__ import annotations

import json
import re
import shlex
from pathlib import Path

import pytest
from pages import ROOT

from tenure.api.requests import JobRequest
from tenure.api.submission import complete
from tenure.cli.main import run
from tenure.config import load, write_sample
from tenure.core import admission, scheduler
from tenure.core.events import ConfigApplied
from tenure.core.state import State

TEXT = (ROOT / "README.md").read_text("utf-8").replace("\\\n", " ")
LINES = re.findall(r"^\$ tenure (?:submit|run) (.*)$", TEXT, re.MULTILINE)


def test_there_are_some() -> None:
    assert len(LINES) >= 4 and any("--plan" in line for line in LINES)


@pytest.mark.parametrize("line", LINES)
def test_it_is_accepted(
    line: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    write_sample(tmp_path)
    config = load(tmp_path / "tenure.toml")
    state = State()
    applied = ConfigApplied(0, config.clusters, config.policy, config.budgets, config.grants, "a test")
    scheduler.step(state, [applied], 0)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    for name in ("TENURE_URL", "TENURE_TOKEN", "TENURE_BUDGET"):
        monkeypatch.delenv(name, raising=False)
    words = [word for word in shlex.split(line, comments=True) if word != "--plan"]
    assert run(["submit", "--dry-run", "--json", *words]) == 0
    asked = json.loads(capsys.readouterr().out)["request"]
    admission.check_job(state, complete(JobRequest(**asked), state, "admin").spec)
