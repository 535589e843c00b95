"""What a job of Slurm's is to Tenure."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from shadow_kit import SITE, terms, waits

from tenure.core.model import HOUR, MINUTE, JobSpec, Label
from tenure.shadow.journal import RecordError
from tenure.shadow.lives import Life
from tenure.shadow.seen import Seen
from tenure.shadow.terms import LIMIT, Terms, terms_of


def life(seen: Seen) -> Life:
    return Life(seen.id, seen, seen.submitted, seen.eligible)


def spec(seen: Seen, given: Terms | None = None) -> JobSpec:
    made = (given or terms()).spec(life(seen))
    assert made is not None
    return made


def shape(seen: Seen) -> list[tuple[int, int]]:
    return [(role.replicas, role.gpus) for role in spec(seen).roles]


def test_account_and_user_are_budget_and_person() -> None:
    made = spec(waits("1", 0, account="vision", user="alan"))
    assert (made.budget, made.user, made.clusters) == ("lab/vision", "alan", ("gpu",))
    assert spec(waits("1", 0, account="unheard-of")).budget == "lab"
    assert spec(waits("1", 0, account="root")).budget == "lab"


def test_of_which_clusters_a_job_is() -> None:
    assert terms().spec(life(waits("1", 0, partition="cpu"))) is None
    assert terms().spec(life(waits("1", 0, gpus=0))) is None
    assert spec(waits("1", 0, partition="cpu,long")).clusters == ("gpu",)  # that has the same hosts


def test_nodes_are_replicas() -> None:
    assert shape(waits("1", 0, 16)) == [(2, 8)]
    assert shape(waits("1", 0, 12, nodes=2)) == [(2, 6)]
    assert shape(waits("1", 0, 8, nodes=3)) == [(2, 3), (1, 2)]
    assert shape(waits("1", 0, 24, nodes=1)) == [(3, 8)]  # --gpus=24, and Slurm has not said on how many nodes


def test_memory_counts_where_slurm_counts_it() -> None:
    job = waits("1", 0, 2, cpus=12, mem=65_536)
    assert [(role.cpus, role.mem) for role in spec(job).roles] == [(12_000, 0)]
    assert [role.mem for role in spec(job, terms(asks_memory=True)).roles] == [65_536]


@pytest.mark.parametrize(
    ("seen", "wanted"),
    [
        ({}, 15 * MINUTE),
        ({"least": 3600}, HOUR),
        ({"least": 60}, 5 * MINUTE),
        ({"least": 86_400}, 8 * HOUR),
        ({"comment": "run 7 min_runtime=2h"}, 2 * HOUR),
        ({"comment": "min_runtime=2h", "least": 600}, 2 * HOUR),
        ({"comment": "min-runtime=0"}, 0),
        ({"comment": "min_runtime=later"}, 15 * MINUTE),
        ({"comment": "min_runtime=2h", "limit": 1800}, 30 * MINUTE),
        ({"limit": 60}, 5 * MINUTE),
    ],
)
def test_min_runtime(seen: dict[str, Any], wanted: int) -> None:
    assert spec(waits("1", 0, **seen)).contract.min_runtime == wanted


def test_an_assumed_min_runtime_is_for_those_who_say_nothing() -> None:
    assert spec(waits("1", 0), terms(HOUR)).contract.min_runtime == HOUR
    assert spec(waits("1", 0, least=600), terms(HOUR)).contract.min_runtime == 10 * MINUTE
    assert spec(waits("1", 0, limit=7200), terms(LIMIT)).contract.min_runtime == 2 * HOUR
    assert spec(waits("1", 0, limit=864_000), terms(LIMIT)).contract.min_runtime == 8 * HOUR
    assert spec(waits("1", 0), terms(LIMIT)).contract.min_runtime == 8 * HOUR
    assert terms().silent(life(waits("1", 0)))
    assert not terms().silent(life(waits("1", 0, comment="min_runtime=1h")))


def test_resumable_is_what_somebody_said() -> None:
    def resumes(given: Terms | None = None, **seen: Any) -> bool:
        return spec(waits("1", 0, **seen), given).contract.resumable

    assert not resumes()  # Slurm may requeue it, as it may everything: nobody asked for that
    assert resumes(terms(asked_requeue=True))
    assert resumes(mark="tenure:1 requeue=yes")
    assert not resumes(terms(resumable=True), mark="tenure:1 requeue=no")
    assert resumes(comment="resumable, see notes")
    assert resumes(terms(resumable=True))
    assert not resumes(terms(resumable=True), requeue=0)


def test_features_that_are_all_required_are_labels() -> None:
    tenure = SITE["tenure"].replace("gpus = 8", 'labels = { h100 = "yes", ib = "yes" }, gpus = 8')
    given = terms(tenure=tenure)
    assert spec(waits("1", 0, features="h100&ib"), given).labels == (
        Label("h100", "yes", True),
        Label("ib", "yes", True),
    )
    assert spec(waits("1", 0, features="h100|a100"), given).labels == ()
    assert spec(waits("1", 0, features="unknown"), given).labels == ()


def test_a_configuration_of_ones_own(tmp_path: Path) -> None:
    (tmp_path / "tenure.toml").write_text(SITE["tenure"].replace("clusters.gpu", "clusters.h100"))
    (tmp_path / "budgets.toml").write_text("[lab]\n[lab.ai]\nshare = 1.0\n[lab.ai.language]\nshare = 0.7\n")
    given = terms_of(SITE, tmp_path / "tenure.toml")
    made = spec(waits("1", 0), given)
    assert (made.clusters, made.budget) == (("h100",), "lab/ai/language")
    (tmp_path / "tenure.toml").write_text(SITE["tenure"].replace("n[1-4]", "other[1-4]"))
    with pytest.raises(RecordError, match="no cluster of it names a host of partition gpu"):
        terms_of(SITE, tmp_path / "tenure.toml")
