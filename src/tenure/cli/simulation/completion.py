"""What the shell offers for the options of simulations."""

from __future__ import annotations

from collections.abc import Iterable

from tenure.cli.simulation.named import ALL


def _last(known: Iterable[str], incomplete: str) -> list[str]:
    """Endings of a comma-separated list, whose last word is not finished."""
    head, comma, word = incomplete.rpartition(",")
    return [f"{head}{comma}{name}" for name in known if name.startswith(word)]


def policies(incomplete: str) -> list[str]:
    from tenure.policies import NAMES

    return _last((*NAMES, ALL), incomplete)


def mixes(incomplete: str) -> list[str]:
    from tenure.sim.months import MIXES

    return [mix for mix in MIXES if mix.startswith(incomplete)]


def behaviours(incomplete: str) -> list[str]:
    from tenure.cli.simulation.behaving import ADAPTIVE
    from tenure.sim.researchers import TRICKS

    return _last((*TRICKS, ADAPTIVE), incomplete)


def settings(incomplete: str) -> list[str]:
    from tenure.sim.settings import SETTINGS

    return [f"{name}=" for name in SETTINGS if name.startswith(incomplete)]


def formats(incomplete: str) -> list[str]:
    from tenure.sim.traces import READERS

    return [name for name in READERS if name.startswith(incomplete)]
