"""Why a live job is where it is, with the arithmetic: pure functions over a state of the core.

``answer(state, job)`` says it as frozen records. Nothing here reads a clock or changes the state: every number is as of
``state.now``, and standings are those that the next pass would begin with. ``story`` reads the store besides, for what
has happened to a job so far.
"""

from __future__ import annotations

from tenure.why.answer import answer
from tenure.why.records import Answer

__all__ = ["Answer", "answer"]
