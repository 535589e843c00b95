"""The mark of a job that ``job_submit.lua`` has held: its AdminComment, which its user can read and not change.

``tenure:1 requeue=yes [hold=user] [priority=N] [nice=N] [signal=WORD] [throttle=N]`` is what the plugin writes.
Adoption adds ``job=N server=WORD``, or ``refused: WHY`` at the end. A job that Tenure itself has submitted as its user
has ``given=NONCE``, too.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field, replace

VERSION = "tenure:1"
BEFORE = "before"
"""A word that adoption adds when a job that had ended waits again: the nodes it names are those of its last run."""
LONGEST = 600
"""Characters of a refusal: it is shown in one column."""
GIVEN = "given"
"""A word in the marks of jobs that Tenure has submitted as their users: which submission it was."""
_REFUSED = " refused: "
_WORD = re.compile(r"([a-z]+)=(\S+)")


@dataclass(frozen=True, slots=True)
class Mark:
    """``said``: the plugin's words. ``job``: of which job of Tenure ``server`` this is one, 0 while it is nobody's."""

    said: dict[str, str] = field(default_factory=dict)
    job: int = 0
    server: str = ""
    refused: str = ""

    def number(self, name: str) -> int | None:
        """A number that the plugin wrote, None for none."""
        value = self.said.get(name, "")
        return int(value) if re.fullmatch("-?[0-9]{1,18}", value) else None


def read(text: str) -> Mark | None:
    """None when it is no mark."""
    version, _, rest = text.partition(" ")
    if version != VERSION:
        return None
    words, _, refused = (" " + rest).partition(_REFUSED)
    said = dict(_WORD.findall(words))
    job, server = said.pop("job", ""), said.pop("server", "")
    return Mark(said, int(job) if job.isdecimal() else 0, server, refused)


def write(mark: Mark) -> str:
    words = [VERSION, *(f"{name}={value}" for name, value in mark.said.items())]
    if mark.job:
        words += [f"job={mark.job}", f"server={mark.server}"]
    return " ".join(words) + (_REFUSED + mark.refused if mark.refused else "")


def taken(mark: Mark, job: int, server: str) -> Mark:
    """The mark of what is job ``job`` of ``server`` from now on."""
    return replace(mark, job=job, server=server, refused="")


def shown(why: str) -> str:
    """A refusal as it can stand in a mark: one line, nothing that a terminal would obey."""
    return "".join(c if c.isprintable() else " " for c in why)[:LONGEST].strip()
