"""The parts of a frame of ``tenure top``: how they fit, and in which order things stand."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from tenure.api.models import BudgetUsage, BudgetView, HolderView, HostView
from tenure.cli.top import pieces
from tenure.cli.top.snapshot import Gpu, gpus_of, in_order


def host(name: str, state: str = "healthy", others: int = 0, *holders: HolderView) -> HostView:
    return HostView(
        cluster="main",
        name=name,
        state=state,
        since=0,
        by="",
        why="",
        gpus=8,
        free_gpus=8,
        cpus=8,
        memory_mib=8,
        labels={},
        others_gpus=others,
        attempts=list(holders),
    )


def holder(gpus: Sequence[int], protection: str, until: int | None) -> HolderView:
    return HolderView(
        attempt="1.1",
        job=1,
        user="ada",
        budget="lab",
        state="running",
        gpus=list(gpus),
        protection="protected" if protection == "protected" else "exposed",
        protected_until=until,
    )


def usage(ratio: float | None, recent: float | None) -> BudgetUsage:
    hours = dict.fromkeys(["used_gpu_hours", "committed_gpu_hours", "entitled_gpu_hours", "unallocated_gpu_hours"], 1.0)
    counts = dict.fromkeys(["running_jobs", "running_gpus", "unallocated_gpus", "queued_jobs", "queued_gpus"], 0)
    return BudgetUsage(
        share=0.1, allocation=0.1, allocation_gpus=1, ratio=ratio, ratio_last_day=recent, **hours, **counts
    )


def budget(path: str, ratio: float | None, recent: float | None) -> BudgetView:
    use = {"main": usage(ratio, recent)}
    return BudgetView(path=path, depth=path.count("/"), implicit=False, managers=[], members=[], clusters=use)


def test_each_gpu_of_a_host_is_told() -> None:
    attempts = (holder([0, 1], "protected", None), holder([2], "exposed", 5), holder([7], "exposed", None))
    assert gpus_of(host("a", "healthy", 2, *attempts)) == [
        Gpu.PROTECTED,
        Gpu.PROTECTED,
        Gpu.EXPOSED,
        Gpu.FREE,
        Gpu.FREE,
        Gpu.OTHERS,
        Gpu.OTHERS,
        Gpu.UNALLOCATED,
    ]
    assert gpus_of(host("a", "draining", 0, holder([0], "exposed", 5))) == [Gpu.EXPOSED] + [Gpu.OUT] * 7
    assert gpus_of(host("a", "failed", 0, holder([0], "exposed", 5))) == [Gpu.OUT] * 8


@pytest.mark.parametrize(
    ("hosts", "width", "height", "colours", "first", "lines"),
    [
        (4, 40, 4, True, "n000 ········  n001 ········", 2),
        (8, 40, 2, True, "········ ········ ········ ········", 2),
        (16, 40, 2, True, "▀▀▀▀ ▀▀▀▀ ▀▀▀▀ ▀▀▀▀ ▀▀▀▀ ▀▀▀▀ ▀▀▀▀ ▀▀▀▀", 2),
        (20, 40, 2, True, "▀" * 40, 2),
        (128, 40, 4, True, "·" * 40, 4),
        (16, 40, 2, False, "·" * 16, 1),
        (128, 20, 2, True, "·" * 20, 7),
    ],
)
def test_the_map_is_as_large_as_fits(
    hosts: int, width: int, height: int, colours: bool, first: str, lines: int
) -> None:
    made = pieces.map_lines([host(f"n{n:03}") for n in range(hosts)], width, height, colours=colours)
    assert made[0].plain == first
    assert len(made) == lines and all(line.cell_len <= width for line in made)


def test_siblings_stand_in_the_order_of_rule_5() -> None:
    """Below the last day's allocation first, then the lower ratio, then the name; without entitlement last."""
    found = in_order(
        [
            budget("lab", 0.9, 0.9),
            budget("lab/none", None, None),
            budget("lab/late", 0.2, 1.0),
            budget("lab/b", 0.7, 0.9),
            budget("lab/a", 0.7, 0.9),
            budget("lab/far", 1.5, 0.99),
            budget("lab/far/below", 0.1, 0.1),
        ],
        "main",
    )
    assert [one.path for one in found] == [
        "lab",
        "lab/a",
        "lab/b",
        "lab/far",
        "lab/far/below",
        "lab/late",
        "lab/none",
    ]


@pytest.mark.parametrize(
    ("ratio", "bar"),
    [(None, "────┼────"), (0.0, "────┼────"), (0.5, "━━──┼────"), (1.2, "━━━━╋────"), (7.0, "━━━━╋━━━━")],
)
def test_the_bar_reaches_the_middle_at_one(ratio: float | None, bar: str) -> None:
    assert pieces.ratio_bar(ratio, 9).plain == bar


@pytest.mark.parametrize("width", [30, 44, 60, 120])
def test_budget_lines_keep_to_their_width(width: int) -> None:
    budgets = [budget("lab", 0.9, 0.9), budget("lab/a-program-with-a-long-name", 12.5, 100.0)]
    lines = pieces.budget_lines(budgets, "main", width)
    assert len(lines) == 3 and len({line.cell_len for line in lines}) == 1
    assert width < 40 or lines[0].cell_len <= width
