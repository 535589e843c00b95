"""Under whose rule a partition is, by the plugin's script, the marks on jobs, and a configuration."""

from __future__ import annotations

import pytest
from site_kit import PLUGIN, site

from tenure.slurm import CommandFailed, Rule, regimes
from tenure.slurm.reading import Partition
from tenure.slurm.regimes import listed

SCRIPT = PLUGIN.read_text("utf-8")


def marks(*jobs: tuple[str, str, str]) -> str:
    """What squeue prints of jobs: partitions, admin comment, comment."""
    return "\n".join(f"{names:<200}{admin[:8]:<8}{comment[:8]:<8}" for names, admin, comment in jobs)


@pytest.mark.parametrize(
    ("plugin", "script", "jobs", "configured", "rule", "why"),
    [
        ("lua", SCRIPT, [], (), Rule.TENURE, "holds its jobs at birth"),
        ("lua", SCRIPT, [("gpu", "(null)", "(null)")], (), Rule.TENURE, "holds its jobs at birth"),
        ("lua", None, [("gpu", "tenure:1", "mine")], (), Rule.TENURE, "which is not here"),
        ("lua", None, [("gpu", "(null)", "(null)")], (), Rule.SLURM, "job_submit.lua is not here"),
        ("lua", "-- another script", [], (), Rule.SLURM, "does not list it"),
        ("none", None, [("gpu", "(null)", "(null)")], (), Rule.SLURM, "does not list it"),
        ("none", None, [("gpu", "(null)", "tenure:main:3.0")], (), Rule.TENURE, "starts past Tenure"),
        ("none", None, [("gpu", "(null)", "tenure:x"), ("cpu,gpu", "(null)", "x")], (), Rule.BOTH, "past Tenure"),
        ("none", None, [], ("gpu",), Rule.TENURE, "starts past Tenure"),
        ("none", None, [("gpu", "(null)", "x tenure:")], ("gpu",), Rule.BOTH, "past Tenure"),
    ],
)
def test_a_partition_is_under_one_rule_or_both(
    plugin: str, script: str | None, jobs: list[tuple[str, str, str]], configured: tuple[str, ...], rule: Rule, why: str
) -> None:
    looked_at = site(JobSubmitPlugins=plugin)
    looked_at.partitions = (Partition("gpu", True, {}), Partition("cpu", False, {}))
    looked_at.files = {} if script is None else {"job_submit.lua": script}
    found = regimes(looked_at, marks(*jobs), configured)[0]
    assert (found.partition, found.rule) == ("gpu", rule)
    assert why in found.why


def test_jobs_that_cannot_be_read_are_said_and_not_guessed() -> None:
    looked_at = site(JobSubmitPlugins="none")
    found = regimes(looked_at, CommandFailed("squeue", "ended with 1", "no"))
    assert all("could not be looked at: squeue ended with 1: no" in one.why for one in found)


def test_the_list_of_the_script_as_it_is_shipped() -> None:
    looked_at = site(JobSubmitPlugins="lua")
    looked_at.files = {"job_submit.lua": SCRIPT}
    assert listed(looked_at) == ("gpu",)
