"""``python -m tenure.forecast``: the process beside the server that makes estimates. The server starts and ends it.

What it is to do comes as one line of JSON on standard input, which stays open for as long as the server lives: its end
is the end of this process, too, however the server ended.
"""

from __future__ import annotations

import json
import os
import sys
import threading
import time
from typing import NoReturn

import structlog

from tenure import logs
from tenure.forecast.estimator import Estimator
from tenure.store import Store

log = structlog.get_logger()

_CPU_PART = 0.2
"""The part of the time between two rounds that one may cost of a CPU."""
_LOOK_S = 5.0
"""How often it looks for jobs that have no estimate yet."""


def main() -> NoReturn:
    """Never returns."""
    told = json.loads(sys.stdin.readline())
    every_s: float = told["every_ms"] / 1000
    logs.configure(told["log_level"])
    os.nice(19)
    threading.Thread(target=_end_with_server, name="server", daemon=True).start()
    with Store.open(told["database_url"]) as store:
        while True:
            try:
                _work(store, every_s)
            except Exception as error:  # whatever it is, estimates are not worth more than a line in the log
                log.exception("estimates_failed", error=str(error), fix="tried again; please report it")
            time.sleep(every_s)


def _end_with_server() -> None:
    while os.read(sys.stdin.fileno(), 4096):
        pass
    os._exit(0)


def _work(store: Store, every_s: float) -> None:
    """Rounds, until something goes wrong: at the latest ``every_s`` after the last, for new jobs earlier."""
    estimator = Estimator(store, every_s * _CPU_PART)
    while True:
        began = time.monotonic()
        count = estimator.round()
        took = time.monotonic() - began
        log.debug("estimated", jobs=count, seconds=round(took, 1))
        soonest = began + min(every_s, max(took / _CPU_PART, _LOOK_S))
        while (now := time.monotonic()) < began + every_s:
            time.sleep(min(_LOOK_S, began + every_s - now))
            if estimator.follow() and time.monotonic() >= soonest:
                break


if __name__ == "__main__":
    main()
