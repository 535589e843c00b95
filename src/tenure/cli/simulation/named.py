"""The policies that an option names."""

from __future__ import annotations

from collections.abc import Iterable

from tenure.cli.errors import CliError

ALL = "all"
"""Stands for every policy."""


def policies(texts: Iterable[str]) -> list[str]:
    """Each policy of ``a,b`` texts once, in the order in which they were named; ``all`` adds those that were not, in
    the order in which `tenure simulate policies` lists them. Raises CliError for what is none.
    """
    from tenure.policies import NAMES

    found: dict[str, None] = {}
    for name in (part.strip() for text in texts for part in text.split(",")):
        if name == ALL:
            found |= dict.fromkeys(NAMES)
        elif name in NAMES:
            found[name] = None
        elif name:
            raise CliError(f"policy = {name}: there are {', '.join(NAMES)}; {ALL} stands for every one")
    return list(found)
