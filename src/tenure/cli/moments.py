"""``--at``: a past moment as people write it, and patience while the server goes back to it."""

from __future__ import annotations

import re
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Annotated

import typer

from tenure import units

AtOption = Annotated[
    str | None,
    typer.Option("--at", metavar="TIME", help="As it was then: 2h30m ago, 14:30, 2026-10-09T14:30, or RFC 3339."),
]
SOON_S = 2.0
"""How long somebody waits without being told what for."""
_CLOCK = re.compile(r"([0-9]{1,2}):([0-9]{2})(?::([0-9]{2}))?")


def moment(text: str, now: int) -> str:
    """What the server understands: a time without a zone is this machine's, an hour alone is today's.

    The rest is the server's to read, or to refuse with what would work.
    """
    bare = text.strip()
    clock = _CLOCK.fullmatch(bare)
    if clock is not None:
        today = time.strftime("%Y-%m-%d", time.localtime(now / 1000))
        bare = f"{today}T{int(clock[1]):02d}:{clock[2]}:{clock[3] or '00'}"
    return local_time(bare) or text


def local_time(text: str) -> str | None:
    """RFC 3339 of a time of this machine's zone, like ``2026-10-09T14:30`` or a day alone; None of anything else."""
    for form in ("%Y-%m-%dT%H:%M:%S", "%Y-%m-%dT%H:%M", "%Y-%m-%d"):
        try:
            return units.format_time(int(time.mktime(time.strptime(text.strip().replace(" ", "T"), form))) * 1000)
        except (ValueError, OverflowError):
            continue
    return None


@contextmanager
def patience(what: str) -> Iterator[None]:
    """Say what is waited for as soon as it takes longer than ``SOON_S``; on a terminal only, and gone afterwards."""
    from tenure.cli import render

    status = render.errors().status(what)
    timer = threading.Timer(SOON_S, status.start)
    timer.daemon = True
    timer.start()
    try:
        yield
    finally:
        timer.cancel()
        timer.join()
        status.stop()
