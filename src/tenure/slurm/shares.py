"""The association tree as budgets: accounts become budgets, people their members, fair-share values shares.

What an account's own people have of its fair share beside its sub-accounts stays with the account (``self``). An
account whose share is ``parent`` hands its children to its parent: it gets the sum of theirs, so that each has what
it had.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from tenure.config.check_budgets import MAX_BUDGETS, MAX_DEPTH, MAX_PEOPLE, RESERVED
from tenure.core.model import SELF, SHARE_ONE, Budget
from tenure.slurm.reading import PARENT, Association, SlurmUser
from tenure.units import counted

ROOT = "root"
_DEEPEST = 64
_NAME = re.compile(r"[a-z0-9][a-z0-9_-]{0,62}")
_PERSON = re.compile(r"[A-Za-z0-9][A-Za-z0-9._@+-]{0,127}")


@dataclass(slots=True)
class _Account:
    name: str
    parent: str
    share: int
    people: dict[str, int] = field(default_factory=dict)
    below: list[_Account] = field(default_factory=list)


def budgets_of(
    rows: Sequence[Association], users: Sequence[SlurmUser], organisation: str
) -> tuple[tuple[Budget, ...], list[str]]:
    """The budgets, the organisation first, and what could not be carried over."""
    notes: list[str] = []
    root = _tree(rows, notes)
    made = _Maker(_coordinators(users), notes)
    made.add(root, organisation, SHARE_ONE)
    if len(made.budgets) > MAX_BUDGETS:
        notes.append(f"{len(made.budgets)} accounts: at most {MAX_BUDGETS} budgets; only the organisation is written")
        return (Budget(organisation, SHARE_ONE),), notes
    return tuple(made.budgets), notes


def account_paths(rows: Sequence[Association], organisation: str) -> dict[str, str]:
    """Account -> the budget that ``budgets_of`` makes of it, or of the account that it became one with."""
    made = _Maker({}, [])
    made.add(_tree(rows, []), organisation, SHARE_ONE)
    return made.paths


def _tree(rows: Sequence[Association], notes: list[str]) -> _Account:
    """The root with all that is reached from it."""
    accounts: dict[str, _Account] = {}
    for row in rows:
        if not row.user and row.account not in accounts:
            accounts[row.account] = _Account(row.account, row.parent, row.share)
    root = accounts.setdefault(ROOT, _Account(ROOT, "", 1))
    for row in rows:
        account = accounts.get(row.account)
        if row.user and account is not None and (row.user, row.account) != (ROOT, ROOT):
            # One person may have an association for each partition.
            account.people[row.user] = max(row.share, account.people.get(row.user, PARENT))
    for account in accounts.values():
        if account is root:
            continue
        above = accounts.get(account.parent or ROOT)
        if above is None:
            notes.append(f"account {account.name}: its parent {account.parent} is not shown; it is put under {ROOT}")
            above = root
        above.below.append(account)
    _cut(root, accounts, notes)
    return root


def _cut(root: _Account, accounts: Mapping[str, _Account], notes: list[str]) -> None:
    """No deeper than any real tree, and no rings, which would be reached from nowhere."""
    reached, level = {root.name}, [root]
    for _ in range(_DEEPEST):
        level = [child for account in level for child in account.below]
        reached |= {account.name for account in level}
    for account in level:
        account.below.clear()
    if lost := [name for name in accounts if name not in reached]:
        are = "is" if len(lost) == 1 else "are"
        named = ", ".join(lost[:5])
        notes.append(f"{counted(len(lost), 'account')} {are} not below {ROOT}, or too deep: {named}")


def _coordinators(users: Iterable[SlurmUser]) -> dict[str, list[str]]:
    found: dict[str, list[str]] = {}
    for user in users:
        for account in user.coordinates:
            if _PERSON.fullmatch(user.name) and user.name not in found.setdefault(account, []):
                found[account].append(user.name)
    return found


def weight(account: _Account) -> int:
    """What the account counts among its siblings."""
    if account.share != PARENT:
        return account.share
    return sum(weight(child) for child in account.below) + _of_people(account)


def _of_people(account: _Account) -> int:
    return sum(share for share in account.people.values() if share != PARENT)


class _Maker:
    def __init__(self, coordinators: Mapping[str, list[str]], notes: list[str]) -> None:
        self.budgets: list[Budget] = []
        self.paths: dict[str, str] = {}
        """Account -> budget."""
        self._coordinators = coordinators
        self._notes = notes

    def add(self, account: _Account, path: str, share: int, above: frozenset[str] = frozenset()) -> None:
        """The account and all below it. ``above``: who manages it already."""
        deepest = path.count("/") + 1 >= MAX_DEPTH
        people = list(account.people)
        if deepest and account.below:
            merged = [one for child in account.below for one in _everybody(child)]
            people += [person for person in merged if person not in account.people]
            self._note(account, f"a tree has at most {MAX_DEPTH} levels; accounts below it became one with it")
        managers = [name for name in self._coordinators.get(account.name, ()) if name not in above][:MAX_PEOPLE]
        members = self._members(account, list(dict.fromkeys(people)))
        self.budgets.append(Budget(path, share, managers=tuple(managers), members=members))
        self.paths |= dict.fromkeys((one.name for one in _all_of(account)) if deepest else (account.name,), path)
        below = [] if deepest else account.below
        if below or account.name == ROOT or account.people:
            self._differing(account)
        names = _names(below, self._notes)
        weights = [weight(child) for child in below]
        own = _of_people(account)
        if below and not members and own == 0 and any(value == PARENT for value in account.people.values()):
            self._note(account, "its people share with its sub-accounts (parent); they have no part of their own here")
        for child, part in zip(below, _parts(weights, own), strict=True):
            if part == 0:
                self._note(child, "fair share 0 (or too small): its charged jobs will be refused")
            self.add(child, f"{path}/{names[child.name]}", part, above | set(managers))
        if not members and account.name != ROOT and (own or not below):
            self._note(account, "has no people; without `members` everybody whom a budget above lets in may charge it")

    def _members(self, account: _Account, people: list[str]) -> tuple[str, ...]:
        odd = [name for name in people if not _PERSON.fullmatch(name)]
        if odd:
            self._note(account, f"not a user name here: {', '.join(map(repr, odd[:5]))}")
        known = [name for name in people if name not in odd]
        if len(known) > MAX_PEOPLE:
            self._note(account, f"{len(known)} people, more than {MAX_PEOPLE}: it is left open to everybody")
            return ()
        return tuple(known)

    def _differing(self, account: _Account) -> None:
        if len(set(account.people.values())) > 1:
            self._note(account, "its people have different fair shares; inside a budget who used least comes first")

    def _note(self, account: _Account, text: str) -> None:
        self._notes.append(f"account {account.name}: {text}")


def _all_of(account: _Account) -> Iterator[_Account]:
    yield account
    for child in account.below:
        yield from _all_of(child)


def _everybody(account: _Account) -> list[str]:
    return [*account.people, *(one for child in account.below for one in _everybody(child))]


def _parts(weights: Sequence[int], own: int) -> list[int]:
    """Parts per million of each weight, with ``own`` left over; together at most 1, and just 1 where that is 0."""
    total = sum(weights) + own
    if total == 0:
        return [0] * len(weights)
    parts = [one * SHARE_ONE // total for one in weights]
    # What rounding down has left goes to those that it took most from.
    left = sum(weights) * SHARE_ONE // total - sum(parts)
    for at in sorted(range(len(parts)), key=lambda i: (-(weights[i] * SHARE_ONE % total), i))[:left]:
        parts[at] += 1
    return parts


def _names(accounts: Sequence[_Account], notes: list[str]) -> dict[str, str]:
    """A budget's name for each of these siblings."""
    found: dict[str, str] = {}
    taken: set[str] = set()
    for account in accounts:
        name = budget_name(account.name)
        number = 2
        while name in taken:
            name = f"{budget_name(account.name)[:58]}-{number}"
            number += 1
        taken.add(name)
        found[account.name] = name
        if name != account.name:
            notes.append(f"account {account.name}: is called {name} here; jobs that name the account must say so")
    return found


def budget_name(text: str) -> str:
    """The nearest name that a budget may have."""
    name = re.sub(r"[^a-z0-9_-]", "-", text.lower()).lstrip("-_")[:63] or "account"
    return f"{name[:55]}-account" if name == SELF or name in RESERVED or not _NAME.fullmatch(name) else name
