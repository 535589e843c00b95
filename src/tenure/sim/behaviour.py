"""How the people of a month behave: which part of them does what, and whether they learn. Durations in ms."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from tenure.sim.researchers.adapting import Adapting, Learning
from tenure.sim.researchers.gaming import Gaming, drawn
from tenure.sim.researchers.lab import Lab
from tenure.sim.researchers.tricks import TRICKS


@dataclass(frozen=True, slots=True)
class Behaviour:
    """``shares``: trick -> part of the people, who are drawn disjointly. ``learning``: how people change what they do;
    None: they do not. ``reap_idle``: the site ends jobs whose GPUs did nothing for so long; 0: never. ``counted``: the
    part of the people whose figures are told apart, whatever they do; None: those who do something.

    ``settled``: where claims are free, nobody learns to claim more but by what is said here.
    """

    shares: Mapping[str, float] = field(default_factory=dict)
    learning: Learning | None = None
    reap_idle: int = 0
    counted: float | None = None
    settled: bool = False

    def workload(self, lab: Lab) -> Gaming:
        """The people of ``lab``. Raises KeyError for an unknown trick, ValueError for shares that are not possible and
        where one cannot be done.
        """
        who = drawn(lab, self.shares)
        if self.learning is not None:
            return Adapting(lab, who, self.reap_idle, self.learning)
        counted: Iterable[int] | None = None if self.counted is None else drawn(lab, {"": self.counted})
        return Gaming(lab, {name: TRICKS[name] for name in self.shares}, who, self.reap_idle, counted)
