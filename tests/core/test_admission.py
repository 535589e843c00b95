"""What is refused: each impossible job with the field, its value and what would work; configurations that would
pull something from under live jobs."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from support.world import World, budgets, hosts
from tenure.core import cycle, scheduler
from tenure.core.admission import check_config, check_job
from tenure.core.model import DAY, HOUR, MINUTE, Budget, Cluster, Host, HostState, Label, Role
from tenure.core.reasons import Reason, Refusal

TREE = (
    Budget("lab", 1_000_000, managers=("root",)),
    Budget("lab/a", 500_000, members=("ann", "bob"), managers=("mia",)),
    Budget("lab/a/x", 500_000, members=("ann",)),
    Budget("lab/none", 0),
    Budget("lab/tiny", 10_000),
)


def world() -> World:
    return World(
        (
            Cluster("main", (*hosts(3), Host("small", 4, 8_000, 1_000, (("rack", "r9"),)))),
            Cluster("aux", (Host("x0", 2, 4_000, 100),), min_runtime_max=2 * HOUR, max_grace=MINUTE),
        ),
        tree=TREE,
    )


def refusal(w: World, budget: str = "lab", **job: Any) -> Refusal:
    job.setdefault("clusters", ("main",))
    with pytest.raises(Refusal) as caught:
        check_job(w.state, w.spec(budget, job.pop("gpus", 8), **job))
    return caught.value


REFUSED: list[tuple[dict[str, Any], Reason, str, str, str]] = [
    ({"budget": "lab/b"}, Reason.UNKNOWN_BUDGET, "budget", "lab/b", "did you mean lab/a"),
    ({"budget": "other"}, Reason.UNKNOWN_BUDGET, "budget", "other", "there are: lab, lab/a"),
    ({"budget": ""}, Reason.UNKNOWN_BUDGET, "budget", "", "there are"),
    ({"budget": "lab/self"}, Reason.UNKNOWN_BUDGET, "budget", "lab/self", "name lab"),
    ({"budget": "lab/a/x", "user": "eve"}, Reason.NOT_A_MEMBER, "budget", "lab/a/x", "not a member of lab/a/x"),
    ({"budget": "lab/a/x", "user": "bob"}, Reason.NOT_A_MEMBER, "budget", "lab/a/x", "not a member of lab/a/x"),
    ({"budget": "lab/a/x", "user": "bob"}, Reason.NOT_A_MEMBER, "budget", "lab/a/x", "ask mia, root"),
    ({"budget": "lab/a", "user": "eve"}, Reason.NOT_A_MEMBER, "budget", "lab/a", "ask mia"),
    ({"clusters": ()}, Reason.UNKNOWN_CLUSTER, "clusters", "(none)", "aux, main"),
    ({"clusters": ("main", "mian")}, Reason.UNKNOWN_CLUSTER, "clusters", "mian", "did you mean main"),
    ({"roles": (Role("r", 0, 1, 0, 0),)}, Reason.BAD_VALUE, "roles[0].replicas", "0", "at least 1"),
    ({"roles": (Role("r", 1, -1, 0, 0),)}, Reason.BAD_VALUE, "roles[0].gpus", "-1", "at least 0"),
    ({"roles": (Role("r", 1, 1, -5, 0),)}, Reason.BAD_VALUE, "roles[0].cpus", "-5", "at least 0"),
    ({"roles": (Role("r", 1, 1, 0, -5),)}, Reason.BAD_VALUE, "roles[0].mem", "-5", "at least 0"),
    ({"gpus": 0}, Reason.BAD_VALUE, "gpus", "0", "at least one GPU"),
    ({"gpus": 0, "cpus": 1000}, Reason.BAD_VALUE, "gpus", "0", "at least one GPU"),
    ({"min_runtime": -1}, Reason.BAD_VALUE, "min_runtime", "-1 ms", "0 or more"),
    ({"grace": -1}, Reason.BAD_VALUE, "grace", "-1 ms", "0 or more"),
    ({"timeout": 0}, Reason.BAD_VALUE, "timeout", "0 ms", "leave it out"),
    ({"retries": -1}, Reason.BAD_VALUE, "retries", "-1", "0 or more"),
    ({"gpus": 4, "replicas": 8}, Reason.TOO_MANY_GPUS, "gpus", "32", "at most 28"),
    ({"gpus": 9}, Reason.REPLICA_TOO_LARGE, "roles[0].gpus", "9", "largest of cluster main has 8"),
    ({"cpus": 64_001}, Reason.REPLICA_TOO_LARGE, "roles[0].cpus", "64.001 CPUs", "at most 64 CPUs"),
    ({"mem": 512 * 1024 + 1}, Reason.REPLICA_TOO_LARGE, "roles[0].mem", "524289M", "at most 512G"),
    ({"gpus": 5, "replicas": 4}, Reason.TOO_MANY_GPUS, "roles[0].replicas", "4", "room for 3 replicas"),
    (
        {"gpus": 8, "replicas": 3, "labels": (Label("rack", "r9", True),)},
        Reason.TOO_MANY_GPUS,
        "roles[0].replicas",
        "3",
        "required labels",
    ),
    ({"labels": (Label("rack", "r7", True),)}, Reason.NO_SUCH_LABEL, "labels", "rack=r7", "rack = r0, r9"),
    ({"labels": (Label("zone", None, True),)}, Reason.NO_SUCH_LABEL, "labels", "zone", "labels there are: rack"),
    ({"min_runtime": 9 * HOUR}, Reason.MIN_RUNTIME_ABOVE_MAX, "min_runtime", "9h", "at most 8h"),
    ({"min_runtime": 4 * MINUTE}, Reason.MIN_RUNTIME_BELOW_FLOOR, "min_runtime", "4m", "at least 5m"),
    (
        {"min_runtime": 2 * HOUR, "timeout": HOUR},
        Reason.MIN_RUNTIME_ABOVE_TIMEOUT,
        "min_runtime",
        "2h",
        "timeout is 1h",
    ),
    ({"grace": 6 * MINUTE}, Reason.GRACE_ABOVE_MAX, "grace", "6m", "at most 5m"),
    ({"budget": "lab/none"}, Reason.NO_SHARE, "budget", "lab/none", "min_runtime 0"),
    ({"budget": "lab/none"}, Reason.NO_SHARE, "budget", "lab/none", "ask root"),
    # 1 % of 28 GPUs x 7 days = 47.04 GPU-hours, so 8 GPUs for at most 5 h 52 m, or 5 GPUs for 8 h.
    (
        {"budget": "lab/tiny", "min_runtime": 8 * HOUR},
        Reason.CONTRACT_ABOVE_ENTITLEMENT,
        "min_runtime",
        "8h",
        "5h52m or 5 GPUs",
    ),
    # What counts is what it is charged: all CPUs of a host for one GPU are charged as 8 GPUs.
    (
        {"budget": "lab/tiny", "min_runtime": 8 * HOUR, "gpus": 1, "cpus": 64_000},
        Reason.CONTRACT_ABOVE_ENTITLEMENT,
        "min_runtime",
        "8h",
        "5h52m or fewer CPUs and less memory",
    ),
    # Every accepted cluster must be possible: aux is smaller and protects for at most 2 h.
    ({"clusters": ("main", "aux")}, Reason.TOO_MANY_GPUS, "gpus", "8", "aux has 2"),
    (
        {"clusters": ("main", "aux"), "gpus": 1, "min_runtime": 3 * HOUR, "grace": 0},
        Reason.MIN_RUNTIME_ABOVE_MAX,
        "min_runtime",
        "3h",
        "aux",
    ),
]


@pytest.mark.parametrize(
    ("job", "reason", "field", "value", "fix"), REFUSED, ids=lambda x: x if isinstance(x, str) else ""
)
def test_an_impossible_job_is_refused_with_what_would_work(
    job: dict[str, Any], reason: Reason, field: str, value: str, fix: str
) -> None:
    found = refusal(world(), **job)
    assert (found.reason, found.field, found.value) == (reason, field, value)
    assert fix in found.fix
    assert str(found) == f"{field} = {value}: {found.fix}"


ACCEPTED: list[dict[str, Any]] = [
    {},
    {"budget": "lab/a/x", "user": "ann"},
    {"budget": "lab/a", "user": "bob"},
    {"budget": "lab/a", "user": "mia"},  # managers may as well
    {"budget": "lab/tiny", "user": "eve", "min_runtime": HOUR},  # no members named: everybody
    {"budget": "lab/none", "min_runtime": 0},  # free work needs no share
    {"budget": "lab/none", "min_runtime": 0, "gpus": 8, "replicas": 3},
    {"min_runtime": 5 * MINUTE},
    {"min_runtime": 8 * HOUR},
    {"min_runtime": HOUR, "timeout": HOUR},
    {"grace": 5 * MINUTE},
    {"grace": 0},
    {"gpus": 8, "replicas": 3},
    {"gpus": 4, "replicas": 7},
    {"gpus": 7, "cpus": 64_000},
    {"labels": (Label("zone", "z", False),)},  # preferred labels never refuse
    {"labels": (Label("rack", None, True),)},
    {"gpus": 4, "labels": (Label("rack", "r9", True),)},
    {"budget": "lab/tiny", "gpus": 5, "min_runtime": 8 * HOUR},
    {"roles": (Role("a", 2, 8, 0, 0), Role("b", 1, 0, 1000, 10))},
    {"clusters": ("aux", "main"), "gpus": 2, "grace": MINUTE, "min_runtime": 2 * HOUR},
]


@pytest.mark.parametrize("job", ACCEPTED)
def test_a_possible_job_is_accepted_and_starts_on_an_empty_cluster(job: dict[str, Any]) -> None:
    w = world()
    options = {"budget": "lab", "gpus": 8, "clusters": ("main",), **job}
    spec = w.spec(options.pop("budget"), options.pop("gpus"), **options)
    check_job(w.state, spec)
    event = w.queue_spec(spec)
    w.step(event)
    assert w.state.jobs[event.job_id].attempt is not None


def test_the_size_is_judged_by_what_is_declared_not_by_what_is_healthy_today() -> None:
    w = world()
    for name in ("h0", "h1", "h2"):
        w.host(name, HostState.REPAIRING)
    check_job(w.state, w.spec("lab", 8, replicas=3, clusters=("main",)))


def test_a_share_of_one_accepted_cluster_is_enough() -> None:
    w = World(
        (Cluster("main", hosts(1)), Cluster("aux", hosts(1, prefix="x"))),
        tree=(
            Budget("lab", 1_000_000),
            Budget("lab/a", 0, (("aux", 500_000),)),
        ),
    )
    check_job(w.state, w.spec("lab/a", 8, clusters=("main", "aux")))
    with pytest.raises(Refusal) as caught:
        check_job(w.state, w.spec("lab/a", 8, clusters=("main",)))
    assert caught.value.reason is Reason.NO_SHARE


small = st.integers(-1, 9)
roles = st.builds(
    Role,
    st.just("r"),
    st.integers(-1, 4),
    small,
    st.sampled_from([-1, 0, 9_000, 10**6]),
    st.sampled_from([0, 900, 10**7]),
)
specs = st.fixed_dictionaries(
    {
        "budget": st.sampled_from(
            ["lab", "lab/a", "lab/a/x", "lab/none", "lab/tiny", "lab/self", "x", "", "lab//a", "/"]
        ),
        "roles": st.lists(roles, max_size=3).map(tuple),
        "min_runtime": st.sampled_from([-1, 0, 1, 5 * MINUTE, HOUR, 8 * HOUR, 10**15]),
        "clusters": st.lists(st.sampled_from(["main", "aux", "nope"]), max_size=3).map(tuple),
        "user": st.sampled_from(["ann", "eve", ""]),
        "timeout": st.sampled_from([None, -1, 0, 1, HOUR]),
        "grace": st.sampled_from([-1, 0, MINUTE, DAY]),
        "labels": st.lists(
            st.builds(Label, st.sampled_from(["rack", "zone"]), st.sampled_from([None, "r0", "r9"]), st.booleans()),
            max_size=2,
        ).map(tuple),
    }
)


@given(specs)
def test_what_is_accepted_can_start_and_the_rest_is_refused_in_words(job: dict[str, Any]) -> None:
    """Nothing but a Refusal is ever raised, and an accepted job starts at once when everything is free."""
    w = world()
    made = job.pop("roles")
    spec = replace(w.spec(job.pop("budget"), **job), roles=made)
    try:
        check_job(w.state, spec)
    except Refusal as refused:
        assert refused.field and refused.fix
        return
    event = w.queue_spec(spec)
    scheduler.absorb(w.state, (event,), w.now)
    assert len(cycle.run(w.state)) == 1
    assert w.state.jobs[event.job_id].attempt is not None


# ---- configurations

Change = Callable[[World], None]


def cluster_without(*gone: str, gpus: int = 8, count: int = 3) -> Cluster:
    return Cluster("main", tuple(h for h in hosts(count, gpus) if h.name not in gone))


def configured(w: World, **changes: Any) -> Refusal | None:
    event = replace(w.config(), **changes)
    try:
        check_config(w.state, event)
    except Refusal as refused:
        return refused
    w.clusters, w.tree = event.clusters, event.budgets
    w.step(event)
    return None


def busy() -> tuple[World, int]:
    w = World(Cluster("main", hosts(3)))
    job = w.submit("lab/a", 8)
    assert w.attempt(job).hosts() == ["h0"]
    return w, job


def test_a_host_in_use_may_not_vanish_or_change_its_size_and_others_may() -> None:
    w, job = busy()
    for cluster in (cluster_without("h0"), cluster_without(gpus=4)):
        refused = configured(w, clusters=(cluster,))
        assert refused is not None and refused.reason is Reason.HOST_IN_USE
        assert refused.field == "clusters.main.hosts.h0" and f"{job}.1" in refused.fix and "drain" in refused.fix
    assert configured(w, clusters=(cluster_without("h1", "h2", count=5),)) is None
    w.finish(job)
    assert configured(w, clusters=(cluster_without("h0"),)) is None
    assert w.job_state(w.submit("lab/a", 8, replicas=3)) == "queued"  # two hosts are left


def test_a_claimed_host_is_in_use() -> None:
    w = World(Cluster("main", hosts(1)))
    w.submit("lab/b", 8, min_runtime=0)
    w.submit("lab/a", 8)
    refused = configured(w, clusters=(Cluster("main", hosts(1, prefix="n")),))
    assert refused is not None and refused.reason is Reason.HOST_IN_USE and "1.1, 2.1" in refused.fix


def test_labels_of_a_host_in_use_may_change() -> None:
    w, job = busy()
    relabelled = tuple(replace(h, labels=(("rack", "new"),)) for h in hosts(3))
    assert configured(w, clusters=(Cluster("main", relabelled),)) is None
    assert w.job_state(job) == "running"


def test_a_cluster_in_use_may_not_vanish() -> None:
    w = World((Cluster("main", hosts(1)), Cluster("aux", hosts(1, prefix="x"))))
    runs = w.submit("lab/a", 8, clusters=("aux",))
    refused = configured(w, clusters=w.clusters[:1])
    assert refused is not None and (refused.reason, refused.field) == (Reason.CLUSTER_IN_USE, "clusters.aux")
    waits = w.submit("lab/a", 8, clusters=("aux",))
    w.hold(waits)
    w.finish(runs)
    refused = configured(w, clusters=w.clusters[:1])  # a job that accepts nothing else would wait for ever
    assert refused is not None and str(waits) in refused.fix
    w.cancel(waits)
    assert configured(w, clusters=w.clusters[:1]) is None


def test_a_job_that_accepts_another_cluster_as_well_goes_on_when_one_vanishes() -> None:
    w = World((Cluster("main", hosts(1)), Cluster("aux", hosts(1, prefix="x"))))
    runs = w.submit("lab/a", 8, clusters=("main",))
    w.host("x0", HostState.REPAIRING)
    waits = w.submit("lab/a", 8, clusters=("aux", "main"))
    assert configured(w, clusters=w.clusters[:1]) is None
    w.finish(runs)
    assert w.job_state(waits) == "running"


@pytest.mark.parametrize("state", ["queued", "running", "held"])
def test_a_budget_in_use_may_not_vanish_but_may_move(state: str) -> None:
    w = World(Cluster("main", hosts(1)), {"lab/a": 0.5, "lab/b": 0.5})
    job = w.submit("lab/a", 8)
    if state == "queued":
        job = w.submit("lab/a", 8)
    if state == "held":
        w.finish(job)
        job = w.submit("lab/a", 8)
        w.hold(job)
    refused = configured(w, budgets=budgets({"lab/b": 0.5}))
    assert refused is not None and (refused.reason, refused.field) == (Reason.BUDGET_IN_USE, "budgets.lab/a")
    moved = (*budgets({"lab/b": 0.5}), Budget("lab/c", 500_000, moved_from="lab/a"))
    assert configured(w, budgets=moved) is None
    assert w.job(job).budget == "lab/c"


def test_a_budget_below_one_that_moved_moves_with_it() -> None:
    w = World(Cluster("main", hosts(1)), {"lab/p": 0.5, "lab/p/x": 0.5, "lab/q": 0.5})
    job = w.submit("lab/p/x", 8)
    tree = (*budgets({"lab/q": 0.5}), Budget("lab/r", 500_000, moved_from="lab/p"))
    refused = configured(w, budgets=tree)  # lab/p/x would have to be lab/r/x
    assert refused is not None and refused.field == "budgets.lab/p/x"
    assert configured(w, budgets=(*tree, Budget("lab/r/x", 500_000))) is None
    assert w.job(job).budget == "lab/r/x"


def test_a_budget_that_only_the_past_knows_may_vanish() -> None:
    w, job = busy()
    w.advance(HOUR)
    w.finish(job)
    assert configured(w, budgets=budgets({"lab/b": 0.5})) is None
    assert w.used_hours("lab") == 8


def test_a_first_configuration_is_accepted_as_it_is() -> None:
    from tenure.core.state import State

    check_config(State(), World().config())
