"""One attempt of a training program, as the program sees it."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import NoReturn

from tenure.training.ear import Ear, KillWarning
from tenure.training.saving import Series

EXIT_WARNED = 143
"""After a warning: what shells report for SIGTERM. With 0, a job that is not resumable would count as finished."""
_NOTHING, _DUE, _WARNED = 0, 1, 2
Agree = Callable[[int], int]
"""Of several processes: given this one's number, returns the largest of all. Each of them calls it each time."""


class Run:
    """Listens for the warning and keeps time. ``every_s``: seconds between checkpoints.

    ``directory``: for checkpoints, where the scheduler names none. ``agree``: for programs of several processes, so
    that all save and stop at the same step (``tenure.training.torch.agree``, for instance); without it each decides for
    itself. ``warn_signal``: the name of a signal that is a warning, also where no scheduler has said so. ``env`` is
    read once. To be made in the main thread: elsewhere no signal is heard, only the file. Raises ValueError.
    """

    def __init__(
        self,
        every_s: float = 600.0,
        *,
        directory: str | Path | None = None,
        agree: Agree | None = None,
        warn_signal: str | None = None,
        env: Mapping[str, str] | None = None,
    ) -> None:
        if not every_s > 0:
            raise ValueError(f"every_s={every_s} is not above 0; use float('inf') to save on warnings only")
        env = os.environ if env is None else env
        own = env.get("TENURE_CHECKPOINT_DIR") or directory
        self._directory = Path(own) if own else None
        self._report, self._done = env.get("TENURE_CHECKPOINT"), env.get("TENURE_DONE")
        self._every_s, self._agree = every_s, agree
        self._since = time.monotonic()
        self._stopping = False
        self._ear = Ear(env, warn_signal)

    def close(self) -> None:
        """Listen no more; a handler that was there before is back."""
        self._ear.close()

    def insist(self) -> None:
        """Take the signal back from a handler that was installed since, which is not called any more."""
        self._ear.insist()

    def warned(self) -> bool:
        """Whether this process knows by now that the attempt will be killed."""
        return self._ear.warned()

    def warning(self) -> KillWarning | None:
        """Why and when, if it was warned."""
        return self._ear.warning()

    def time_left(self) -> float | None:
        """Seconds until the kill, 0.0 when it is due; None: not warned, or nobody has said."""
        return self._ear.time_left()

    def should_checkpoint(self) -> bool:
        """True once after a warning, and whenever ``every_s`` have passed since the last True, or the last ``saved``.

        With ``agree`` all processes get the same answer, and all have to ask equally often.
        """
        now = time.monotonic()
        mine = _DUE if now - self._since >= self._every_s else _NOTHING
        if not self._stopping and self.warned():
            mine = _WARNED
        agreed = mine if self._agree is None else self._agree(mine)
        if agreed == _NOTHING:
            return False
        self._stopping = self._stopping or agreed >= _WARNED
        self._since = now
        return True

    def should_stop(self) -> bool:
        """Whether a ``should_checkpoint`` has seen a warning: never before there was an occasion to save."""
        return self._stopping

    def checkpoint_dir(self) -> Path | None:
        """A directory that all attempts of the job share, made if it was not there; None: there is none."""
        if self._directory is not None:
            self._directory.mkdir(parents=True, exist_ok=True)
        return self._directory

    def resume_path(self, name: str = "checkpoint") -> Path | None:
        """The newest checkpoint that ``save`` has made under this ``name``, None for a fresh start."""
        return Series(self._directory, name).newest() if self._directory is not None else None

    def save(
        self,
        write: Callable[[Path], object],
        step: int,
        *,
        name: str = "checkpoint",
        keep: int = 2,
        rank: int | None = None,
    ) -> Path | None:
        """Let ``write`` make a file or a folder at the path that it is given; only then it takes its name.

        Keeps the ``keep`` newest, and reports this one. None: there is no directory, and nothing was done. ``rank``: of
        several processes that write one checkpoint together; ``write`` returns in rank 0 only when all have written.
        Raises what ``write`` and the file system raise; what was there before is there still.
        """
        if self._directory is None:
            return None
        path = Series(self._directory, name).save(write, step, keep, rank)
        if not rank:
            self.saved()
        return path

    def saved(self) -> None:
        """Report a checkpoint: its time tells the scheduler how much work an eviction would lose."""
        if self._report:
            Path(self._report).touch()
        self._since = time.monotonic()

    def done(self) -> None:
        """Say that the work is complete, so that it is not run again."""
        if self._done:
            Path(self._done).touch()

    def leave(self) -> NoReturn:
        """Exit with ``EXIT_WARNED``. Raises SystemExit."""
        sys.exit(EXIT_WARNED)
