"""What people got for what they asked for, as they see it: by hand, and beside what the simulator counts."""

from __future__ import annotations

from dataclasses import replace

import pytest
from researchers_kit import MONDAY, submits
from test_behaving import LAB, lived, month

from tenure.core.model import GPU, HOUR, MINUTE, SECOND, Contract
from tenure.sim.behaviour import Behaviour
from tenure.sim.researchers import Researchers
from tenure.sim.researchers.deals import Deals


@pytest.mark.parametrize(
    ("contract", "save_time", "kept"),
    [
        (Contract(HOUR, True), 60 * SECOND, 149 * MINUTE),  # charged: the grace is long enough to save
        (Contract(0, True), 60 * SECOND, 2 * HOUR),  # unallocated: ten seconds are not, and checkpoints are hourly
        (Contract(0, True), 5 * SECOND, 150 * MINUTE - 5 * SECOND),
        (Contract(HOUR, False), 5 * SECOND, 0),
    ],
)
def test_who_is_evicted_keeps_what_could_be_saved(contract: Contract, save_time: int, kept: int) -> None:
    work = submits(Researchers(LAB).begin(MONDAY))[0].work
    spec = replace(work.spec, contract=contract, grace=2 * MINUTE)
    work = replace(work, spec=spec, save_time=save_time, checkpoint_every=HOUR, startup=MINUTE)
    deals = Deals()
    deals.asked_for(MONDAY, 1, work.owner, 4)
    deals.started(MONDAY + HOUR, 1, work)
    end = MONDAY + HOUR + MINUTE + 150 * MINUTE
    assert deals.of(work.owner, end)[1] == 4 * 150 * MINUTE
    deals.requeued(end, 1, work)
    assert deals.of(work.owner, end) == (4 * (end - MONDAY), 4 * kept)


def test_people_without_contracts_see_what_evictions_cost_them() -> None:
    """Never more than what the simulator counts as occupied and not lost."""
    run, people = lived(month("kai", 2), Behaviour({"declare-0": 0.3}))
    lost = 0
    for person in people.honest.people:
        rows = [row for row in run.jobs if row.user == person.name]
        lost += sum(row.lost for row in rows)
        got = people.deals.of(person.number, run.until)[1] * GPU
        assert got <= sum(people.useful(row, run.until) for row in rows)
    assert lost
