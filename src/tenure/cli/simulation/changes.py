"""What `tenure simulate --from-server` changes, from how it was typed."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from tenure.cli.errors import CliError
from tenure.cli.simulation import named

if TYPE_CHECKING:
    from tenure.config import Config
    from tenure.core.state import State
    from tenure.whatif.change import Variant, Wanted

CHANGED = "changed"


@dataclass(frozen=True, slots=True)
class Changes:
    """``file``: another ``tenure.toml``; ``tree``: another file of budgets. The rest as ``NAME=VALUE`` each."""

    file: Path | None
    tree: Path | None
    settings: Sequence[str]
    policies: Sequence[str]
    moves: Sequence[str]

    def check(self) -> None:
        """What can be said before anything is read. Raises CliError."""
        if self.file is not None and self.tree is not None:
            raise CliError("budgets: --with names a whole configuration, budgets included; give one of the two")
        if not (self.file or self.tree or self.settings or self.policies):
            raise CliError(
                "nothing is changed: name another configuration (--with FILE), other budgets (--budgets FILE), "
                "a setting (--set NAME=VALUE) or another policy (--policy NAME)"
            )
        self._policies()
        self._moves()

    def variants(self, state: State, config: Path) -> list[Variant]:
        """What to run beside the run as it is. ``config``: the server's own file. Raises CliError and ConfigError."""
        from tenure.sim.settings import SettingError, heeds, parse_assignment
        from tenure.whatif.change import BUDGETS, Variant

        wanted, moves = self._wanted(state, config), self._moves()
        policies = self._policies()
        pairs = []
        try:
            for name, values in map(parse_assignment, self.settings):
                if len(values) > 1:
                    raise CliError(f"set {name} = {','.join(values)}: one value; run again for another")
                if not any(heeds(policy, name) for policy in policies):
                    raise CliError(f"set {name}: it changes nothing under {', '.join(policies)}")
                pairs.append((name, values[0]))
        except SettingError as error:
            raise CliError(str(error)) from error
        if len({name for name, _ in pairs}) < len(pairs):
            raise CliError("set: give each setting one value")
        found = []
        for policy in policies:
            label = CHANGED if policy == BUDGETS else policy
            heeded = tuple(pair for pair in pairs if heeds(policy, pair[0]))
            variant = Variant(label, policy, wanted, heeded, moves)
            if variant.changes:
                found.append(variant)
        return found

    def _policies(self) -> list[str]:
        names = named.policies(self.policies)
        if names == ["budgets"] and not (self.file or self.tree or self.settings):
            raise CliError("policy = budgets: that is what the server runs; change something of it, or name another")
        return names or ["budgets"]

    def _moves(self) -> dict[str, str]:
        found: dict[str, str] = {}
        for text in self.moves:
            old, equals, new = (part.strip().strip("/") for part in text.partition("="))
            if not equals or not old or not new:
                raise CliError(f"move = {text}: write OLD=NEW, like lab/vision=lab/multimodal")
            if found.setdefault(old, new) != new:
                raise CliError(f"move = {text}: {old} goes to {found[old]} already")
        return found

    def _wanted(self, state: State, config: Path) -> Wanted | None:
        from tenure.whatif.change import Wanted

        if self.file is not None:
            loaded = _filled(self.file, state)
            made = Wanted(loaded.clusters, loaded.policy, loaded.budgets, loaded.grants)
        elif self.tree is not None:
            loaded = _with_budgets(config, self.tree)
            clusters = tuple(cluster.spec for cluster in state.clusters.values())
            made = Wanted(clusters, state.policy, loaded.budgets, loaded.grants)
        else:
            made = None
        paths = {budget.path for budget in (made.budgets if made is not None else state.budgets)}
        for old, new in self._moves().items():
            if new not in paths:
                raise CliError(f"move = {old}={new}: there is no budget {new} in the changed tree")
        return made


@dataclass(frozen=True, slots=True)
class _Machine:
    """A host of the server, as a configuration takes over what it leaves open."""

    name: str
    gpus: int
    cpus: int
    mem: int
    cluster: str


def _filled(file: Path, state: State) -> Config:
    """A configuration in which what is left to the machines is as the server has it."""
    from tenure.config import load, resolve

    machines = [
        _Machine(host.name, host.gpus, host.cpus, host.mem, name)
        for name, cluster in state.clusters.items()
        for host in cluster.spec.hosts
    ]
    return resolve(load(file), machines)


def _with_budgets(config: Path, tree: Path) -> Config:
    """The server's file with another file of budgets."""
    from tenure.config import Names, parse

    return parse(_text("config", config), _text("budgets", tree), Names(config.name, tree.name))


def _text(name: str, path: Path) -> str:
    try:
        return path.read_text("utf-8")
    except OSError as error:
        raise CliError(f"{name} = {path}: cannot be read: {error.strerror or error}") from error
    except UnicodeDecodeError as error:
        raise CliError(f"{name} = {path}: cannot be read: save it as UTF-8") from error
