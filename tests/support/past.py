"""Usage before a world began."""

from __future__ import annotations

from support.world import World
from tenure.core.ledger import Kind, Span
from tenure.core.model import GPU, HOUR
from tenure.core.snapshot import rebuild

RECENT = 20
"""Hours ago that lie inside the last day for a while."""
OLD = 72
"""Hours ago that lie inside the lookback, but not in the last day."""


def past(world: World, *used: tuple[str, int, int] | tuple[str, int, int, str], kind: Kind = Kind.CHARGED) -> None:
    """Let it have happened before the world began: (leaf, GPU-hours, hours ago, user), each within one hour."""
    spans = []
    for leaf, gpu_hours, ago, *user in used:
        start = world.now - ago * HOUR
        spans.append(Span("0.0", leaf, user[0] if user else "old", kind, gpu_hours * GPU, start, start + HOUR))
    for name in world.state.clusters:
        ledger, made = world.state.clusters[name].ledger, rebuild(spans, {})
        assert not any(series.times for account in ledger.accounts.values() for series in account.used.values())
        for path, account in made.accounts.items():
            ledger.account(path).used = account.used
        for (leaf, user_name), account in made.people.items():
            ledger.person(leaf, user_name).used = account.used
        world.spans += [(name, span) for span in spans]
