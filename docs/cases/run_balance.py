"""The example of ``docs/balance.md``: ten days of a small lab, and the statements of two of its budgets.

``python docs/cases/run_balance.py`` prints what the page quotes; with ``--write`` it also writes that as
``balance.txt`` next to this file, and the picture. Same code, same output, to the byte (but for the picture).
"""

from __future__ import annotations

import io
import os
import sys
import time
from pathlib import Path

from rich.console import Console
from run_cases import BEGIN, Lab

from tenure import balance
from tenure.api.balance_models import BalanceView
from tenure.api.balance_views import Called, balance_view_of
from tenure.cli import statement
from tenure.cli.balance_chart import chart
from tenure.core.model import HOUR
from tenure.reports.charts import pictures

HERE = Path(__file__).parent
SHARES = {"lab/language": 25, "lab/language/pretrain": 60, "lab/language/align": 40, "lab/vision": 75}
OVER, UNDER = "lab/language", "lab/vision"


class Named(Lab):
    """A lab whose jobs have names."""

    def __init__(self, hosts: int, shares: dict[str, int]) -> None:
        super().__init__(hosts, shares)
        self.names: dict[int, str] = {}

    def begin(self, name: str, budget: str, gpus: int, user: str, min_runtime: int = HOUR) -> int:
        job = self.submit(budget, gpus=gpus, min_runtime=min_runtime, user=user)
        self.names[job] = name
        return job


def ten_days() -> Named:
    """4 hosts of 8 GPUs from 1 to 10 January 2026, 10:00."""
    lab = Named(4, SHARES)

    def at(day: int, hour: int) -> None:
        lab.advance(BEGIN + (day - 1) * 24 * HOUR + hour * HOUR - lab.now)

    at(3, 8)
    corpus = lab.begin("corpus", "lab/language/pretrain", 16, "ann")
    at(4, 2)
    sweep = lab.begin("sweep", "lab/language/align", 8, "dora", 0)
    at(4, 4)
    lab.finish(corpus)
    at(4, 18)
    lab.finish(sweep)
    frames = lab.begin("frames", "lab/vision", 16, "eve")
    at(5, 12)
    tuning = lab.begin("tuning", "lab/language/pretrain", 8, "bob")
    at(6, 18)
    lab.finish(tuning)
    lab.finish(frames)
    at(7, 9)
    rewards = lab.begin("rewards", "lab/language/align", 8, "dora")
    at(8, 6)
    large = lab.begin("large", "lab/language/pretrain", 24, "ann")
    at(8, 9)
    lab.finish(rewards)
    at(9, 6)
    lab.finish(large)
    at(9, 12)
    lab.begin("larger", "lab/language/pretrain", 24, "bob", 8 * HOUR)
    at(10, 8)
    lab.begin("rewards-2", "lab/language/align", 8, "dora", 4 * HOUR)
    at(10, 10)
    return lab


def view_of(lab: Named, path: str) -> BalanceView:
    facts = balance.gather(lab.state, "main", path, lab.now)
    closed = [span for _, span in lab.state.closed_spans]
    of_jobs = {"main": (facts, balance.jobs(facts, closed))}
    return balance_view_of(path, lab.now, lab.policy.lookback, of_jobs, lambda job: Called(str(job), lab.names[job]))


def printed(view: BalanceView, *, brief: bool = False) -> str:
    """As a terminal without colours shows it."""
    text = io.StringIO()
    statement.show(Console(file=text, width=120, highlight=False, emoji=False), view, brief=brief)
    return "\n".join(line.rstrip() for line in text.getvalue().splitlines()).rstrip() + "\n"


def main(arguments: list[str]) -> None:
    os.environ["TZ"] = "UTC"
    time.tzset()
    lab = ten_days()
    over = view_of(lab, OVER)
    text = f"== over\n{printed(over)}== under\n{printed(view_of(lab, UNDER), brief=True)}"
    print(text, end="")
    if arguments[:1] == ["--write"]:
        (HERE / "balance.txt").write_text(text, "utf-8")
        (HERE.parent / "figures/balance.svg").write_text(pictures.svg(chart(over)), "utf-8")


if __name__ == "__main__":
    main(sys.argv[1:])
