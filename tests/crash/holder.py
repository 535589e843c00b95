"""A job that proves that its GPU slots are its alone: ``holder.py DIRECTORY SECONDS HOW``.

It holds a lock on a file of each slot while it or a child of its lives, and a slot that it cannot lock is a GPU given
twice. What happens goes into ``DIRECTORY/records`` as one JSON object a line, with CLOCK_BOOTTIME in ms: ``start``,
``collision``, then ``stopped`` after SIGTERM (exit code 143), or ``ran`` and, after it has said that it is done,
``success``. HOW: ``run``, ``fail`` (exit code 1 at the end) or ``leave`` (a child in a session of its own stays behind,
with the locks). Standard library only, nothing of the product.
"""

import fcntl
import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

ATTEMPT, HOST = os.environ["TENURE_ATTEMPT_ID"], os.environ["TENURE_HOST"]
GPUS = [int(gpu) for gpu in os.environ["CUDA_VISIBLE_DEVICES"].split(",")]
EXIT_STOPPED = 143


def boottime() -> int:
    return time.clock_gettime_ns(time.CLOCK_BOOTTIME) // 1_000_000


def record(directory: Path, event: str, **more: object) -> None:
    line = {"attempt": ATTEMPT, "rank": os.environ["PET_NODE_RANK"], "host": HOST, "gpus": GPUS, "event": event}
    data = json.dumps({**line, "at": boottime(), **more}).encode() + b"\n"
    file = os.open(directory / "records", os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
    # One write to a file opened for appending: lines never mix, and no kill leaves half of one.
    assert os.write(file, data) == len(data)
    os.close(file)


def lock(directory: Path, gpu: int) -> int:
    file = os.open(directory / f"{HOST}.{gpu}", os.O_RDWR | os.O_CREAT, 0o644)
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        record(directory, "collision", gpu=gpu, holder=os.pread(file, 100, 0).decode())
    os.ftruncate(file, 0)
    os.pwrite(file, ATTEMPT.encode(), 0)
    return file


def main() -> int:
    # Blocked and asked for, not handled: a warning comes while it runs or not at all, never halfway.
    signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGTERM})
    directory, seconds, how = Path(sys.argv[1]), float(sys.argv[2]), sys.argv[3]
    locks = [lock(directory, gpu) for gpu in GPUS]
    record(directory, "start", restarts=os.environ["TENURE_RESTART_COUNT"])
    if how == "leave":
        command = [sys.executable, "-I", "-S", "-c", "import time; time.sleep(600)", str(directory)]
        subprocess.Popen(command, env={}, pass_fds=locks, start_new_session=True)
    if signal.sigtimedwait({signal.SIGTERM}, seconds) is not None:
        record(directory, "stopped")
        return EXIT_STOPPED
    record(directory, "ran")
    if how == "fail":
        return 1
    # What says "done" counts as a success, whatever comes next; so this is the moment that must come once.
    Path(os.environ["TENURE_DONE"]).touch()
    record(directory, "success")
    return 0


if __name__ == "__main__":
    sys.exit(main())
