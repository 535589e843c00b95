"""The demo's parts: sizes for any machine, a configuration that is accepted, words, and whose directory it is."""

from __future__ import annotations

import io
from pathlib import Path

import pytest
from rich.console import Console

from tenure.api.models import EntryView, JobView, ReasonView
from tenure.config import load, parse
from tenure.core.model import GPU, SHARE_ONE
from tenure.demo import ending, entries, scenario
from tenure.demo.scenario import Machine, cast_for, configuration
from tenure.demo.site import DemoError, Site, free_port
from tenure.demo.tell import Teller
from tenure.executors.nvml import Gpu

SLOTS = Machine(16, 2, False, "")
MACHINES = [SLOTS, *(Machine(count, 1, True, "") for count in (2, 3, 4, 5, 6, 7, 8, 10, 16))]
SLOWNESS = (1.0, 1.5, 4.0)


def parts_of(cast: scenario.Cast) -> list[scenario.Part]:
    steady = [cast.steady] if cast.steady is not None else []
    return [cast.victim, *steady, *cast.free, cast.debug, cast.gang]


@pytest.mark.parametrize("machine", MACHINES, ids=lambda machine: f"{machine.hosts}x{machine.per_host}")
def test_the_story_works_on_any_number_of_gpus(machine: Machine) -> None:
    cast = cast_for(machine, 1.0)
    steady = cast.steady.all_gpus if cast.steady is not None else 0
    free = sum(part.all_gpus for part in cast.free)
    # Everything starts, and nothing is left over: so the debug job must evict somebody.
    assert cast.victim.all_gpus + steady + free == machine.gpus
    assert all(part.gpus >= 1 for part in parts_of(cast))
    assert cast.debug.all_gpus == cast.free[-1].all_gpus
    # The gang does not fit on what unallocated work holds.
    assert machine.gpus >= cast.gang.all_gpus > free
    assert cast.gang.gpus <= machine.per_host


def test_on_slots_the_gang_takes_both_hosts_and_waits_for_a_protection() -> None:
    cast = cast_for(SLOTS, 1.0)
    assert (cast.gang.replicas, cast.gang.gpus) == (2, 8)
    assert cast.steady is not None and cast.steady.protect_s > cast.victim.protect_s


@pytest.mark.parametrize("slowness", SLOWNESS)
@pytest.mark.parametrize("machine", MACHINES, ids=lambda machine: f"{machine.hosts}x{machine.per_host}")
def test_the_configuration_is_accepted_and_pays_for_the_contracts(machine: Machine, slowness: float) -> None:
    texts = configuration(machine, 7788, slowness)
    config = parse(texts["tenure.toml"], texts["budgets.toml"])
    bounds = config.clusters[0]
    assert config.server.port == 7788
    assert bool(config.discover) is machine.real
    assert machine.real or (bounds.gpus, len(bounds.hosts)) == (machine.gpus, machine.hosts)
    shares = {budget.path: budget.share for budget in config.budgets}
    assert sum(path.count("/") == 1 for path in shares) == 3
    assert sum(path.count("/") == 2 for path in shares) == 6
    for part in parts_of(cast_for(machine, slowness)):
        min_runtime = round(part.protect_s * 1000)
        assert min_runtime == 0 or bounds.min_runtime_floor <= min_runtime <= bounds.min_runtime_max
        share = shares[part.budget] * shares[part.budget.rpartition("/")[0]]
        entitled = machine.gpus * GPU * config.policy.lookback * share // SHARE_ONE**2
        assert part.all_gpus * GPU * min_runtime <= entitled


def test_a_lookback_must_cover_the_story_so_that_usage_is_seen_to_add_up() -> None:
    for slowness in SLOWNESS:
        texts = configuration(SLOTS, 1, slowness)
        lookback = parse(texts["tenure.toml"], texts["budgets.toml"]).policy.lookback / 1000
        assert lookback >= cast_for(SLOTS, slowness).victim.work_s + cast_for(SLOTS, slowness).gang.work_s


@pytest.mark.parametrize(("found", "real", "gpus"), [(0, False, 16), (1, False, 16), (2, True, 2), (8, True, 8)])
def test_real_gpus_are_taken_when_there_are_enough(
    monkeypatch: pytest.MonkeyPatch, found: int, real: bool, gpus: int
) -> None:
    monkeypatch.setattr(
        "tenure.demo.scenario.nvml.discover_gpus", lambda: tuple(Gpu(i, name="A100") for i in range(found))
    )
    machine = scenario.look_at_machine()
    assert (machine.real, machine.gpus) == (real, gpus)
    assert ("A100" in machine.note) is real
    assert ("only 1 GPU" in machine.note) is (found == 1)


# ---- words


def words_at(second: int) -> entries.Words:
    say = entries.Words(lambda at: f"{at / 1000 - second:.1f}s", "20 s")
    say.names = {2: "video", 6: "pretrain"}
    return say


def test_reasons_name_jobs_and_count_from_the_beginning_of_the_story() -> None:
    text = (
        "Evicted for job 6: it needs 16; 2.1 until 2026-10-09 12:00:05 UTC, 7.3 until 2026-10-09 12:00:05 UTC "
        "(0.02 over the last day)."
    )
    reason = ReasonView(code="x", numbers={"protected": [["2.1", 1791547205900]], "gpus": 16}, text=text)
    assert words_at(1791547200).why(reason) == (
        "Evicted for pretrain: it needs 16; video until 5.9s, job 7 until 5.9s (0.02 over the last 20 s)."
    )


