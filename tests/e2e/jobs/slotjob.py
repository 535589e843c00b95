"""A job for crash tests that writes down which GPU slots it held and when: ``slotjob.py RECORDS SECONDS``.

It appends one JSON object a line to the file RECORDS: ``job``, ``attempt``, ``replica``, ``host``, ``gpus``
(a list), ``event``, ``outcome``, ``wall`` (seconds since the epoch) and ``boottime_ms`` (which nobody can
step). ``start`` comes first; ``end`` follows with outcome ``stopped`` after SIGTERM (exit code 143) or
``ran`` after SECONDS; a last line ``success`` is there only when it ran. A job that is killed leaves no
``end``. Standard library only, nothing of the product: it must start fast and must not share its faults.
"""

import json
import os
import signal
import socket
import sys
import time
from pathlib import Path

EXIT_STOPPED = 143


def record(path: str, event: str, outcome: str | None = None) -> None:
    """Append one line. Raises OSError when it could not be written whole."""
    gpus = os.environ.get("CUDA_VISIBLE_DEVICES", "")
    line = {
        "job": os.environ.get("TENURE_JOB_ID"),
        "attempt": os.environ.get("TENURE_ATTEMPT"),
        "replica": os.environ.get("PET_NODE_RANK", "0"),
        "host": os.environ.get("TENURE_HOST") or socket.gethostname(),
        "gpus": gpus.split(",") if gpus else [],
        "event": event,
        "outcome": outcome,
        "wall": time.time(),
        "boottime_ms": time.clock_gettime_ns(time.CLOCK_BOOTTIME) // 1_000_000,
    }
    data = json.dumps(line).encode() + b"\n"
    file = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
    try:
        # One write to a file opened for appending: lines never mix, and no kill leaves half of one.
        if os.write(file, data) != len(data):
            raise OSError(f"{path}: short write")
    finally:
        os.close(file)


def main() -> int:
    # Blocked and asked for, not handled: a warning comes while it runs or not at all, never halfway.
    signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGTERM})
    path, seconds = sys.argv[1], float(sys.argv[2])
    record(path, "start")
    if signal.sigtimedwait({signal.SIGTERM}, seconds) is not None:
        record(path, "end", "stopped")
        return EXIT_STOPPED
    record(path, "end", "ran")
    if done := os.environ.get("TENURE_DONE"):
        # Without the marker a warning that comes from here on would have the job run, and succeed, again.
        Path(done).touch()
    record(path, "success")
    return 0


if __name__ == "__main__":
    sys.exit(main())
