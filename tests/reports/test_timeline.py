"""The GPU timeline: which bars there are and where, hatching, edges, windows and limits."""

from __future__ import annotations

import pytest
from fake_runs import CLUSTER, T0, empty_run, fake_run

from tenure.core.model import DAY, GPU, HOUR
from tenure.reports.charts import timeline as module
from tenure.reports.charts.style import OTHER_TEAMS, TEAMS, Datum
from tenure.reports.charts.timeline import View, hatching, stretches, timeline, view
from tenure.reports.records import AttemptRow, EvictionRow, Run


def attempt(
    number: int,
    slots: tuple[tuple[str, tuple[int, ...]], ...],
    start: int,
    end: int | None,
    protected: int | None = None,
) -> AttemptRow:
    gpus = sum(len(indices) for _, indices in slots)
    row = AttemptRow(
        f"{number}.1", number, "ann", "lab/language/pretrain", CLUSTER, True, gpus * GPU, slots, T0 + start
    )
    row.ended = None if end is None else T0 + end
    row.protected_until = None if protected is None else T0 + protected
    row.because = "succeeded"
    return row


def drawn(run: Run, name: str) -> list[Datum]:
    found = timeline(run)
    assert found is not None
    rows: list[Datum] = found.spec["datasets"][name]
    return rows


def test_adjacent_gpus_of_one_attempt_are_one_bar() -> None:
    run = empty_run(hosts=3, length=DAY)
    run.attempts = [
        attempt(1, (("n001", tuple(range(8))), ("n002", tuple(range(8)))), 0, HOUR),
        attempt(2, (("n003", (0, 1, 4)),), HOUR, None),
    ]
    assert [(b["attempt"], b["y"], b["y2"]) for b in drawn(run, "bars")] == [
        ("1.1", 0, 16),
        ("2.1", 16, 18),
        ("2.1", 20, 21),
    ]
    first, second, _ = drawn(run, "bars")
    assert (first["t"], first["t2"], first["gpus"]) == (T0, T0 + HOUR, 16)
    assert (second["t2"], second["ended"]) == (T0 + DAY, "still running")


def test_only_the_exposed_part_is_hatched() -> None:
    run = empty_run(length=DAY)
    host = tuple(range(8))
    run.attempts = [attempt(1, (("n001", host),), 0, 4 * HOUR, protected=2 * HOUR)]
    lines = drawn(run, "hatching")
    assert lines
    assert min(line["t"] for line in lines) >= T0 + 2 * HOUR
    assert max(line["t2"] for line in lines) <= T0 + 4 * HOUR
    assert all(0 <= line[y] <= 8 for line in lines for y in ("y", "y2"))
    run.attempts = [attempt(1, (("n001", host),), 0, 4 * HOUR)]
    assert drawn(run, "hatching") == []
    assert drawn(run, "bars")[0]["protected"] == "to its end"
    run.attempts = [attempt(1, (("n001", host),), 0, 4 * HOUR, protected=0)]
    assert min(line["t"] for line in drawn(run, "hatching")) < T0 + HOUR / 2
    assert drawn(run, "bars")[0]["protected"] == "never"


