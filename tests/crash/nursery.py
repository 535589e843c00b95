"""Starts servers quickly: everything is imported once, and each line on stdin forks one off, ``FAULT`` or empty.

``nursery.py CONFIG PORT``. Writes ``started PID`` and, when that server has ended, ``ended CODE`` to stdout, where the
server's own announcement comes in between.
"""

from __future__ import annotations

import os
import signal
import sys
from pathlib import Path

from tenure import logs
from tenure.api import serve


def main(config: str, port: str) -> None:
    logs.configure()
    while fault := sys.stdin.readline():
        pid = os.fork()
        if pid == 0:
            signal.set_wakeup_fd(-1)
            if fault.strip():
                os.environ["TENURE_FAULT"] = fault.strip()
            os._exit(serve.run(Path(config), port=int(port)))
        print(f"started {pid}", flush=True)
        # A server that was killed may have left half a line behind.
        print(f"\nended {os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])}", flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
