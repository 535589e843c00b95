"""One process of a replica, from fork to exec, so that whatever fails in between is told in words."""

from __future__ import annotations

import os
import signal
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NoReturn

from tenure.executors import procs


@dataclass(frozen=True)
class Process:
    """What to run. ``label`` is how messages call it. ``stdout`` and ``stderr`` are appended to."""

    node_rank: int
    label: str
    command: Sequence[str]
    workdir: str
    env: Mapping[str, str]
    stdout: Path
    stderr: Path


def spawn(process: Process) -> tuple[int, int]:
    """Fork and exec in a session of its own; returns the pid and the read end of a pipe.

    The pipe ends empty when exec has worked and else holds the reason. The process dies with its parent.
    """
    reading, writing = os.pipe2(os.O_CLOEXEC)
    # A signal that arrives before the child has laid off our handlers waits until it has.
    previous = signal.pthread_sigmask(signal.SIG_BLOCK, signal.valid_signals())
    parent = os.getpid()
    pid = os.fork()
    if pid == 0:
        _become(process, parent, writing)
    signal.pthread_sigmask(signal.SIG_SETMASK, previous)
    os.close(writing)
    os.set_blocking(reading, False)
    return pid, reading


def _become(process: Process, parent: int, complain: int) -> NoReturn:
    """The child's side. Never returns."""
    step = "prepare"
    try:
        os.setsid()
        procs.die_with_parent()
        if os.getppid() != parent:
            os._exit(127)
        signal.set_wakeup_fd(-1)
        for number in signal.valid_signals() - {signal.SIGKILL, signal.SIGSTOP}:
            signal.signal(number, signal.SIG_DFL)
        step = "open the log files of"
        _redirect(process)
        step = f"enter the working directory {process.workdir!r} of"
        os.chdir(process.workdir)
        program = process.command[0] if process.command else ""
        step = f"run {program!r} (working directory {process.workdir!r}) as"
        signal.pthread_sigmask(signal.SIG_SETMASK, ())
        os.execvpe(program, [*process.command] or [""], process.env)
    except BaseException as error:
        # Nothing may escape into a second copy of the supervisor.
        reason = error.strerror if isinstance(error, OSError) and error.strerror else repr(error)
        os.write(complain, f"cannot {step} {process.label}: {reason}".encode(errors="replace")[:4096])
    finally:
        os._exit(127)


def _redirect(process: Process) -> None:
    appending = os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC
    os.dup2(os.open(os.devnull, os.O_RDONLY | os.O_CLOEXEC), 0)
    os.dup2(os.open(process.stdout, appending, 0o644), 1)
    os.dup2(os.open(process.stderr, appending, 0o644), 2)
