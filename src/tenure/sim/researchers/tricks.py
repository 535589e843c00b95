"""The tricks by name. Those that only change what is signed are here; others in ``chains`` and ``parking``."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import replace

from tenure.core.model import MINUTE
from tenure.policies.priority import HIGH
from tenure.sim.researchers.chains import Renew, Split
from tenure.sim.researchers.contracts import FLOOR, MAXIMUM, Signer
from tenure.sim.researchers.gaming import Gaming
from tenure.sim.researchers.lab import Lab
from tenure.sim.researchers.parking import Squat
from tenure.sim.work import Action, Submit, Work


class LongestContract(Gaming):
    """8 h for everything, unallocated work too; less only where a budget could not have it."""

    def submits(self, submit: Submit) -> Iterable[Action]:
        signer = self.honest.people[submit.work.owner].signer
        return (replace(submit, work=_contract(submit.work, max(FLOOR, longest(signer, submit.work)))),)


class NoContract(Gaming):
    """0 for everything: nothing is charged, nothing is protected."""

    def submits(self, submit: Submit) -> Iterable[Action]:
        return (replace(submit, work=_contract(submit.work, 0)),)


class Highest(Gaming):
    """HIGH for everything."""

    def submits(self, submit: Submit) -> Iterable[Action]:
        work = submit.work
        return (replace(submit, work=replace(work, spec=replace(work.spec, priority=HIGH))),)


class EveryCluster(Gaming):
    """Everything accepts every cluster, the usual ones first."""

    def __init__(self, lab: Lab, share: float) -> None:
        if len(lab.clusters) < 2:
            raise ValueError("it takes a second cluster, like --cluster west=128")
        super().__init__(lab, share)

    def submits(self, submit: Submit) -> Iterable[Action]:
        work = submit.work
        names = dict.fromkeys([*work.spec.clusters, *(machines.name for machines in self.honest.lab.clusters)])
        return (replace(submit, work=replace(work, spec=replace(work.spec, clusters=tuple(names)))),)


class Late(Gaming):
    """A minute later, which is no trick: how far two worlds come apart by chance alone."""

    def submits(self, submit: Submit) -> Iterable[Action]:
        return (replace(submit, at=submit.at + MINUTE),)


def longest(signer: Signer, work: Work) -> int:
    """The longest contract that a budget can have for this work."""
    return min(MAXIMUM, signer.affordable(work.spec.gpus))


def _contract(work: Work, min_runtime: int) -> Work:
    spec = work.spec
    timeout = None if spec.timeout is None else max(spec.timeout, min_runtime)
    return replace(work, spec=replace(spec, contract=replace(spec.contract, min_runtime=min_runtime), timeout=timeout))


TRICKS: dict[str, Callable[[Lab, float], Gaming]] = {
    "squat": Squat,
    "split": Split,
    "declare-8h": LongestContract,
    "declare-0": NoContract,
    "high": Highest,
    "every-cluster": EveryCluster,
    "renew": Renew,
    "late": Late,
}
"""Name -> a lab of which a part does it. Raise ValueError where it cannot be done."""
