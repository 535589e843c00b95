"""What the synthetic researchers do: their demand, their days, and that every job is admissible."""

from __future__ import annotations

import pickle
from collections import Counter
from collections.abc import Iterable
from dataclasses import replace

import pytest
from researchers_kit import MONDAY, Pool, empty, lab_of, lived, submits

from support.world import World, hosts
from tenure.core.admission import check_job
from tenure.core.model import DAY, HOUR, MINUTE, SHARE_ONE, Cluster
from tenure.sim.researchers import Lab, Machines, Program, Researchers, Rhythm, presets
from tenure.sim.researchers.people import Hiring, Person, Stream
from tenure.sim.researchers.plans import End, power_below
from tenure.sim.researchers.workload import DAY_BEGINS
from tenure.sim.work import Action, Cancel, Submit, Wake, Work

SIZES = (88, 256, 1024)


@pytest.fixture(scope="module")
def fortnight() -> Pool:
    return lived("published")


# ---- the lab


def test_the_tree_has_fifteen_unequal_projects_in_four_programs() -> None:
    tree = Lab().tree()
    depth = Counter(budget.path.count("/") for budget in tree)
    assert depth == {0: 1, 1: 4, 2: 15}
    for parent in (budget.path for budget in tree if budget.path.count("/") < 2):
        shares = [b.share for b in tree if b.path.rpartition("/")[0] == parent]
        assert sum(shares) == SHARE_ONE
        assert len(set(shares)) == len(shares), f"equal shares below {parent}"
    assert len(World(hosts(1), tree=tree).state.the_tree().budgets) == 20


def test_people_and_demand_follow_the_shares() -> None:
    lab = lab_of()
    people = Hiring(lab, MONDAY).people()
    assert len(people) == 150
    heads = Counter(person.budget for person in people)
    for path, share in lab.shares().items():
        assert abs(heads[path] - 150 * share) <= 2
        usual = sum(person.charged.account.usual for person in people if person.budget == path)
        assert usual == pytest.approx(lab.charged * lab.gpus * share)
    parts = sorted((person.charged.account.usual for person in people), reverse=True)
    assert 0.4 < sum(parts[:8]) / sum(parts) < 0.6, "a few people ask for a large part"


def test_fewer_people_than_budgets_are_refused() -> None:
    with pytest.raises(ValueError, match="14 people are too few for 15 budgets"):
        Researchers(replace(Lab(), people=14)).begin(MONDAY)


def test_a_small_lab_of_one_budget_works() -> None:
    lab = Lab((Machines("tiny", 1, 4),), (Program("all", 100, (("only", 100),)),), people=1)
    pool = Pool(Researchers(lab), 4).run(5 * DAY)
    assert pool.jobs
    assert {entry.work.spec.budget for entry in pool.jobs} == {"lab/all/only"}
    assert max(entry.work.spec.gpus for entry in pool.jobs) <= 2


def test_settings_can_be_sent_to_another_process() -> None:
    for lab in presets.values():
        assert pickle.loads(pickle.dumps(lab)) == lab


def test_people_of_two_clusters_name_their_own_first() -> None:
    lab = replace(Lab(), clusters=(Machines("big", 24, 8), Machines("old", 8, 4)))
    pool = Pool(Researchers(lab), 224).run(DAY)
    named = Counter(entry.work.spec.clusters for entry in pool.jobs)
    assert set(named) == {("big",), ("old",), ("big", "old"), ("old", "big")}
    per_owner: dict[int, set[tuple[str, ...]]] = {}
    for entry in pool.jobs:
        per_owner.setdefault(entry.work.owner, set()).add(entry.work.spec.clusters)
        if entry.work.spec.clusters[0] == "old":
            assert all(role.gpus <= 4 for role in entry.work.spec.roles)
    assert all(len(clusters) == 1 for clusters in per_owner.values())


# ---- determinism


