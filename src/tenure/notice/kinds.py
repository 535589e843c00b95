"""What people can be told: one closed list."""

from __future__ import annotations

from tenure.core.model import MINUTE, Word


class Kind(Word):
    STARTED = "started"
    EXPOSED = "exposed"
    WILL_BE_PREEMPTED = "will_be_preempted"
    PREEMPTED = "preempted"
    ENDED = "ended"
    FAILED = "failed"
    WAITS_LONGER = "waits_longer"
    HELD = "held"


class Channel(Word):
    EMAIL = "email"
    WEBHOOK = "webhook"


TEST = "test"
"""The kind of what is sent to see whether it arrives. Everybody gets that."""

USUAL = tuple(kind for kind in Kind if kind is not Kind.EXPOSED)
"""What somebody is told who has not chosen."""
LEAST = (Kind.PREEMPTED, Kind.FAILED)
"""What somebody is told by default who has said nothing at all, where the operator wants that."""
URGENT = (Kind.WILL_BE_PREEMPTED,)
"""What neither a digest nor quiet hours put off, unless somebody chose otherwise."""
EXPOSED_AHEAD = 10 * MINUTE
"""So long before the end of a protection it is told."""
