"""The tricks by name. Those that only change what is claimed are here; others in ``chains`` and ``parking``."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable
from dataclasses import replace

from tenure.core.model import MINUTE
from tenure.sim.researchers.chains import Renew, Split
from tenure.sim.researchers.contracts import FLOOR, MAXIMUM, QUARTER, Signer
from tenure.sim.researchers.gaming import Gaming, Trick
from tenure.sim.researchers.parking import IdleLoop, Squat
from tenure.sim.work import Action, Insists, Submit, Work


class Insistent(Trick, ABC):
    """The same claim for everything."""

    def submits(self, submit: Submit) -> Iterable[Action]:
        return (replace(submit, work=replace(submit.work, insists=self.claim(submit.work))),)

    @abstractmethod
    def claim(self, work: Work) -> Insists:
        """What they insist on for this work."""


class LongestContract(Insistent):
    """8 h for everything, unallocated work too; less only where a budget could not have it."""

    def claim(self, work: Work) -> Insists:
        return Insists(max(FLOOR, longest(self.honest.people[work.owner].signer, work)))


class QuarterContract(Insistent):
    """15 min for everything, unallocated work too; less only where a budget could not have it."""

    def claim(self, work: Work) -> Insists:
        return Insists(max(FLOOR, min(QUARTER, longest(self.honest.people[work.owner].signer, work))))


class NoContract(Insistent):
    """0 for everything: nothing is charged, nothing is protected."""

    def claim(self, work: Work) -> Insists:
        return Insists(0)


class Highest(Insistent):
    """HIGH for everything."""

    def claim(self, work: Work) -> Insists:
        return Insists(highest=True)


class OptOut(Insistent):
    """Nothing may be preempted: what can resume says that it cannot, and protection is claimed wherever it can be."""

    def claim(self, work: Work) -> Insists:
        return Insists(stays=True)


class EveryCluster(Trick):
    """Everything accepts every cluster, the usual ones first."""

    def __init__(self, home: Gaming) -> None:
        if len(home.lab.clusters) < 2:
            raise ValueError("it takes a second cluster, like --cluster west=128")
        super().__init__(home)

    def submits(self, submit: Submit) -> Iterable[Action]:
        work = submit.work
        names = dict.fromkeys([*work.spec.clusters, *(machines.name for machines in self.honest.lab.clusters)])
        return (replace(submit, work=replace(work, spec=replace(work.spec, clusters=tuple(names)))),)


class Late(Trick):
    """A minute later, which is no trick: how far two worlds come apart by chance alone."""

    def submits(self, submit: Submit) -> Iterable[Action]:
        return (replace(submit, at=submit.at + MINUTE),)


def longest(signer: Signer, work: Work) -> int:
    """The longest contract that a budget can have for this work."""
    return min(MAXIMUM, signer.affordable(work.spec.gpus))


TRICKS: dict[str, Callable[[Gaming], Trick]] = {
    "squat": Squat,
    "idle-loop": IdleLoop,
    "split": Split,
    "declare-8h": LongestContract,
    "declare-15m": QuarterContract,
    "declare-0": NoContract,
    "high": Highest,
    "opt-out": OptOut,
    "every-cluster": EveryCluster,
    "renew": Renew,
    "late": Late,
}
"""Name -> the trick. Raise ValueError where it cannot be done."""
