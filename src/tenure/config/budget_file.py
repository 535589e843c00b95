"""``budgets.toml``: nested tables as budgets, and the list of grants."""

from __future__ import annotations

from typing import Any

from tenure.config.check_budgets import MAX_DEPTH
from tenure.config.problems import MISSING, Problem, dotted, show
from tenure.config.schema import BudgetTable, GrantTable, Place, validate
from tenure.core.model import SHARE_ONE, Budget, Grant

GRANTS = "grants"
"""The one top-level key that is not a budget."""


def read_budgets(data: dict[str, Any], file: str, problems: list[Problem]) -> list[Budget]:
    """Every table is a budget, tables in it are its children. Adds to ``problems``."""
    budgets: list[Budget] = []
    for name, table in data.items():
        if name != GRANTS:
            _read_budget((name,), table, file, problems, budgets)
    return budgets


def _read_budget(
    place: tuple[str, ...], data: object, file: str, problems: list[Problem], budgets: list[Budget]
) -> None:
    if not isinstance(data, dict):
        _not_a_budget(place, data, file, problems)
        return
    if len(place) > MAX_DEPTH:
        problems.append(Problem(file, dotted(place), show("/".join(place)), f"a tree has at most {MAX_DEPTH} levels"))
        return
    settings = {k: v for k, v in data.items() if k in BudgetTable.model_fields or not isinstance(v, dict)}
    table = validate(BudgetTable, settings, file, place, problems)
    if table is not None:
        share = _share(table, place, file, problems)
        budgets.append(
            Budget(
                path="/".join(place),
                share=share,
                cluster_shares=tuple(sorted(table.cluster_shares.items())),
                managers=tuple(table.managers),
                members=tuple(table.members),
                moved_from=table.moved_from,
            )
        )
    for name, child in data.items():
        if name not in settings:
            _read_budget((*place, name), child, file, problems, budgets)


def _share(table: BudgetTable, place: tuple[str, ...], file: str, problems: list[Problem]) -> int:
    if table.share is not None:
        return table.share
    if len(place) > 1:
        parent = "/".join(place[:-1])
        problems.append(
            Problem(
                file,
                dotted((*place, "share")),
                MISSING,
                f"say which part of {parent} this budget gets, like share = 0.25; share = 0 for none",
            )
        )
    return SHARE_ONE


def _not_a_budget(place: Place, data: object, file: str, problems: list[Problem]) -> None:
    field = dotted(place)
    problems.append(Problem(file, field, show(data), f"a budget is a table; write [{field}] above its settings"))


def read_grants(data: dict[str, Any], file: str, problems: list[Problem]) -> list[Grant]:
    """The ``[[grants]]``. Adds to ``problems``."""
    tables = data.get(GRANTS, [])
    if not isinstance(tables, list):
        problems.append(Problem(file, GRANTS, show(tables), "write each grant under a line [[grants]]"))
        return []
    grants = []
    for index, data_of_one in enumerate(tables):
        table = validate(GrantTable, data_of_one, file, (GRANTS, index), problems)
        if table is not None:
            grants.append(
                Grant(
                    to=table.to,
                    taken_from=tuple(table.taken_from),
                    amount=table.gpu_hours,
                    cluster=table.cluster,
                    start=table.start,
                    end=table.end,
                )
            )
    return grants
