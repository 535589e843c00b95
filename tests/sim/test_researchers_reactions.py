"""How the synthetic researchers react: to waiting, eviction, failure and refusal."""

from __future__ import annotations

from dataclasses import replace
from random import Random

import pytest
from researchers_kit import MONDAY, empty, lab_of, one_of, submits

from tenure.core.model import DAY, HOUR, MINUTE
from tenure.sim.researchers import Researchers
from tenure.sim.researchers.people import Person
from tenure.sim.researchers.plans import End, Part
from tenure.sim.researchers.workload import DAY_BEGINS
from tenure.sim.work import Cancel, Submit, Wake


def _launched(researchers: Researchers, person: Person, at: int) -> Submit:
    """A launch of theirs at full size, whatever they would do now."""
    kind = next(kind for kind in researchers.lab.kinds if kind.name == "pretrain")
    person.charged.plan = person.planner.plan(Random(5), kind, True)
    while person.charged.plan.steps[0][0].part is not Part.REAL:
        person.charged.plan.steps.popleft()
    (submit,) = submits(researchers._turn_to(person, person.charged, at))
    return submit


@pytest.mark.parametrize("smaller", [True, False])
def test_after_a_long_wait_the_next_launch_is_smaller_or_its_contract_shorter(smaller: bool) -> None:
    researchers = Researchers(lab_of())
    list(researchers.begin(MONDAY))
    person = one_of(researchers, leads=True)
    person.smaller = smaller
    at = MONDAY + 20 * HOUR

    def next_launch(waits: int) -> tuple[int, int, int]:
        empty(researchers, person, at)
        rng_state = person.rng.getstate()
        submit = _launched(researchers, person, at)
        researchers.accepted(at, submit.token, 1_000_000 + submit.token, submit.work)
        list(researchers.started(at, 1_000_000 + submit.token, submit.work, waits))
        list(researchers.ended(at, 1_000_000 + submit.token, submit.work, "succeeded"))
        person.rng.setstate(rng_state)
        return submit.work.spec.gpus, submit.work.spec.contract.min_runtime, submit.work.runtime

    gpus, contract, runtime = next_launch(10 * HOUR)
    then = next_launch(MINUTE)
    if smaller:
        assert then[0] == gpus // 2
        assert then[2] > runtime, "the work is the same"
    else:
        assert then[0] == gpus
        assert then[1] == contract // 2
    assert next_launch(MINUTE) == (gpus, contract, runtime), "after a short wait they go back"


def test_somebody_gives_up_what_waits_beyond_their_patience() -> None:
    researchers = Researchers(lab_of())
    begun = submits(researchers.begin(MONDAY))
    submit = begun[0]
    person = researchers.people[submit.work.owner]
    researchers.accepted(submit.at, submit.token, 1, submit.work)
    patience = researchers.held[1].patience
    token = person.number * 4 + DAY_BEGINS
    early = list(researchers.wake(submit.at + patience // 2, token))
    assert not any(isinstance(action, Cancel) for action in early)
    late = submit.at + patience + 1000
    assert Cancel(late, 1) in list(researchers.wake(late, token))
    assert Cancel(late + HOUR, 1) not in list(researchers.wake(late + HOUR, token)), "once is enough"


def test_what_was_evicted_and_cannot_resume_is_submitted_again() -> None:
    researchers = Researchers(lab_of())
    begun = submits(researchers.begin(MONDAY))
    submit = next(s for s in begun if not s.work.spec.contract.resumable)
    person = researchers.people[submit.work.owner]
    held = researchers.sent[submit.token]
    researchers.accepted(submit.at, submit.token, 1, submit.work)
    list(researchers.started(submit.at, 1, submit.work, 0))
    (wake,) = researchers.ended(submit.at + 1000, 1, submit.work, "preempted")
    assert isinstance(wake, Wake)
    first = submits(researchers.wake(wake.at, wake.token))[0]
    assert first.work.owner == person.number
    assert first.work.spec.gpus == held.gpus
    assert first.work.runtime + first.work.startup == submit.work.runtime + submit.work.startup


def test_what_failed_without_its_own_fault_is_submitted_again() -> None:
    researchers = Researchers(lab_of())
    begun = submits(researchers.begin(MONDAY))
    submit = next(s for s in begun if researchers.sent[s.token].run.end is End.COMPLETED)
    stream = researchers.sent[submit.token].stream
    researchers.accepted(submit.at, submit.token, 1, submit.work)
    list(researchers.ended(submit.at + 1000, 1, submit.work, "failed"))
    assert [run.gpus for run in stream.again] == [submit.work.spec.gpus]


def test_a_launch_that_failed_late_is_mended_and_launched_again() -> None:
    lab = lab_of()
    researchers = Researchers(replace(lab, habits=replace(lab.habits, mend=1.0)))
    begun = submits(researchers.begin(MONDAY))
    submit = next(
        s
        for s in begun
        if s.work.funded and s.work.exit_code == 1 and researchers.sent[s.token].run.duration > 15 * MINUTE
    )
    stream = researchers.sent[submit.token].stream
    researchers.accepted(submit.at, submit.token, 1, submit.work)
    list(researchers.ended(submit.at + DAY, 1, submit.work, "failed"))
    assert stream.plan is not None
    assert [step[0].part for step in stream.plan.steps] == [Part.TRY, Part.REAL]
    assert stream.plan.steps[-1][0].gpus == submit.work.spec.gpus


def test_a_refused_job_is_not_counted_as_outstanding() -> None:
    researchers = Researchers(lab_of())
    begun = submits(researchers.begin(MONDAY))
    before = sum(researchers.outstanding)
    assert list(researchers.refused(MONDAY, begun[0].token, begun[0].work, "no")) == []
    assert sum(researchers.outstanding) == before - begun[0].work.spec.gpus
    assert researchers.refusals == 1