def test_same_seed_same_work_another_seed_another() -> None:
    def story(seed: int) -> list[tuple[int, Work, str, int]]:
        pool = Pool(Researchers(lab_of(gpus=88, seed=seed)), 88).run(2 * DAY)
        return [(entry.submitted, entry.work, entry.state, entry.ran) for entry in pool.jobs]

    first = story(1)
    assert len(first) > 300
    assert story(1) == first
    assert story(2)[:50] != first[:50]


def test_what_somebody_draws_does_not_depend_on_when_others_are_called() -> None:
    def day_of(order: list[int]) -> dict[int, list[Action]]:
        researchers = Researchers(lab_of())
        list(researchers.begin(MONDAY))
        at = MONDAY + 20 * HOUR
        for lab in (researchers.people[0].charged.team.lab, researchers.people[0].free.team.lab):
            lab.usual = 1e9  # there is room for everybody, whoever comes first
        made: dict[int, list[Action]] = {number: [] for number in order}
        for number in order:
            empty(researchers, researchers.people[number], at)
        for number in order:
            made[number] = list(researchers.wake(at, number * 4 + DAY_BEGINS))
        return {
            number: [replace(a, token=0) if isinstance(a, Submit) else a for a in actions]
            for number, actions in made.items()
        }

    numbers = [0, 30, 60, 90, 120, 149]
    assert len({p.budget for p in _people(numbers)}) == len(numbers)
    assert day_of(numbers) == day_of(numbers[::-1])


def _people(numbers: list[int]) -> list[Person]:
    people = Hiring(lab_of(), MONDAY).people()
    return [people[number] for number in numbers]


# ---- demand


def test_demand_stays_at_the_set_multiple(fortnight: Pool) -> None:
    after = fortnight.samples[3 * 24 :]
    total = sum(charged + free for charged, free in after) / len(after) / 256
    assert 2.0 < total < 3.0
    for day in range(0, len(after) - 24, 24):
        mean = sum(charged + free for charged, free in after[day : day + 24]) / 24 / 256
        assert 1.2 < mean < 4.0, f"day {day // 24}"


def test_nobody_has_more_outstanding_than_their_target_and_one_launch() -> None:
    researchers = Researchers(lab_of("saturated", 88))
    pool = Pool(researchers, 88)
    highest: dict[tuple[int, bool], float] = {}
    checked = 0
    for _ in range(24 * 4):
        for person in researchers.people:
            for stream in (person.charged, person.free):
                key = person.number, stream.charged
                target = researchers._target(stream, pool.now)
                highest[key] = max(highest.get(key, 0.0), target)
                rerun = sum(run.gpus for run in stream.again)
                most = highest[key] + max(person.planner.limit, 2 * person.planner.launch_gpus) + 8 + rerun
                assert stream.account.outstanding <= most, (person.name, stream.charged)
                checked += stream.account.outstanding > 0
        pool.run(HOUR)
    assert checked > 1200


