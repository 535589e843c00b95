"""How far usage may move before anybody can come to outrank somebody else: what spares passes from asking each time.

Between siblings a and b the reach of a over b (see ``fairshare.reach``) grows by at most as much as the usage of b
rises or that of a falls, and 1 for rounding. So when it has been measured, and the next margin that waits below a is
``slack`` above it, nothing is to be tried until one of the two has moved by that much. Each node keeps the tightest of
these bounds on its usage over the lookback and the last day, and the time from which on it could have passed them.

Entitlements that change as time passes (hosts came and went) are measured at their worst over ``HORIZON``.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from heapq import heappop, heappush

from tenure.core.fairshare import FAR, Figures, Standing
from tenure.core.model import MINUTE

HORIZON = 10 * MINUTE
"""How long a measurement holds, ms, while entitlements drift."""
NEVER = 1 << 62


@dataclass(slots=True)
class Bounds:
    """Between which values the usage of a node may be, and until when (ms UTC) they hold."""

    low: int = -FAR
    high: int = FAR
    low_recent: int = -FAR
    high_recent: int = FAR
    until: int = NEVER

    def hold(self, figures: Figures, now: int) -> bool:
        return (
            self.low <= figures.used <= self.high
            and self.low_recent <= figures.used_recent <= self.high_recent
            and now < self.until
        )


@dataclass(frozen=True, slots=True)
class Slack:
    """What one node's reach over a sibling may still grow: the usage of the one may fall, of the other rise, so far."""

    low: int
    low_recent: int
    high: int
    high_recent: int
    until: int

    def holds(self, mine: Figures, theirs: Figures, now: int) -> bool:
        return (
            self.low <= mine.used
            and self.low_recent <= mine.used_recent
            and theirs.used <= self.high
            and theirs.used_recent <= self.high_recent
            and now < self.until
        )


ENDLESS = Slack(-FAR, -FAR, FAR, FAR, NEVER)
"""Of a reach above every margin that waits: it may grow for ever."""


@dataclass(slots=True)
class Watch:
    """What one queue knows of reaches: levels, bounds, and alarms."""

    levels: dict[str, dict[str, int]] = field(default_factory=dict)
    """Node -> sibling -> a margin that it does not reach over it, or did when the groups below it were last tried."""
    slacks: dict[tuple[str, str], Slack] = field(default_factory=dict)
    """Node and sibling -> how long the level is good for."""
    bounds: dict[str, Bounds] = field(default_factory=dict)
    """The tightest of the slacks on each node's usage."""
    alarms: dict[str, int] = field(default_factory=dict)
    """Node -> when it could have passed its bounds."""
    entitlements: int = -1
    """The count of changes of allocations for which all of this holds."""
    _heap: list[tuple[int, str]] = field(default_factory=list)

    def due(self, now: int) -> list[str]:
        """Nodes that could have passed their bounds."""
        found = []
        while self._heap and self._heap[0][0] <= now:
            at, path = heappop(self._heap)
            if self.alarms.get(path) == at:
                del self.alarms[path]
                found.append(path)
        return found

    def bind(self, child: str, sibling: str, slack: int, standing: Standing, until: int) -> None:
        """The reach of ``child`` over ``sibling`` may grow by ``slack`` from now on."""
        mine, theirs = standing.figures(child), standing.figures(sibling)
        self.slacks[child, sibling] = Slack(
            mine.used - slack, mine.used_recent - slack, theirs.used + slack, theirs.used_recent + slack, until
        )
        self._tighten(child, sibling)

    def holds(self, child: str, sibling: str, standing: Standing) -> bool:
        """Whether what was measured of the pair is still good; if so, both nodes are bound by it again."""
        slack = self.slacks.get((child, sibling))
        if slack is None or not slack.holds(standing.figures(child), standing.figures(sibling), standing.now):
            return False
        self._tighten(child, sibling)
        return True

    def _tighten(self, child: str, sibling: str) -> None:
        slack = self.slacks[child, sibling]
        own, other = self.bounds.get(child), self.bounds.get(sibling)
        if own is None:
            own = self.bounds[child] = Bounds()
        if other is None:
            other = self.bounds[sibling] = Bounds()
        own.low, own.low_recent = max(own.low, slack.low), max(own.low_recent, slack.low_recent)
        other.high, other.high_recent = min(other.high, slack.high), min(other.high_recent, slack.high_recent)
        own.until, other.until = min(own.until, slack.until), min(other.until, slack.until)

    def set_alarm(self, path: str, standing: Standing) -> None:
        """Wake up when the usage of a node could pass its bounds, if nothing is charged to it before."""
        bounds, figures = self.bounds[path], standing.figures(path)
        rise = standing.rise(path)
        at = bounds.until if bounds.hold(figures, standing.now) else standing.now
        if rise > 0:
            room = min(bounds.high - figures.used, bounds.high_recent - figures.used_recent)
            at = min(at, standing.now + room // rise + 1)
        policy = standing.policy
        for window, room in (
            (policy.lookback, figures.used - bounds.low),
            (policy.recent, figures.used_recent - bounds.low_recent),
        ):
            if room < FAR // 2:
                at = min(at, standing.falls(path, window, room))
        if self.alarms.get(path) != at:
            self.alarms[path] = at
            if at < NEVER:
                heappush(self._heap, (at, path))