def job_view(**values: object) -> JobView:
    usual = {
        "id": 2, "name": "video", "user": "alan", "budget": "lab/vision/video", "state": "running", "ended": False,
        "charged": True, "gpus": 4, "cluster": "main", "clusters": ["main"], "priority": 0, "min_runtime_ms": 13000,
        "resumable": True, "submitted_at": 1791547200000, "evictions": 0, "restarts": 0,
        "reason": ReasonView(code="started_free", text=""),
    }  # fmt: skip
    return JobView.model_validate({**usual, **values})


@pytest.mark.parametrize(
    ("kind", "text", "job", "expected"),
    [
        ("submitted", "", {}, "alan submits video (job 2): 4 GPUs for lab/vision/video, which is charged for it; needs"
         " 13 s undisturbed"),
        ("submitted", "", {"charged": False}, "alan submits video (job 2): 4 GPUs for lab/vision/video, unallocated: "
         "free of charge, and it may have to go at any time"),
        ("evict", "2.1 is evicted (10s to save its work)", {}, "video must go: it is warned, and has 10s to save its "
         "work"),
        ("requeued", "", {}, "video is back in the queue; its place there still counts from 0.0s, when it was "
         "submitted"),
        ("ended", "job 2 is over: failed", {}, "video is over: failed"),
    ],
)  # fmt: skip
def test_entries_become_sentences(kind: str, text: str, job: dict[str, object], expected: str) -> None:
    line = entries.line(EntryView(kind=kind, text=text, job=2), job_view(**job), None, words_at(1791547200))
    assert line is not None and line.text == expected


def test_checkpoints_and_other_entries_are_not_told() -> None:
    entry = EntryView(kind="checkpoint", text="2.1 has saved a checkpoint", job=2)
    assert entries.line(entry, job_view(), None, words_at(0)) is None


# ---- how it looks


def teller() -> tuple[Teller, io.StringIO]:
    out = io.StringIO()
    return Teller(Console(file=out, highlight=False)), out


def test_plain_output_wraps_at_100_columns_with_a_margin_and_ends_no_line_in_spaces() -> None:
    tell, out = teller()
    tell.began = 1000
    tell.line(4600, "word " * 40, why="reason " * 30)
    tell.table("Title", ("budget", "used"), [("a", "1"), ("  b", "22")], "note " * 30)
    lines = out.getvalue().splitlines()
    assert lines[0].startswith("   3.6s  word") and lines[1].startswith("         word")
    assert all(len(line) <= 100 and line == line.rstrip() for line in lines)
    assert "\x1b" not in out.getvalue()


def test_a_silence_is_broken_once_and_then_less_often(monkeypatch: pytest.MonkeyPatch) -> None:
    now = 0.0
    monkeypatch.setattr("tenure.demo.tell.time.monotonic", lambda: now)
    tell, out = teller()
    tell.paragraph("begin")
    for now in (1.0, 1.9, 2.1, 3.0, 5.0, 7.0, 7.2):
        tell.idle(f"at {now}")
    assert out.getvalue().split() == ["begin", "...", "at", "2.1", "...", "at", "7.2"]


def test_square_brackets_are_not_taken_for_markup() -> None:
    tell, out = teller()
    tell.line(0, "on node[1-2]")
    tell.idle("[/nonsense]")
    assert "node[1-2]" in out.getvalue()


# ---- the directory


def test_a_directory_of_somebody_else_is_left_alone(tmp_path: Path) -> None:
    theirs = tmp_path / "precious"
    theirs.write_text("data")
    with pytest.raises(DemoError, match="was not made by the demo"):
        Site(tmp_path).make(configuration(SLOTS, 1, 1.0))
    assert theirs.read_text() == "data"


def test_what_an_earlier_demo_left_is_thrown_away(tmp_path: Path) -> None:
    site = Site(tmp_path / "demo")
    site.make(configuration(SLOTS, 1, 1.0))
    (site.directory / "old").touch()
    site.make(configuration(SLOTS, 2, 1.0))
    assert sorted(path.name for path in site.directory.iterdir()) == ["budgets.toml", "tenure.toml"]
    assert load(site.config).server.port == 2


def test_a_port_that_is_taken_is_not_free() -> None:
    import socket

    with socket.create_server(("127.0.0.1", 0)) as taken:
        assert free_port(taken.getsockname()[1]) is None
    assert free_port(0)


def test_the_stop_command_names_what_is_to_be_stopped(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    usual = Site(Path(".tenure-demo"))
    assert ending.stop_command(usual).endswith("-m tenure.demo --stop")
    (tmp_path / "Makefile").write_text("demo:\n\tpython -m tenure.demo $(ARGS)\n")
    assert ending.stop_command(usual) == "make demo ARGS=--stop"
    assert ending.stop_command(Site(Path("elsewhere"))).endswith(f"--stop --directory {tmp_path / 'elsewhere'}")


def test_another_known_server_is_no_trap(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    monkeypatch.delenv("TENURE_URL", raising=False)
    monkeypatch.delenv("TENURE_TOKEN", raising=False)
    site = Site(tmp_path / "demo")
    site.data.mkdir(parents=True)
    (site.data / "client.toml").write_text('url = "http://127.0.0.1:1"\ntoken = "t"\n')
    assert not any("export" in command for command, _ in ending.commands(site))
    (tmp_path / "config" / "tenure").mkdir(parents=True)
    (tmp_path / "config" / "tenure" / "client.toml").touch()
    assert ("export TENURE_URL=http://127.0.0.1:1", "this server, and no other") in ending.commands(site)
