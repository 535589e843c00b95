"""Defaults: what is left out is filled in from the cluster, and said with what it means."""

from __future__ import annotations

from typing import Any

import pytest
from api_kit import Api

from tenure.api.requests import JobRequest
from tenure.api.submission import Completed, complete
from tenure.core.model import MINUTE, SECOND
from tenure.core.reasons import Refusal


@pytest.fixture
def fill(shared: Api) -> Any:
    def run(**fields: Any) -> Completed:
        body = {"budget": "lab/language", "command": ["true"], **fields}
        with shared.engine.view() as state:
            return complete(JobRequest.model_validate(body), state, "ann")

    return run


def notes(done: Completed) -> dict[str, str]:
    return {note.field: f"{note.value}: {note.text}" for note in done.notes}


def test_everything_left_out_comes_from_the_cluster_and_is_explained(fill: Any) -> None:
    done = fill()
    spec = done.spec
    role = spec.roles[0]
    assert (role.replicas, role.gpus, role.cpus, role.mem) == (1, 1, 8000, 64 * 1024)
    assert spec.clusters == ("main",) and spec.user == "ann" and spec.name == "true"
    assert (spec.contract.min_runtime, spec.contract.resumable) == (15 * MINUTE, False)
    assert spec.timeout is None and spec.grace == 5 * MINUTE
    said = notes(done)
    assert set(said) == {"clusters", "gpus", "cpus, memory", "min_runtime", "resumable", "grace"}
    assert "15m" in said["min_runtime"] and "charged" in said["min_runtime"]
    assert "ends" in said["resumable"]


def test_what_is_given_is_not_noted(fill: Any) -> None:
    done = fill(
        clusters=["small"],
        gpus=2,
        cpus=0.5,
        memory="1G",
        min_runtime="2h",
        resumable=True,
        grace="30s",
        name="it",
    )
    assert done.notes == ()
    assert done.spec.roles[0].cpus == 500 and done.spec.roles[0].mem == 1024
    assert done.spec.grace == 30 * SECOND


def test_defaults_are_those_of_the_first_accepted_cluster_and_fit_all_of_them(fill: Any) -> None:
    spec = fill(clusters=["small", "main"]).spec
    assert (spec.contract.min_runtime, spec.contract.resumable) == (30 * MINUTE, True)
    assert spec.roles[0].cpus == 4000 and spec.roles[0].mem == 16 * 1024


def test_the_default_cluster_is_one_where_the_budget_has_a_share(fill: Any) -> None:
    assert fill(budget="lab/small").spec.clusters == ("small",)


def test_a_default_contract_is_never_longer_than_the_timeout(fill: Any) -> None:
    assert fill(timeout="10m").spec.contract.min_runtime == 10 * MINUTE
    assert fill(timeout="1m").spec.contract.min_runtime == 15 * MINUTE  # below the floor: refused by admission


def test_an_unallocated_job_is_told_the_grace_that_it_really_gets(fill: Any) -> None:
    done = fill(min_runtime="0")
    assert done.spec.contract.min_runtime == 0
    assert notes(done)["grace"].startswith("10s")


def test_durations_as_text_or_in_milliseconds(fill: Any) -> None:
    assert fill(min_runtime="1h30m").spec == fill(min_runtime_ms=90 * MINUTE).spec


def test_roles_each_get_their_part_of_a_host(fill: Any) -> None:
    roles = [
        {"name": "train", "replicas": 2, "gpus": 8, "command": ["python", "train.py"]},
        {"name": "data", "gpus": 0, "command": ["python", "data.py"]},
    ]
    spec = fill(command=None, roles=roles).spec
    assert [(r.name, r.replicas, r.gpus, r.cpus) for r in spec.roles] == [("train", 2, 8, 64_000), ("data", 1, 0, 1000)]
    assert spec.name == "train.py"


@pytest.mark.parametrize(
    ("command", "name"),
    [
        (["python", "-u", "train.py", "--lr", "1"], "train.py"),
        (["python3.11", "-m", "lab.train"], "lab.train"),
        (["/usr/bin/env"], "env"),
        (["sh", "-c", "echo hi"], "sh"),
        (["torchrun", "--standalone", "go.py"], "go.py"),
        (["\n"], "job"),
    ],
)
def test_a_job_without_a_name_is_called_after_its_command(fill: Any, command: list[str], name: str) -> None:
    assert fill(command=command).spec.name == name


def test_what_does_not_go_together_is_refused(fill: Any) -> None:
    with pytest.raises(Refusal, match="say it once"):
        fill(timeout="1h", timeout_ms=5)


@pytest.mark.parametrize(
    ("clusters", "replicas", "asked", "labels"),
    [
        (["small"], 2, [], [("rack", None, False)]),
        (["small"], 1, [], []),  # alone it is in one rack anyhow
        (["main"], 2, [], []),  # which does not say
        (["small", "main"], 2, [], [("rack", None, False)]),  # the first one decides
        (["small"], 2, [{"key": "rack", "value": "r2", "required": True}], [("rack", "r2", True)]),
    ],
)
def test_gangs_are_kept_together_as_their_cluster_says_unless_they_ask_for_something_themselves(
    fill: Any, clusters: list[str], replicas: int, asked: list[Any], labels: list[Any]
) -> None:
    done = fill(clusters=clusters, replicas=replicas, labels=asked)
    assert [(label.key, label.value, label.required) for label in done.spec.labels] == labels
    assert ("labels" in notes(done)) == (bool(labels) and not asked)
    if labels and not asked:
        assert notes(done)["labels"].startswith("rack (preferred): its replicas go where rack is the same")
