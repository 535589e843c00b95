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

MEANINGS: dict[Kind, str] = {
    Kind.STARTED: "it was given its GPUs, for the first time or again",
    Kind.EXPOSED: "its protection is about to end: from then on it may be preempted",
    Kind.WILL_BE_PREEMPTED: "it was decided to preempt it, with the time by which it has to be gone",
    Kind.PREEMPTED: "it was preempted: by whom, why, and whether it comes back",
    Kind.ENDED: "it ended with success, or somebody else cancelled it",
    Kind.FAILED: "it failed, reached its timeout, or one of its attempts failed and it is tried again",
    Kind.WAITS_LONGER: "it waits longer than it was told",
    Kind.HELD: "somebody else holds it, or its budget has no share any more",
}

USUAL = tuple(kind for kind in Kind if kind is not Kind.EXPOSED)
"""What somebody is told who has not chosen."""
LEAST = (Kind.PREEMPTED, Kind.FAILED)
"""What somebody is told by default who has said nothing at all, where the operator wants that."""
URGENT = (Kind.WILL_BE_PREEMPTED,)
"""What neither a digest nor quiet hours put off, unless somebody chose otherwise."""
EXPOSED_AHEAD = 10 * MINUTE
"""So long before the end of a protection it is told."""
