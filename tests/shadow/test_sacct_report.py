"""A report of sacct, as it was and otherwise: the truth of the report, and the site's own tree, hosts and words."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from support.sacct import ASSOCIATIONS, BEGIN, CONFIG, HEADER, NODES, H, month, row, text
from tenure.core.model import HOUR, MINUTE, SECOND, SHARE_ONE
from tenure.reports.sides import Side, jobs_of
from tenure.shadow.sacct import run as runs
from tenure.shadow.sacct.report import Chosen, Report, read_report
from tenure.shadow.sacct.run import MODEL, OURS, WAS, Result, folder_of
from tenure.shadow.sacct.site import Given, SiteError, read_associations, site_of
from tenure.sim.settings import SettingError
from tenure.sim.traces.files import Source
from tenure.sim.traces.options import Rule
from tenure.sim.traces.records import Reading, TraceError
from tenure.slurm.reading import PARENT

ALL = Given(ASSOCIATIONS, CONFIG, NODES)
NOW = Chosen(since=BEGIN, warmup=0)
SCAVENGER = replace(NOW, unallocated=("scavenger",))


def read(rows: Sequence[str], given: Given = ALL, chosen: Chosen = NOW, header: str = HEADER) -> Report:
    source = Source.of("report.txt", text(rows, header).splitlines(keepends=True))
    return read_report([source], Reading("report.txt", "sacct"), site_of(given), given, chosen, lambda _: None)


def made(report: Report, policies: Sequence[str] = ("budgets",), pairs: Sequence[tuple[str, str]] = ()) -> Result:
    return runs.run(report, runs.orders(report, policies, pairs), lambda *_: None)


def side(result: Result, label: str) -> Side:
    return next(one for one in result.sides if one.label == label)


def times(one: Side) -> dict[str, list[tuple[int, int]]]:
    """Job -> its runs, seconds after BEGIN; -1: goes on."""
    found: dict[str, list[tuple[int, int]]] = {}
    for attempt in one.run.attempts:
        end = -1 if attempt.ended is None else attempt.ended // SECOND - BEGIN
        found.setdefault(str(one.key(attempt.job_id)), []).append((attempt.started // SECOND - BEGIN, end))
    return found


def in_report(rows: Sequence[str]) -> dict[str, tuple[str, str]]:
    return {cells[0]: (cells[8], cells[9]) for cells in (one.split("|") for one in rows)}


def told(result: Result) -> str:
    return "\n".join(result.found["notes"])


def budget(result: Result, path: str) -> dict[str, Any]:
    (found,) = [one for one in result.found["budgets"] if one["budget"] == path]
    return dict(found)


def test_as_it_was_is_what_the_report_says() -> None:
    result = made(read(month()))
    was = times(side(result, WAS))
    expected = {
        **{str(100 + n): [(n * 12 * H, (n * 12 + 11) * H)] for n in range(4)},
        **{f"{200 + n}_{k}": [((n * 12 + 11) * H, (n * 12 + 11) * H + 2400)] for n in range(4) for k in range(6)},
    }
    assert was == expected
    assert {slot[0] for one in side(result, WAS).run.attempts for slot in one.slots} == {"n1", "n2"}
    assert result.found["all"]["figures"][WAS]["charged_gpu_hours"] == pytest.approx(4 * (11 * 16 + 6 * 2 * 2 / 3))


def test_who_gains_and_who_loses() -> None:
    result = made(read(month()))
    vision = budget(result, "root/science/vision")
    # Language's jobs are exposed after 4 h at the latest, and outranked by then.
    assert vision["figures"][WAS]["p90_s"] > 9 * H
    assert vision["figures"][OURS]["p90_s"] < 5 * H
    assert vision["changes"][OURS]["verdict"] == "gains"
    assert any(
        line.startswith("root/science/vision") and "median wait falls" in line for line in result.found["said"][OURS]
    )
    assert result.found["said"][MODEL][0].startswith("How well the model tells the truth: of 28 jobs")
    (beside,) = result.found["also"]
    assert beside["heading"] == "Tenure against the model of Slurm"
    assert [one.label for one in result.sides] == [WAS, OURS, MODEL]


def test_the_tree_is_the_sites_own() -> None:
    report = read(month())
    assert {one.path: one.share for one in report.terms.config.budgets} == {
        "root": SHARE_ONE,
        "root/science": 100 * SHARE_ONE // 100,
        "root/science/language": 600_000,
        "root/science/vision": 400_000,
    }
    assert not report.strangers
    assert [host.name for host in report.terms.config.clusters[0].hosts] == ["n1", "n2"]


def test_the_warm_up_is_a_quarter_and_is_as_it_was_on_every_side() -> None:
    report = read(month(), chosen=Chosen())
    # The report begins with the first end in it, at 11 h, and ends at 47 h 40 min.
    assert report.record.since == BEGIN + 11 * H
    assert report.span.takeover == (BEGIN + (11 + 9) * H) * SECOND
    result = made(report)
    early = {key: found for key, found in times(side(result, WAS)).items() if found[0][0] < 20 * H}
    assert len(early) == 8
    for label in (OURS, MODEL):
        assert {key: found[0][0] for key, found in times(side(result, label)).items() if key in early} == {
            key: found[0][0] for key, found in early.items()
        }
    assert "2026-06-01T11:00:00Z" in told(result) and "until 2026-06-01T20:00:00Z every side starts" in told(result)


def test_what_waits_at_the_end_is_demand() -> None:
    rows = [*month(), row("900", "grace@vision", submitted=40 * H, gpus=16), row("901_[1-2]", submitted=41 * H)]
    result = made(read(rows))
    assert {"900", "901_1", "901_2"} <= jobs_of(side(result, WAS)).keys()
    assert result.found["all"]["figures"][WAS]["never_started"] == 3
    assert "Of 3 jobs that still waited at the end nobody knows" in told(result)
    began = times(side(result, OURS))["900"][0][0]
    assert began >= 40 * H  # nobody knows how long it takes: until its limit


def test_waits_are_since_a_job_was_eligible() -> None:
    held = row("7", submitted=0, eligible=10 * H, started=11 * H, ended=12 * H)
    result = made(read([held]))
    assert result.found["all"]["figures"][WAS]["p50_s"] == H
    without = HEADER.replace("|Eligible", "")
    cells = held.split("|")
    result = made(read(["|".join([*cells[:7], *cells[8:]])], header=without))
    assert result.found["all"]["figures"][WAS]["p50_s"] == 11 * H
    assert "The report has no Eligible" in told(result)


def test_a_job_that_was_requeued_is_one_job() -> None:
    rows = [
        row("7", started=H, ended=2 * H, state="PREEMPTED"),
        row("7", submitted=2 * H, started=3 * H, ended=4 * H),
        row("8", started=H, ended=30 * H, hosts="n2"),
    ]
    result = made(read(rows, chosen=NOW))
    assert times(side(result, WAS))["7"] == [(H, 2 * H), (3 * H, 4 * H)]
    assert times(side(result, OURS))["7"] == [(0, 2 * H)]  # as long, in one
    assert jobs_of(side(result, WAS))["7"].wait == H * SECOND
    assert result.found["all"]["figures"][WAS]["finished"] == 2
    assert "Slurm ran jobs again 1 times" in told(result)


def test_what_was_preempted_for_good_has_ended() -> None:
    result = made(read([row("7", started=H, ended=2 * H, state="PREEMPTED"), row("8", started=H, ended=5 * H)]))
    assert result.found["all"]["figures"][WAS]["never_started"] == 0
    assert jobs_of(side(result, WAS))["7"].last.state == "succeeded"


def test_what_jobs_are_taken_to_have_signed() -> None:
    rows = [
        row("1", started=0, ended=600),
        row("2", started=0, ended=20 * H),
        row("3", started=0, ended=20 * H, limit="01:00:00"),
        row("4", started=0, ended=20 * H, qos="scavenger"),
        row("5", submitted=0, limit="00:10:00"),
    ]
    report = read(rows, chosen=SCAVENGER)
    signed = {life.key: report.terms.spec(life) for life in report.record.lives.all}
    contracts = {key: (spec.contract.min_runtime, spec.contract.resumable) for key, spec in signed.items() if spec}
    assert contracts == {
        "1": (15 * MINUTE, False), "2": (HOUR, True), "3": (HOUR, True), "4": (0, True), "5": (10 * MINUTE, False)
    }  # fmt: skip
    mine = replace(SCAVENGER, rules=(Rule(None, None, 2 * HOUR, False),))
    report = read(rows, chosen=mine)
    spec = report.terms.spec(report.record.lives.by_id["1"])
    assert spec is not None and (spec.contract.min_runtime, spec.contract.resumable) == (2 * HOUR, False)
    result = made(report)
    assert "any size: min_runtime 2h, cannot resume" in told(result)
    assert "1 job of scavenger run on what is left over" in told(result)


def test_jobs_of_accounts_that_are_not_in_the_tree() -> None:
    rows = [row("1", "eve@elsewhere", started=0, ended=H), row("2", started=0, ended=H, hosts="n2")]
    result = made(read(rows))
    assert "1 job of accounts that the associations do not have (elsewhere)" in told(result)
    own = budget(result, "root/self")["figures"][WAS]
    assert (own["unallocated_gpu_hours"], own["charged_gpu_hours"]) == (8.0, 0.0)
    shared = ASSOCIATIONS.replace("site|root||root|1|", "site|root||ops|100|")
    result = made(read(rows, replace(ALL, associations=shared)))
    assert "(elsewhere): they are charged to the root, to the share that it keeps for itself." in told(result)
    assert budget(result, "root/self")["figures"][WAS]["charged_gpu_hours"] == 8.0
    result = made(read([row("1", "eve@", started=0, ended=H), rows[1]], Given()))
    assert "1 job without an account: they are charged to the root, which has no share of its own." in told(result)


def test_without_associations_shares_are_by_gpu_time() -> None:
    report = read(month(), Given(gpus=16))
    shares = {one.path: one.share for one in report.terms.config.budgets}
    assert shares["root/language"] == pytest.approx(704 / 736 * SHARE_ONE, rel=0.01)
    assert sum(share for path, share in shares.items() if "/" in path) <= SHARE_ONE
    result = made(report)
    assert "No associations were given" in told(result)
    assert "Hosts are made up: 2 of 8 GPUs" in told(result)
    assert result.found["not_carried_over"] == []


def test_made_up_hosts_have_room_for_what_ran() -> None:
    """On as many GPUs as were in use at a time, whatever hosts jobs had."""
    rows = [row(str(n), started=0, ended=H, gpus=6, hosts=f"x{n}") for n in range(4)]
    report = read(rows, Given(ASSOCIATIONS))
    assert (report.peak, report.terms.config.clusters[0].gpus) == (24, 24)
    assert {found[0] for found in times(side(made(report), WAS)).values()} == {(0, H)}
    small = made(read(rows, Given(ASSOCIATIONS, gpus=16)))
    assert "Up to 24 GPUs were in use at a time in the report, and there are 16 here" in told(small)
    assert "starts found no room here at their time" in told(small)


def test_partitions_that_do_not_count() -> None:
    rows = [row("1", started=0, ended=H), row("2", started=0, ended=H, partition="short", hosts="n2")]
    for given in (ALL, Given(ASSOCIATIONS, gpus=16)):
        result = made(read(rows, given, replace(NOW, partitions=("gpu",))))
        assert jobs_of(side(result, WAS)).keys() == {"1"}
        assert "Left out: 1 job of other partitions, or on other hosts." in told(result)
    report = read(rows, Given(), replace(NOW, partitions=("gpu",)))
    assert (report.peak, report.terms.config.clusters[0].gpus) == (8, 8)
    with pytest.raises(SiteError, match="partition = gpus: no job of it is in the report; there are gpu, short"):
        read(rows, Given(), replace(NOW, partitions=("gpus",)))


def test_only_what_runs_in_the_measured_time_and_in_partitions_that_count_needs_hosts() -> None:
    """Else there would be too many of them, free as it was and taken by every other side."""
    rows = [
        row("1", started=0, ended=2 * H, gpus=16),
        row("2", started=3 * H, ended=9 * H),
        row("3", "eve@elsewhere", started=3 * H, ended=9 * H, gpus=64, partition="other"),
    ]
    chosen = replace(NOW, since=BEGIN + 3 * H, partitions=("gpu",))
    report = read(rows, Given(), chosen)
    assert (report.peak, report.terms.config.clusters[0].gpus) == (8, 8)
    assert {one.path for one in report.terms.config.budgets} == {"root", "root/language"}
    assert not report.strangers


def test_jobs_are_told_from_whatever_order_of_rows() -> None:
    """Reports that were joined the other way round, or sorted: what a job did first is first."""
    rows = [
        row("7", submitted=0),
        row("7", submitted=0, started=H, now=2 * H),
        row("7", submitted=0, started=H, ended=5 * H, state="PREEMPTED"),
        row("7", submitted=5 * H, started=9 * H, ended=20 * H),
        row("8", submitted=0),
        row("8", submitted=0, ended=6 * H, state="CANCELLED by 7"),
    ]
    for lines in (rows, rows[::-1], rows[3:] + rows[:3]):
        lives = read(lines).record.lives.by_id
        assert [(run.started - BEGIN, run.ended - BEGIN) for run in lives["7"].runs] == [(H, 5 * H), (9 * H, 20 * H)]
        assert (lives["7"].submitted, lives["7"].over) == (BEGIN, True)
        assert (lives["8"].gave_up, lives["8"].runs) == (BEGIN + 6 * H, [])


def test_a_job_that_was_resized_ran_before_that_too() -> None:
    rows = [
        row("7", started=H, ended=5 * H, state="RESIZING"),
        row("7", started=5 * H, ended=20 * H),
        row("8", started=H, ended=30 * H, hosts="n2"),
    ]
    (life,) = [life for life in read(rows).record.lives.all if life.key == "7"]
    assert [(run.started - BEGIN, run.ended - BEGIN) for run in life.runs] == [(H, 5 * H), (5 * H, 20 * H)]


def test_other_policies_and_settings() -> None:
    report = read(month())
    result = made(report, ["budgets", "fifo", "slurm"], [("preemption_margin", "2h")])
    assert [one.label for one in result.sides] == [WAS, OURS, "fifo", "slurm", MODEL]
    assert result.sides[1].run.settings == {"preemption_margin": "2h"}
    assert times(side(result, "slurm")) == times(side(result, MODEL))
    with pytest.raises(SettingError, match="half_life: it changes nothing under budgets"):
        made(report, ["budgets"], [("half_life", "7d")])


def test_only_the_policy_that_the_model_is_needs_no_second_side() -> None:
    report = read(month(), replace(ALL, config=CONFIG.replace("multifactor", "basic")))
    labels = [one.label for one in runs.orders(report, ["slurm", "backfill", "fifo"], [])]
    assert labels == [WAS, "slurm", "fifo", MODEL]  # backfill is the model


def test_associations_in_whatever_form() -> None:
    rows = read_associations(ASSOCIATIONS)
    assert [(one.account, one.user, one.parent, one.share) for one in rows][2:5] == [
        ("science", "", "root", 100), ("language", "", "science", 60), ("language", "ada", "", 1)
    ]  # fmt: skip
    plain = "Account|Par Name|Share|User\nroot||1|\na|root|parent|\na||2|ann\n"
    assert [(one.account, one.share) for one in read_associations(plain)] == [("root", 1), ("a", PARENT), ("a", 2)]
    headless = "site|root||||1\nsite|a|||root|3\n"
    assert [(one.account, one.parent, one.share) for one in read_associations(headless)] == [
        ("root", "", 1),
        ("a", "root", 3),
    ]
    for wrong, why in (
        ("", "no header"),
        ("hello\n", "no header"),
        ("Account|User\na|b\n", "no column ParentName, Share"),
    ):
        with pytest.raises(SiteError, match=why):
            read_associations(wrong)


def test_associations_of_several_clusters() -> None:
    two = ASSOCIATIONS + ASSOCIATIONS.partition("\n")[2].replace("site|", "other|")
    with pytest.raises(SiteError, match="several clusters"):
        site_of(Given(two))
    assert len(site_of(Given(two, cluster="other")).associations or ()) == 7
    assert len(site_of(Given(two, CONFIG)).associations or ()) == 7  # the configuration names its cluster
    assert [one.path for one in read(month(), Given(ASSOCIATIONS, gpus=16)).terms.config.budgets][2:] == [
        "root/science/language", "root/science/vision"
    ]  # fmt: skip
    with pytest.raises(SiteError, match="no account below root"):
        site_of(Given("Cluster|Account|ParentName|User|Share\nsite|root|||1\n"))
    with pytest.raises(SiteError, match="cluster = third"):
        site_of(Given(two, cluster="third"))


def test_files_that_are_something_else() -> None:
    with pytest.raises(SiteError, match="scontrol show config"):
        site_of(Given(config="nothing"))
    with pytest.raises(SiteError, match="no node with GPUs"):
        site_of(Given(nodes="NodeName=n1 CPUTot=4 Partitions=gpu\n"))
    with pytest.raises(SiteError, match="names its partitions"):
        site_of(Given(nodes="NodeName=n1 CPUTot=4 Gres=gpu:8\n"))
    with pytest.raises(TraceError, match="no job with GPUs in its 1 row"):
        read([row("1", gpus=0)])
    with pytest.raises(SiteError, match="nothing ran in this report"):
        read([row("1"), row("2", submitted=H)], Given(ASSOCIATIONS), Chosen(since=BEGIN - H))
    with pytest.raises(
        SiteError, match="gpus = 800000: with 8 in each that makes 100,000 hosts, and there are at most"
    ):
        read(month(), Given(gpus=800_000))
    with pytest.raises(SiteError, match="gpus = 800000"):
        read([row("1", started=0, ended=H, gpus=800_000)], Given())
    with pytest.raises(SiteError, match="the report is shorter"):
        read(month(), chosen=Chosen(warmup=200 * HOUR))


def test_files_are_the_same_to_the_byte(tmp_path: Path) -> None:
    for name in ("one", "two"):
        result = made(read(month()))
        for one in result.sides:
            one.run.wall_s = 0.0
            runs.write_tables(one, tmp_path / name)
        runs.write(result, tmp_path / name, "Today", pages=name == "one")
    files = {path.relative_to(tmp_path / "two") for path in (tmp_path / "two").rglob("*") if path.is_file()}
    assert {Path("sides.html"), Path("comparison.html"), Path(folder_of(OURS), "jobs.csv")} <= files
    for file in files:
        assert (tmp_path / "one" / file).read_bytes() == (tmp_path / "two" / file).read_bytes(), file
    assert (tmp_path / "one" / folder_of(WAS) / "report.html").is_file()


def test_the_time_after_the_last_row_is_not_free_time() -> None:
    last = 47 * H + 2400
    for until in (0, BEGIN + 400 * H):
        report = read(month(), chosen=replace(NOW, until=until))
        assert report.record.until == BEGIN + last
    with pytest.raises(SiteError, match="since = 2026-06-09T08:00:00Z: the report has nothing after 2026-06-02T23:40"):
        read(month(), chosen=Chosen(since=BEGIN + 200 * H))