def test_where_nothing_ever_starts_demand_stops_growing() -> None:
    researchers = Researchers(lab_of("saturated", 88))
    pool = Pool(researchers, 88, delay=1000 * DAY).run(8 * DAY)
    assert not any(entry.first_started for entry in pool.jobs)
    total = [charged + free for charged, free in pool.samples]
    assert max(total) < 88 * 8
    assert sum(total[-24:]) < 1.2 * sum(total[3 * 24 : 4 * 24])
    assert len(pool.stopped) > 50, "people give up"
    waited = sorted(at - pool.jobs[job_id - 1].submitted for at, job_id in pool.stopped)
    assert waited[0] > HOUR / 2
    assert waited[len(waited) // 2] > 4 * HOUR


def test_teams_are_busy_some_weeks_and_idle_in_others() -> None:
    researchers = Researchers(lab_of())
    list(researchers.begin(MONDAY))
    teams = {person.budget: person.charged.team for person in researchers.people}
    levels = {path: [team.season(MONDAY + d * DAY) for d in range(120)] for path, team in teams.items()}
    shares = lab_of().shares()
    for day in range(120):
        assert sum(shares[path] * level[day] for path, level in levels.items()) == pytest.approx(1.0)
    for path, level in levels.items():
        assert min(level) < 0.15, f"{path} is never quiet"
        assert max(level) > 1.4, f"{path} is never busy"
    quiet = sum(one < 0.15 for level in levels.values() for one in level) / (15 * 120)
    assert 0.08 < quiet < 0.30


# ---- days


def test_people_submit_in_their_daytime(fortnight: Pool) -> None:
    researchers = fortnight.workload
    assert isinstance(researchers, Researchers)
    hours, days = Counter[int](), Counter[int]()
    for entry in fortnight.jobs:
        if not DAY <= entry.submitted - MONDAY < 8 * DAY:
            continue  # one whole week, without what was there at the beginning
        local = entry.submitted + researchers.people[entry.work.owner].calendar.zone
        hours[local // HOUR % 24] += 1
        days[(local // DAY + 3) % 7] += 1
    night = sum(hours[hour] for hour in range(1, 6)) / hours.total()
    assert night < 0.06
    assert max(hours.values()) > 5 * min(hours.values())
    assert (days[5] + days[6]) / 2 < sum(days[day] for day in range(5)) / 5


def test_people_work_about_two_thirds_as_much_at_weekends() -> None:
    worked = Counter[bool]()
    for person in Hiring(lab_of(), MONDAY).people():
        calendar, at = person.calendar, MONDAY + DAY
        while at < MONDAY + 57 * DAY:
            begin, end = calendar.next(at)
            assert begin < end
            assert end > at
            worked[(begin + calendar.zone) // DAY % 7 in (2, 3)] += end - begin  # 1970 began on a Thursday
            at = end
    assert 0.60 < worked[True] / 2 / (worked[False] / 5) < 0.70


def test_without_night_work_nobody_comes_back_outside_their_working_time() -> None:
    lab = replace(lab_of(gpus=88), rhythm=replace(Rhythm(), night=0.0))
    researchers = Researchers(lab)
    pool = Pool(researchers, 88).run(4 * DAY)
    later = [entry for entry in pool.jobs if entry.submitted > MONDAY + 3 * HOUR]
    assert len(later) > 200
    for entry in later:
        calendar = researchers.people[entry.work.owner].calendar
        begin, end = calendar.next(entry.submitted - 1000)
        assert begin <= entry.submitted <= end


# ---- launches


def test_tries_come_one_after_another_before_the_launch(fortnight: Pool) -> None:
    by_owner: dict[int, list[tuple[int, int]]] = {}
    short = longer = 0
    for entry in fortnight.jobs:
        spec = entry.work.spec
        if entry.work.kind == "debug" and spec.contract.min_runtime <= 15 * MINUTE and entry.ended is not None:
            by_owner.setdefault(entry.work.owner, []).append((entry.submitted, entry.ended))
            assert spec.gpus <= 8
            assert spec.contract.min_runtime in (5 * MINUTE, 15 * MINUTE)
            longer += entry.ran > 15 * MINUTE
            short += 1
    assert short > 200
    assert longer < short / 20
    overlaps = sum(
        1 for times in by_owner.values() for a, b in zip(sorted(times), sorted(times)[1:], strict=False) if b[0] < a[1]
    )
    assert overlaps < short / 50


@pytest.mark.parametrize("gpus", SIZES)
@pytest.mark.parametrize("preset", presets)
def test_gangs_keep_their_limits_and_every_job_is_admitted(preset: str, gpus: int) -> None:
    lab = lab_of(preset, gpus)
    world = World(Cluster("main", hosts(gpus // 8)), tree=lab.tree())
    shares = lab.shares()
    seen: set[tuple[object, ...]] = set()
    largest = 0
    for person in Hiring(lab, MONDAY).people()[:: 3 if gpus > 256 else 1]:
        for charged in (True, False):
            stream = person.charged if charged else person.free
            for _ in range(6):
                for run in _runs(person, stream):
                    work = person.signer.work(person.rng, run, charged, 0)
                    size, contract = work.spec.gpus, work.spec.contract
                    assert size <= gpus // 2
                    assert size == power_below(size)
                    assert size <= max(8, 4 * shares[person.budget] * gpus)
                    assert size * contract.min_runtime <= shares[person.budget] * gpus * 7 * DAY
                    assert (contract.min_runtime > 0) == charged == work.funded
                    for role in work.spec.roles:
                        assert role.gpus == min(size, 8)
                        assert role.gpus * role.replicas == size
                    largest = max(largest, size)
                    key = person.budget, size, contract, work.spec.timeout is None
                    if key not in seen:
                        seen.add(key)
                        check_job(world.state, work.spec)
    assert largest > 8


@pytest.mark.parametrize("gpus", SIZES)
@pytest.mark.parametrize("preset", presets)
def test_the_largest_gangs_take_half_of_the_cluster(preset: str, gpus: int) -> None:
    lab = lab_of(preset, gpus)
    pretrain = next(kind for kind in lab.kinds if kind.name == "pretrain")
    person = max(Hiring(lab, MONDAY).people(), key=lambda person: person.planner.limit)
    sizes = Counter(person.planner.launch(person.rng, pretrain, True)[0].gpus for _ in range(300))
    assert max(sizes) == power_below(gpus / 2)
    assert len(sizes) > 1


def _runs(person: Person, stream: Stream) -> Iterable:
    plan = person.planner.plan(person.rng, stream.kinds.draw(person.rng), stream.charged)
    return [run for step in plan.steps for run in step]


def test_large_runs_last_for_days_with_long_contracts_and_checkpoints() -> None:
    lab = lab_of("saturated", 1024)
    found = 0
    for person in Hiring(lab, MONDAY).people():
        pretrain = next(kind for kind in lab.kinds if kind.name == "pretrain")
        for _ in range(20 if person.planner.limit >= 128 else 0):
            (run,) = person.planner.plan(person.rng, pretrain, True).steps[-1]
            if run.gpus < 128:
                continue
            work = person.signer.work(person.rng, run, True, 0)
            assert 12 * HOUR <= run.duration <= 21 * DAY
            assert 4 * HOUR <= work.spec.contract.min_runtime <= 8 * HOUR
            assert work.spec.contract.resumable
            assert 30 * MINUTE <= work.checkpoint_every <= 60 * MINUTE
            found += 1
    assert found > 50


def test_cancelled_runs_are_stopped_when_they_have_run_as_long_as_was_drawn() -> None:
    researchers = Researchers(lab_of())
    begun = submits(researchers.begin(MONDAY))
    submit = next(s for s in begun if researchers.sent[s.token].run.end is End.CANCELLED)
    held = researchers.sent[submit.token]
    researchers.accepted(submit.at, submit.token, 7, submit.work)
    start = submit.at + HOUR
    (wake,) = researchers.started(start, 7, submit.work, HOUR)
    assert isinstance(wake, Wake)
    assert wake.at == start + submit.work.startup + held.run.duration
    assert submit.work.runtime + submit.work.startup > held.run.duration
    again = start + submit.work.startup + held.run.duration // 4
    list(researchers.requeued(again, 7, submit.work))
    assert list(researchers.wake(wake.at, wake.token)) == [], "it no longer runs"
    (second,) = researchers.started(wake.at + HOUR, 7, submit.work, HOUR)
    assert isinstance(second, Wake)
    left = held.run.duration - held.run.duration // 4
    assert abs(second.at - (wake.at + HOUR + submit.work.startup + left)) <= 1000
    assert list(researchers.wake(second.at, second.token)) == [Cancel(second.at, 7)]
