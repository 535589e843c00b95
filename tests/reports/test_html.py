"""Pages open without a network, draw their charts in a browser, and escape whatever a run says."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from pathlib import Path

import pytest
from fake_runs import empty_run, fake_run

from tenure.core.model import DAY
from tenure.reports.compare import write_comparison
from tenure.reports.html import for_script, write_report
from tenure.reports.records import Run

NASTY = (
    '</script><script>document.body.dataset.broken = 1</script><img src=x onerror="document.body.dataset.broken=1">&\''
)


def nasty_run(seed: int = 1) -> Run:
    """A run in which everything that somebody could name has a name that a page must not believe."""
    run = fake_run(seed=seed, hosts=2, jobs=30, days=2)
    run.policy = run.workload = NASTY
    run.settings = {NASTY: NASTY}
    run.notes = [NASTY]
    run.hosts = {NASTY: ((f"n001{NASTY}", 8), (f"n002{NASTY}", 8))}
    for table in (run.jobs, run.attempts, run.evictions, run.hours, run.budget_hours):
        for row in table:
            row.cluster = NASTY  # type: ignore[attr-defined]
            for name in ("user", "budget", "because", "gainer_budget"):
                if hasattr(row, name):
                    setattr(row, name, f"{getattr(row, name)}{NASTY.replace('/', '')}")
    for attempt in run.attempts:
        attempt.slots = tuple((f"{host}{NASTY}", gpus) for host, gpus in attempt.slots)
    return run


def test_a_report_is_one_page_and_a_picture_of_each_chart(tmp_path: Path) -> None:
    files = write_report(fake_run(hosts=1, jobs=20, days=2), tmp_path)
    charts = ["timeline", "delivered", "ratios", "waits", "occupancy", "fragmentation"]
    assert files == [tmp_path / "report.html", *(tmp_path / "charts" / f"{name}.png" for name in charts)]
    assert all(path.stat().st_size > 5000 for path in files)
    page = files[0].read_text()
    assert "budgets on 8 GPUs, seed 1" in page
    for text in ("lab/language/pretrain", "M1: delivered of what was owed", "3 rows of the trace had no end"):
        assert text in page


def test_a_page_says_when_a_run_was_interrupted(tmp_path: Path) -> None:
    run = empty_run()
    run.planned_until += 1
    (page,) = write_report(run, tmp_path, png=False)
    assert "This run was interrupted" in page.read_text()
    run.planned_until -= 1
    write_report(run, tmp_path, png=False)
    assert "This run was interrupted" not in page.read_text()


def test_the_window_and_the_hosts_reach_the_timeline(tmp_path: Path) -> None:
    run = fake_run(jobs=40)
    window = (run.start + DAY, run.start + 2 * DAY)
    (page,) = write_report(run, tmp_path, window=window, hosts=["n002"], png=False)
    assert "1 of 4 hosts, 8 GPUs, 1d from" in page.read_text()


def test_pages_load_nothing(tmp_path: Path) -> None:
    write_report(fake_run(jobs=20, days=2), tmp_path, png=False)
    write_comparison([fake_run(jobs=20, days=2)], tmp_path, png=False)
    for name in ("report.html", "comparison.html"):
        markup = re.sub(r"<script>.*?</script>", "", (tmp_path / name).read_text(), flags=re.DOTALL)
        assert "default-src 'none'" in markup
        assert not re.search(r"<(?:link|iframe|img|object|embed)\b|\bsrc=|\bhref=|url\(|@import", markup)
        assert not re.search(r"\"url\"\s*:", markup)


def test_names_are_text_and_nothing_else(tmp_path: Path) -> None:
    write_report(nasty_run(), tmp_path, png=False)
    write_comparison([nasty_run(1), nasty_run(2)], tmp_path, png=False)
    for name in ("report.html", "comparison.html"):
        page = (tmp_path / name).read_text()
        assert "&lt;/script&gt;" in page
        assert "dataset.broken = 1</script>" not in page
        assert "<img" not in re.sub(r"<script>.*?</script>", "", page, flags=re.DOTALL)
        for text in re.findall(r'<script type="application/json"[^>]*>(.*?)</script>', page, flags=re.DOTALL):
            json.loads(text)
    markdown = (tmp_path / "comparison.md").read_text()
    assert "<script" not in markdown and "<img" not in markdown


def test_json_in_a_script_element_cannot_end_it() -> None:
    value = {"a": "</script><!--&\u2028\u2029é"}
    text = for_script(value)
    assert not set("<>&\u2028\u2029") & set(text)
    assert json.loads(text) == value


@pytest.mark.skipif(shutil.which("chromium") is None, reason="needs chromium")
def test_a_browser_draws_every_chart_without_a_network(tmp_path: Path) -> None:
    (report,) = write_report(nasty_run(), tmp_path, png=False)
    dom = dump(report)
    assert 'data-drawn="6"' in dom
    assert "could not be drawn" not in dom
    assert dom.count("<canvas") == 6
    assert "data-broken" not in dom


def dump(page: Path) -> str:
    """The page's document after its scripts have run, without a network."""
    command = ["chromium", "--headless", "--no-sandbox", "--disable-gpu", "--host-resolver-rules=MAP * ~NOTFOUND"]
    command += [f"--user-data-dir={page.parent / 'profile'}", "--virtual-time-budget=60000", "--dump-dom"]
    done = subprocess.run([*command, page.as_uri()], capture_output=True, text=True, timeout=300, check=True)
    return re.sub(r"<script\b.*?</script>", "", done.stdout, flags=re.DOTALL)
