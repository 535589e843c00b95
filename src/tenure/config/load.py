"""From files or texts to a checked ``Config``, or to a ConfigError with every problem found."""

from __future__ import annotations

import re
import tomllib
from dataclasses import replace
from decimal import Decimal, InvalidOperation
from pathlib import Path
from typing import Any

from tenure.config.budget_file import read_budgets, read_grants
from tenure.config.check import check_clusters, check_policy, check_server, check_slurm
from tenure.config.check_budgets import check_budgets, check_grants
from tenure.config.check_notice import check_notice
from tenure.config.cluster_file import BUDGETS_FILE, ClusterFile
from tenure.config.problems import ConfigError, Names, Problem, dotted, show
from tenure.config.settings import Config, Notice, Slurm

MAX_FILE = 4 * 1024 * 1024
MAX_NESTING = 32
_LINE = re.compile(r"at line ([0-9]+)")
_LARGEST = 2**63 - 1


def load(path: Path) -> Config:
    """Read ``path`` (``tenure.toml``) and the budgets file that it names, next to it.

    Relative directories are taken from the file's directory. Raises ConfigError.
    """
    path = path.absolute()
    problems: list[Problem] = []
    text = _read(path, "run `tenure init` to write one", problems)
    if text is None:
        raise ConfigError(problems)
    data = _toml(text, path.name, problems)
    named = data.get("budgets", BUDGETS_FILE) if data is not None else BUDGETS_FILE
    names = Names(path.name, named if isinstance(named, str) else BUDGETS_FILE)
    tree = None
    budgets_path = _beside(path, names.budgets, problems)
    if budgets_path is not None:
        remedy = f"write the budgets there, or name their file in {path.name}: budgets = {show(BUDGETS_FILE)}"
        budgets_text = _read(budgets_path, remedy, problems)
        tree = _toml(budgets_text, names.budgets, problems) if budgets_text is not None else None
    config = _build(data, tree, names, problems)
    return replace(
        config,
        server=replace(config.server, data_dir=path.parent / config.server.data_dir),
        slurm=_placed(config.slurm, path.parent),
        slurm_of=tuple((name, _placed(own, path.parent)) for name, own in config.slurm_of),
        notice=_keys_placed(config.notice, path.parent),
    )


def _placed(slurm: Slurm, base: Path) -> Slurm:
    """Relative paths are taken from ``base``."""
    paths = {name: getattr(slurm, name) for name in ("root", "commands", "conf")}
    return replace(slurm, **{name: base / path for name, path in paths.items() if path is not None})


def _keys_placed(notice: Notice, base: Path) -> Notice:
    """The same for the files of keys and passwords."""
    key, password = notice.secret_file, notice.smtp.password_file
    smtp = replace(notice.smtp, password_file=base / password if password is not None else None)
    return replace(notice, smtp=smtp, secret_file=base / key if key is not None else None)


def parse(text_clusters: str, text_budgets: str, names: Names | None = None) -> Config:
    """A configuration from the texts of its two files. Raises ConfigError."""
    names = names or Names()
    problems: list[Problem] = []
    data = _toml(text_clusters, names.clusters, problems)
    return _build(data, _toml(text_budgets, names.budgets, problems), names, problems)


def _build(data: dict[str, Any] | None, tree: dict[str, Any] | None, names: Names, problems: list[Problem]) -> Config:
    """Checks go as far as what could be read lets them: each file's shape first, then limits, then references."""
    if tree is not None:
        budgets = read_budgets(tree, names.budgets, problems)
        grants = read_grants(tree, names.budgets, problems)
    tree_read = not problems and tree is not None
    if data is None:
        raise ConfigError(problems)
    file = ClusterFile(data, names.clusters)
    problems += file.problems
    if not file.problems:
        found = frozenset(place.cluster for place in file.discover)
        problems += check_server(file.server, file.policy, names.clusters)
        problems += check_slurm(file.slurm, file.slurm_of, file.clusters, names.clusters)
        problems += check_notice(file.notice, names.clusters)
        problems += check_policy(file.policy, names.clusters)
        problems += check_clusters(file.clusters, file.policy, names.clusters, left_open=True, found=found)
    if tree_read:
        problems += check_budgets(budgets, file.clusters, names.budgets)
    if tree_read and not problems:
        problems += check_grants(grants, budgets, file.clusters, names.budgets)
    if problems or tree is None:
        raise ConfigError(problems)
    return Config(
        server=file.server,
        clusters=tuple(file.clusters),
        policy=file.policy,
        budgets=tuple(budgets),
        grants=tuple(grants),
        discover=tuple(file.discover),
        slurm=file.slurm,
        notice=file.notice,
        slurm_of=tuple(file.slurm_of.items()),
    )


def _beside(path: Path, name: str, problems: list[Problem]) -> Path | None:
    if not name or "\0" in name:
        problems.append(Problem(path.name, "budgets", show(name), "name a file, like budgets.toml"))
        return None
    return path.parent / name


def _read(path: Path, remedy: str, problems: list[Problem]) -> str | None:
    try:
        with path.open("rb") as file:
            raw = file.read(MAX_FILE + 1)
    except OSError as error:
        why = error.strerror or str(error)
        problems.append(Problem(path.name, "(file)", str(path), f"{why}; {remedy}"))
        return None
    if len(raw) > MAX_FILE:
        problems.append(Problem(path.name, "(file)", str(path), f"larger than {MAX_FILE >> 20} MiB; split it up"))
        return None
    try:
        return raw.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = raw.count(b"\n", 0, error.start) + 1
        problems.append(Problem(path.name, f"line {line}", repr(raw[error.start : error.end]), "save it as UTF-8"))
        return None


def _toml(text: str, file: str, problems: list[Problem]) -> dict[str, Any] | None:
    try:
        data = tomllib.loads(text, parse_float=_exact)
    except tomllib.TOMLDecodeError as error:
        message = str(error)
        match = _LINE.search(message)
        number = int(match[1]) if match else text.count("\n") + 1
        lines = text.splitlines() or [""]
        line = lines[min(number, len(lines)) - 1]
        problems.append(Problem(file, f"line {number}", show(line.strip()), f"not TOML: {message}"))
        return None
    except (ValueError, RecursionError):
        problems.append(Problem(file, "(file)", show(text.strip()), "a number or a nesting far too large"))
        return None
    before = len(problems)
    _refuse_extremes(data, file, problems)
    return data if len(problems) == before else None


def _exact(text: str) -> Decimal:
    try:
        return Decimal(text)
    except InvalidOperation as error:
        raise ValueError(f"{text[:40]} is too large") from error


def _refuse_extremes(data: dict[str, Any], file: str, problems: list[Problem]) -> None:
    """Integers beyond 64 bits and tables nested without end, both of which TOML's grammar lets pass."""
    left: list[tuple[tuple[str | int, ...], object]] = [((), data)]
    while left:
        place, value = left.pop()
        if len(place) > MAX_NESTING:
            problems.append(Problem(file, dotted(place[:3]), "{ ... }", f"at most {MAX_NESTING} levels of tables"))
        elif isinstance(value, dict):
            left += [((*place, key), inner) for key, inner in value.items()]
        elif isinstance(value, list):
            left += [((*place, index), inner) for index, inner in enumerate(value)]
        elif isinstance(value, int) and abs(value) > _LARGEST:
            problems.append(Problem(file, dotted(place), show(value), "numbers in TOML have at most 64 bits"))
