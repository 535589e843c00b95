"""Worlds of one month that differ in what some people do, to be put side by side (``reports.behaviours``)."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from tenure.reports.behaviours import ADAPTIVE, CHANCE, HONEST, SETTING
from tenure.sim.behaviour import Behaviour
from tenure.sim.insisting import heeds
from tenure.sim.months import behaving
from tenure.sim.researchers import TRICKS
from tenure.sim.researchers.adapting import LEARNED, Learning
from tenure.sim.setup import Setup

USUAL = (*LEARNED, CHANCE, ADAPTIVE)
"""What is compared unless something else is named."""
NAMES = (*TRICKS, ADAPTIVE)


def world(base: Setup, name: str, share: float, reap_idle: int, learning: Learning) -> Setup:
    """``base`` in which the share of the people does this; with ``honest`` nobody does, with ``adaptive`` all learn.

    The same people are counted in each, and nobody comes to claim more but by what they do. Raises KeyError for an
    unknown name, ValueError for what cannot be done.
    """
    shares = {} if name in (HONEST, ADAPTIVE) else {name: share}
    learns = learning if name == ADAPTIVE else None
    made = behaving(base, Behaviour(shares, learns, reap_idle, counted=share, settled=True))
    return replace(made, settings=(*base.settings, (SETTING, name)), varied=(*base.varied, SETTING))


def choices(policy: str, names: Iterable[str]) -> tuple[str, ...]:
    """What people may learn under a policy: the tricks among ``names`` that change anything there, else all such."""
    named = tuple(name for name in names if name in TRICKS and name != CHANCE and heeds(policy, name))
    return named or tuple(name for name in LEARNED if heeds(policy, name))


def unheeded(policies: Iterable[str], names: Iterable[str]) -> set[tuple[str, str]]:
    """(policy, name) of what cannot change anything, so that nobody has to run it."""
    wanted = [name for name in names if name in TRICKS]
    return {(policy, name) for policy in policies for name in wanted if not heeds(policy, name)}