def test_hatching_has_a_bounded_number_of_lines() -> None:
    run = empty_run(hosts=32, length=DAY)
    shown = view(run)
    boxes = [(T0 + i * HOUR // 60, T0 + (i + 1) * HOUR // 60, g, g + 1) for i in range(24 * 60) for g in range(64)]
    assert 0 < len(hatching(boxes, shown)) <= 1.1 * module.MOST_LINES


def test_an_eviction_is_a_red_edge_that_says_for_whom() -> None:
    run = empty_run(length=DAY)
    run.attempts = [attempt(1, (("n001", (0, 1)),), 0, HOUR), attempt(2, (("n001", (4,)),), 0, HOUR)]
    run.attempts[0].because = "evicted_standing"
    run.evictions = [
        EvictionRow(
            T0 + HOUR - 9, "1.1", 1, "", CLUSTER, True, 2, "evicted_standing", 7, "lab/vision/self", 0, 0
        )
    ]  # fmt: skip
    (edge,) = drawn(run, "edges")
    assert (edge["t"], edge["y"], edge["y2"]) == (T0 + HOUR, 0, 2)
    assert edge["ended"] == "2027-01-15 09:00 (evicted standing), for job 7 of vision/self"


def test_bars_are_cut_at_the_window() -> None:
    run = empty_run(length=DAY)
    run.attempts = [attempt(1, (("n001", (0,)),), 0, 9 * HOUR), attempt(2, (("n001", (1,)),), 9 * HOUR, 10 * HOUR)]
    found = timeline(run, (T0 + 2 * HOUR, T0 + 3 * HOUR))
    assert found is not None
    (bar,) = found.spec["datasets"]["bars"]
    assert (bar["attempt"], bar["t"], bar["t2"]) == ("1.1", T0 + 2 * HOUR, T0 + 3 * HOUR)
    assert timeline(run, (T0 + 20 * HOUR, T0 + 21 * HOUR)) is None


def test_what_is_shown_by_default() -> None:
    small, large = view(empty_run(hosts=4, warmup=DAY, length=9 * DAY)), view(empty_run(hosts=128, length=9 * DAY))
    assert (small.start, small.end, small.height) == (T0 + DAY, T0 + 3 * DAY, 32)
    assert (large.start, large.end, large.height, len(large.rows)) == (T0, T0 + DAY, 256, 32)
    interrupted = view(empty_run(warmup=DAY, length=6 * HOUR))
    assert (interrupted.start, interrupted.end) == (T0, T0 + 6 * HOUR)


def test_the_window_shrinks_until_there_are_few_enough_bars(monkeypatch: pytest.MonkeyPatch) -> None:
    run = fake_run()
    monkeypatch.setattr(module, "MOST_BARS", 40)
    shown = view(run)
    assert shown.end - shown.start < 48 * HOUR
    found = timeline(run)
    assert found is not None
    assert len(found.spec["datasets"]["bars"]) <= 40


def test_hosts_can_be_chosen() -> None:
    run = empty_run(hosts=40, length=DAY)
    run.attempts = [attempt(1, (("n035", (0, 1)), ("n001", (0,))), 0, HOUR)]
    assert [(b["y"], b["y2"]) for b in drawn(run, "bars")] == [(0, 1)]
    found = timeline(run, hosts=["n035", "n002"])
    assert found is not None
    assert [(b["y"], b["y2"]) for b in found.spec["datasets"]["bars"]] == [(8, 10)]
    assert "2 of 40 hosts" in str(found.spec)
    assert list(view(run, hosts=3).rows) == [(CLUSTER, "n001"), (CLUSTER, "n002"), (CLUSTER, "n003")]
    assert len(view(run, hosts=40).rows) == 40


@pytest.mark.parametrize(
    ("window", "hosts", "message"),
    [
        (None, ["n001", "n009"], "no such hosts in this run: n009"),
        ((T0 + HOUR, T0 + HOUR), None, "before it begins"),
    ],
)
def test_what_cannot_be_shown_is_refused(window: tuple[int, int] | None, hosts: list[str] | None, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        view(empty_run(), window, hosts)


def test_beyond_the_hues_the_smallest_teams_share_one() -> None:
    run = empty_run(length=DAY)
    run.attempts = [attempt(n, (("n001", (n % 8,)),), n * HOUR // 9, (n + 1) * HOUR) for n in range(1, 18)]
    for row in run.attempts:
        row.budget = f"lab/t{row.job_id:02d}"
    bars = drawn(run, "bars")
    assert {bar["team"] for bar in bars if bar["budget"] < "lab/t03"} == {"other teams"}
    assert len({bar["team"] for bar in bars}) == 16
    found = timeline(run)
    assert found is not None
    colours = found.spec["layer"][0]["encoding"]["color"]["scale"]["range"]
    assert set(TEAMS) <= set(colours)
    assert colours[-1] == OTHER_TEAMS


def test_stretches_follow_the_rows_of_the_hosts() -> None:
    shown = View(0, 1, {(CLUSTER, "b"): 0, (CLUSTER, "a"): 8}, 16, 2)
    row = attempt(1, (("a", (0, 1)), ("b", (6, 7)), ("elsewhere", (0,))), 0, HOUR)
    assert list(stretches(row, shown)) == [(6, 10)]
