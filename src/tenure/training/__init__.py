"""What makes a training program resumable in a few lines; see ``docs/training.md``.

Everything here works by the environment variables and files of a job (``docs/jobs.md``). Outside of Tenure there are
none, and nothing happens: nobody warns, ``should_checkpoint`` is True when its time has come, and with no ``directory``
nothing is saved. Standard library only; nothing else of Tenure is imported::

    from tenure import training

    training.start(every_s=600)
    step = load(path) if (path := training.resume_path()) else 0
    while step < STEPS:
        step = train(step)
        if training.should_checkpoint():
            training.save(lambda path: write(path, step), step)
        if training.should_stop():
            training.leave()
    training.done()

These functions speak to one ``Run``, that of the process.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import NoReturn

from tenure.training.ear import KillWarning
from tenure.training.run import EXIT_WARNED, Agree, Run

__all__ = [
    "EXIT_WARNED",
    "KillWarning",
    "Run",
    "checkpoint_dir",
    "current",
    "done",
    "leave",
    "resume_path",
    "save",
    "saved",
    "should_checkpoint",
    "should_stop",
    "start",
    "time_left",
    "warned",
    "warning",
]

_run: Run | None = None


def start(
    every_s: float = 600.0,
    *,
    directory: str | Path | None = None,
    agree: Agree | None = None,
    warn_signal: str | None = None,
) -> Run:
    """Listen for the warning from here on; to be called first, in the main thread. Arguments as for ``Run``.

    Without it the first of the other calls does it. Called again it begins anew. Raises ValueError.
    """
    global _run  # noqa: PLW0603  # one process, one attempt
    if _run is not None:
        _run.close()
    _run = Run(every_s, directory=directory, agree=agree, warn_signal=warn_signal)
    return _run


def current() -> Run:
    """The run of this process, begun now if it was not."""
    return _run if _run is not None else start()


def warned() -> bool:
    """Whether this process knows by now that the attempt will be killed."""
    return current().warned()


def warning() -> KillWarning | None:
    """Why and when, if it was warned."""
    return current().warning()


def time_left() -> float | None:
    """Seconds until the kill, 0.0 when it is due; None: not warned, or nobody has said."""
    return current().time_left()


def should_checkpoint() -> bool:
    """True once after a warning, and whenever ``every_s`` have passed since the last True, or the last ``saved``."""
    return current().should_checkpoint()


def should_stop() -> bool:
    """Whether a ``should_checkpoint`` has seen a warning."""
    return current().should_stop()


def checkpoint_dir() -> Path | None:
    """A directory that all attempts of the job share, made if it was not there; None: there is none."""
    return current().checkpoint_dir()


def resume_path(name: str = "checkpoint") -> Path | None:
    """The newest checkpoint of this ``name``, None for a fresh start."""
    return current().resume_path(name)


def save(
    write: Callable[[Path], object],
    step: int,
    *,
    name: str = "checkpoint",
    keep: int = 2,
    rank: int | None = None,
) -> Path | None:
    """Let ``write`` make a checkpoint, whole or not at all, and report it. None: there is nowhere to put it."""
    return current().save(write, step, name=name, keep=keep, rank=rank)


def saved() -> None:
    """Report a checkpoint that the program has written itself."""
    current().saved()


def done() -> None:
    """Say that the work is complete, so that it is not run again."""
    current().done()


def leave() -> NoReturn:
    """After a warning, when all is saved: exit with ``EXIT_WARNED``. Raises SystemExit."""
    current().leave()
