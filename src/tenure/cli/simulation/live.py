"""A live server's log, decided again by the simulator."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

from tenure.cli.errors import CliError

if TYPE_CHECKING:
    from tenure.reports.records import Run


def run_log(database_url: str, progress: Callable[[int], None]) -> tuple[Run, int, int]:
    """The run, its batches, and how many of them were decided differently from what was recorded. Raises CliError."""
    from tenure.engine import record
    from tenure.sim.log import Batch, LogRun
    from tenure.store import Store

    replayed, batches, different = LogRun("the live log"), 0, 0
    with Store.open_to_read(database_url) as store:
        kept: list[tuple[str, str]] = []

        def feed() -> Iterator[Batch]:
            for row in store.batches():
                kept.append((row.outcomes, row.plans))
                yield row.at, record.events_of(row)

        try:
            for result in replayed.feed(feed()):
                made = record.decisions_text(result.outcomes), record.decisions_text(result.plans)
                different += made != kept.pop()
                batches += 1
                progress(batches)
        except ValueError as error:
            raise CliError(str(error)) from error
    if not batches:
        raise CliError("the log is empty: has this server ever run?")
    return replayed.run, batches, different
