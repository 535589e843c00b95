"""Configuration: two TOML files to and from the core's records, checked, with every problem named."""

from tenure.config.check import check
from tenure.config.diff import Change, ChangeKind, diff
from tenure.config.dump import dump
from tenure.config.load import load, parse
from tenure.config.machines import Machine, needs_machines, resolve
from tenure.config.problems import ConfigError, Names, Problem
from tenure.config.sample import SAMPLE_FILES, write_sample
from tenure.config.settings import Config, Discover, Notice, Server, Slurm, Smtp

__all__ = [
    "SAMPLE_FILES",
    "Change",
    "ChangeKind",
    "Config",
    "ConfigError",
    "Discover",
    "Machine",
    "Names",
    "Notice",
    "Problem",
    "Server",
    "Slurm",
    "Smtp",
    "check",
    "diff",
    "dump",
    "load",
    "needs_machines",
    "parse",
    "resolve",
    "write_sample",
]
