"""From an account of Slurm to a budget."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from difflib import get_close_matches

from tenure.core.reasons import Reason, Refusal

OTHERS = "*"
"""In the table of accounts: every one that is not named, and jobs that name none."""


def budget_of(account: str, table: Mapping[str, str], paths: Iterable[str]) -> str:
    """The path of the budget that ``account`` is charged to: as ``table`` says, else the one that ends in its name.

    Slurm writes accounts in lower case. Raises Refusal.
    """
    known = {name.lower(): path for name, path in table.items()}
    if account.lower() in known:
        return known[account.lower()]
    paths = sorted(paths)
    named = [path for path in paths if account and path.rpartition("/")[2].lower() == account.lower()]
    if len(named) == 1:
        return named[0]
    if OTHERS in known:
        return known[OTHERS]
    if named:
        fix = f'several budgets end so: {", ".join(named)}; say --comment="tenure: budget=..."'
        raise Refusal(Reason.UNKNOWN_BUDGET, "account", account, fix)
    names = [path.rpartition("/")[2] for path in paths]
    close = get_close_matches(account.lower(), names, n=1, cutoff=0.6) if account else []
    hint = f"did you mean {close[0]}?" if close else f"accounts are: {', '.join(names[:8])}"
    fix = f"no budget has this name; {hint} (scontrol update JobId=... Comment='tenure: budget=...' names one)"
    raise Refusal(Reason.UNKNOWN_BUDGET, "account", account or "(none)", fix)
