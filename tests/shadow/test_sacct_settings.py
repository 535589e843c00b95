"""What of a site's settings its model heeds."""

from __future__ import annotations

from support.sacct import CONFIG
from tenure.core.model import HOUR, MINUTE
from tenure.policies import NAMES
from tenure.shadow.sacct.slurms import model_of
from tenure.slurm.reading import read_settings


def test_the_model_has_the_sites_settings() -> None:
    then, said = model_of(read_settings(CONFIG))
    assert then.policy == "slurm"
    assert dict(then.options) == {
        "half_life": 14 * 24 * HOUR, "max_age": 24 * HOUR, "weight_age": 10, "weight_fairshare": 20_000,
        "weight_job_size": 0, "weight_qos": 0,
    }  # fmt: skip
    assert said[0].startswith("The model of Slurm has the site's own half_life 14d")
    assert not any("PriorityWeightTRES" in line for line in said)
    basic = read_settings(CONFIG.replace("multifactor", "basic"))
    assert model_of(basic)[0].policy == "backfill"
    builtin = read_settings(CONFIG.replace("multifactor", "basic").replace("backfill", "builtin"))
    assert model_of(builtin)[0].policy == "fifo"
    more = CONFIG.replace("preempt/none", "preempt/qos").replace(
        "PriorityFlags           =", "PriorityFlags = NO_FAIR_TREE"
    )
    assert any("evicts nobody" in line for line in model_of(read_settings(more))[1])
    assert any("NO_FAIR_TREE" in line for line in model_of(read_settings(more))[1])
    assert model_of(read_settings(""))[0].options == {}


def test_the_model_preempts_scavengers_as_the_site_does() -> None:
    text = CONFIG.replace("preempt/none", "preempt/qos\nPreemptExemptTime = 00:30:00")
    text += "SchedulerParameters = bf_continue,preempt_youngest_first\n"
    assert model_of(read_settings(text))[0].policy == "slurm"  # nothing that it could preempt is named
    then, said = model_of(read_settings(text), scavengers=True)
    if "slurm-preempt" in NAMES:
        assert then.policy == "slurm-preempt"
        assert (then.options["exempt"], then.options["youngest_first"]) == (30 * MINUTE, 1)
        assert "after a PreemptExemptTime of 30m" in said[0]
    else:
        assert any("evicts nobody" in line for line in said)
