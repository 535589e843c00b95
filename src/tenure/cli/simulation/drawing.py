"""The report of a simulated run."""

from __future__ import annotations

from pathlib import Path


def draw(folder: Path, *, window: tuple[int, int] | None, hosts: int | None) -> None:
    """Write the report of the run in ``folder``. ``window``: ms after its start. It may run in a worker process."""
    from tenure.reports import html, tables

    run = tables.read_run(folder)
    shown = None if window is None else (run.start + window[0], run.start + window[1])
    html.write_report(run, folder, window=shown, hosts=hosts)
