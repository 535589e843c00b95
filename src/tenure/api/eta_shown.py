"""What of an estimate may still come true: what the server's sentence and the command line show of it."""

from __future__ import annotations

from dataclasses import dataclass

from tenure.api.eta_models import EstimateView


@dataclass(frozen=True, slots=True)
class Shown:
    """Times ms UTC. ``likely`` None: not known, or not possible any more. ``high`` None: later than ``until``.

    ``passed``: the whole range is in the past, and this was its end; the others say nothing then.
    """

    low: int
    likely: int | None
    high: int | None
    until: int
    passed: int | None = None


def shown(found: EstimateView, now: int) -> Shown:
    """The range as of ``now``: it does not start in the past, nor later than what is decided already allows."""
    latest = max(found.latest, now) if found.latest is not None else None
    high, until = found.high, max(found.until, now)
    if latest is not None:
        high = latest if high is None or high < now else min(high, latest)
    elif high is not None and high < now:
        return Shown(now, None, now, until, passed=high)
    low = max(found.low, now)
    if high is not None and high < low:
        low = now  # the estimate does not know yet what was decided since
    possible = found.likely is not None and low <= found.likely and (high is None or found.likely <= high)
    return Shown(low, found.likely if possible else None, high, until)
