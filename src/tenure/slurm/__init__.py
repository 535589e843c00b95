"""Looking at a site's Slurm: whether it suits Tenure, and what of it becomes a configuration. Changes nothing."""

from tenure.slurm.carry import Carried, NothingToCarry, carry_over
from tenure.slurm.commands import CommandFailed, Commands
from tenure.slurm.doctor import examine
from tenure.slurm.findings import Finding, Level, counted
from tenure.slurm.regimes import Regime, Rule, read_marks, regimes
from tenure.slurm.site import Site, read_site

__all__ = [
    "Carried",
    "CommandFailed",
    "Commands",
    "Finding",
    "Level",
    "NothingToCarry",
    "Regime",
    "Rule",
    "Site",
    "carry_over",
    "counted",
    "examine",
    "read_marks",
    "read_site",
    "regimes",
]
