"""What a job's user says to Tenure in its comment: ``--comment="tenure: min_runtime=2h budget=lab/vision"``."""

from __future__ import annotations

from typing import Any

from tenure.core.reasons import Reason, Refusal
from tenure.scripts import lines
from tenure.scripts.errors import COMMAND_LINE, ScriptError
from tenure.scripts.lines import Word
from tenure.scripts.table import Takes

PREFIX = "tenure:"
WISHES = {
    "budget": Takes.VALUE,
    "min-runtime": Takes.VALUE,
    "grace": Takes.VALUE,
    "warn-signal": Takes.VALUE,
    "priority": Takes.VALUE,
    "resumable": Takes.NOTHING,
    "no-resumable": Takes.NOTHING,
}


def read(comment: str) -> dict[str, Any]:
    """Fields of a request for a job, from a comment that begins with ``tenure:``; none from any other.

    Options as on ``#TENURE`` lines, with or without the dashes. Raises Refusal.
    """
    text = comment.strip()
    if not text.lower().startswith(PREFIX):
        return {}
    try:
        words = [_option(word) for word in lines.words(text[len(PREFIX) :], COMMAND_LINE)]
        given = list(lines.tenure_options(words, WISHES))
    except ScriptError as error:
        raise Refusal(Reason.BAD_VALUE, "comment", text[:100], f"{error}; {_known()}") from error
    found: dict[str, Any] = {}
    for one in given:
        name = one.name.replace("-", "_")
        if name in ("resumable", "no_resumable"):
            found["resumable"] = name == "resumable"
        elif name == "priority":
            found[name] = _number(one.value or "")
        else:
            found[name] = one.value
    return found


def _option(word: Word) -> Word:
    name, equals, value = word.text.removeprefix("--").partition("=")
    return Word(f"--{name.replace('_', '-')}{equals}{value}", word.place)


def _number(text: str) -> int:
    try:
        return int(text)
    except ValueError:
        raise Refusal(Reason.BAD_VALUE, "priority", text[:100], "write a whole number, like 10") from None


def _known() -> str:
    return "after tenure: stand " + ", ".join(sorted(name.replace("-", "_") for name in WISHES))
