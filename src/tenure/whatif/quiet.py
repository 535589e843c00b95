"""A workload of nobody: what happens is told to the run by the log."""

from __future__ import annotations

from collections.abc import Iterable

from tenure.sim.work import Action, Work


class Quiet:
    """The ``Workload`` that does nothing."""

    def begin(self, at: int) -> Iterable[Action]:
        return ()

    def wake(self, at: int, token: int) -> Iterable[Action]:
        return ()

    def accepted(self, at: int, token: int, job_id: int, work: Work) -> Iterable[Action]:
        return ()

    def refused(self, at: int, token: int, work: Work, why: str) -> Iterable[Action]:
        return ()

    def started(self, at: int, job_id: int, work: Work, waited: int) -> Iterable[Action]:
        return ()

    def requeued(self, at: int, job_id: int, work: Work) -> Iterable[Action]:
        return ()

    def ended(self, at: int, job_id: int, work: Work, state: str) -> Iterable[Action]:
        return ()
