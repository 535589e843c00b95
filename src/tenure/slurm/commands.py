"""Slurm's commands: argument lists with a time-out, and one exception for all that goes wrong with them."""

from __future__ import annotations

import os
import re
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

TIMEOUT_S = 20.0
LARGEST_OUTPUT = 64 * 1024 * 1024
_KEPT = ("PATH", "HOME", "USER", "LOGNAME", "SLURM_CONF", "TZ")
_UMASK = 0o022
_HOPELESS = re.compile(
    "invalid node name|node configuration is not available|more processors requested|invalid generic resource|"
    "memory specification can not be satisfied",
    re.IGNORECASE,
)


@dataclass(frozen=True, slots=True)
class Become:
    """``words`` before a command that make it run as another user, and what is that user's in its environment."""

    words: tuple[str, ...]
    env: Mapping[str, str]


class CommandFailed(Exception):
    """A command ended with an error, did not end in time, or is not there. The message is for people.

    ``hopeless``: the same command would fail again, because of what was asked for. An unknown partition or account is
    not: that is for the operator to mend, and no reason to fail jobs.
    """

    def __init__(self, command: str, how: str, said: str = "") -> None:
        super().__init__(f"{command} {how}" + (f": {said}" if said else ""))
        self.said = said
        self.hopeless = bool(_HOPELESS.search(said))


class Commands:
    """Runs Slurm's commands from ``folder``, or from PATH. Several threads may use one.

    ``timeout_s``: of those that are not given another.
    """

    def __init__(
        self,
        folder: Path | None = None,
        environment: Mapping[str, str] | None = None,
        timeout_s: float = TIMEOUT_S,
    ) -> None:
        self._folder = folder
        self._timeout_s = timeout_s
        given = os.environ if environment is None else environment
        # Variables like SBATCH_PARTITION or SQUEUE_FORMAT would change what the commands do and print.
        self._env = {name: given[name] for name in _KEPT if name in given}
        self._env |= {"LC_ALL": "C.UTF-8", "SLURM_TIME_FORMAT": "%s"}

    def run(
        self,
        program: str,
        *arguments: str,
        stdin: str = "",
        timeout_s: float | None = None,
        become: Become | None = None,
    ) -> str:
        """What the command prints. ``become``: as whom it runs, None: as this process. Raises CommandFailed."""
        path = str(self._folder / program) if self._folder is not None else program
        limit = self._timeout_s if timeout_s is None else timeout_s
        shown = " ".join((program, *_short(arguments)))
        try:
            done = subprocess.run(
                [*(become.words if become is not None else ()), path, *arguments],
                input=stdin.encode(),
                env=self._env if become is None else {**self._env, **become.env},
                # Slurm hands the umask on to the job.
                umask=-1 if become is None else _UMASK,
                cwd="/",
                capture_output=True,
                timeout=limit,
                check=False,
            )
        except subprocess.TimeoutExpired:
            raise CommandFailed(shown, f"did not end within {limit:g} s") from None
        except OSError as error:
            raise CommandFailed(shown, "cannot be run", error.strerror or str(error)) from error
        if done.returncode:
            raise CommandFailed(shown, f"ended with {done.returncode}", _first_line(done.stderr))
        if len(done.stdout) > LARGEST_OUTPUT:
            raise CommandFailed(shown, f"printed more than {LARGEST_OUTPUT >> 20} MiB")
        return done.stdout.decode(errors="replace")


def _first_line(text: bytes) -> str:
    lines = text[:4096].decode(errors="replace").strip().splitlines()
    return re.sub(r"^\w+: error: ", "", lines[0]) if lines else ""


def _short(arguments: Sequence[str]) -> list[str]:
    return [one if len(one) <= 60 else f"{one[:57]}..." for one in arguments[:4]]
