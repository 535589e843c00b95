"""The group ``tenure simulate``: some of its commands may be written as options, ``tenure simulate --from-server``."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Any

from typer.core import TyperGroup

SPELLED = ("from-server", "from-sacct")
"""Commands that may be written as an option: where the work comes from looks like one, and other tools have it so."""


class SimulateGroup(TyperGroup):
    """``--from-server ...`` is ``from-server ...``, and ``--from-sacct=FILE ...`` is ``from-sacct FILE ...``."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        return super().parse_args(ctx, as_command(args, self.commands))

    def shell_complete(self, ctx: Any, incomplete: str) -> list[Any]:
        """The spelling as an option is offered to whoever begins one."""
        found = super().shell_complete(ctx, incomplete)
        if incomplete.startswith("-"):
            for item in super().shell_complete(ctx, incomplete.lstrip("-")):
                if item.value in SPELLED and f"--{item.value}".startswith(incomplete):
                    item.value = f"--{item.value}"
                    found.append(item)
        return found


def as_command(words: Sequence[str], commands: Collection[str]) -> list[str]:
    """``words`` with the command in place of the option that names it, if the first one is such an option."""
    option, *rest = words or ("",)
    name, equals, value = option.removeprefix("--").partition("=")
    if not option.startswith("--") or name not in SPELLED or name not in commands:
        return list(words)
    return [name, value, *rest] if equals else [name, *rest]
