"""From options of sbatch to fields of a request, each with where it came from."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from difflib import get_close_matches
from typing import Any, Protocol

from tenure import units
from tenure.core.model import SECOND
from tenure.scripts import shape as shapes
from tenure.scripts import table, values
from tenure.scripts.errors import COMMAND_LINE, Given
from tenure.scripts.shape import Shape, value_of
from tenure.scripts.table import Fate

_FIRST_USE = ("qos", "priority", "nice")
"""Options whose meaning people should be told once, since it differs."""
_MAX_PRIORITY = 1_000_000
_FILES = {"output": "out", "error": "err", "input": "in"}


class Site(Protocol):
    """What has to be asked of the server, and only when an option needs it."""

    def budgets(self) -> Sequence[str]:
        """Paths of all budgets."""

    def labels(self) -> Sequence[tuple[str, str]]:
        """Every label that a host has, as (key, value)."""


@dataclass(frozen=True, slots=True)
class Field:
    """A value of a request. ``origin``: what said so. ``typed``: on the command line."""

    value: Any
    origin: str
    typed: bool = False


@dataclass
class Converted:
    """``notes`` are for people. ``files``: out, err, in and mode of sbatch. ``differs``: options to tell about once.

    ``for_tasks``: a warning that is for what srun starts, not for the script.
    """

    fields: dict[str, Field] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)
    files: dict[str, str] = field(default_factory=dict)
    differs: list[str] = field(default_factory=list)
    shape: Shape = field(default_factory=Shape)
    export: values.Export | None = None
    for_tasks: str = ""
    given: Mapping[str, Given] = field(default_factory=dict)

    def note(self, given: Given, text: str) -> None:
        self.notes.append(f"{given.text} ({given.place}): {text}")


def merged(lines: Iterable[Given], command_line: Iterable[Given] = ()) -> dict[str, Given]:
    """The last of each option, and the command line's rather than the script's."""
    chosen: dict[str, Given] = {}
    above = {given.name: given for given in command_line}
    # Some things have several names, and the command line's replaces any of them.
    replaced = {name for family in shapes.FAMILIES if any(name in above for name in family) for name in family}
    for given in lines:
        if given.name not in replaced:
            chosen.pop(_OPPOSITE.get(given.name, ""), None)
            chosen[given.name] = given
    for given in above.values():
        chosen.pop(_OPPOSITE.get(given.name, ""), None)
        chosen[given.name] = given
    return chosen


_OPPOSITE = {"requeue": "no-requeue", "no-requeue": "requeue"}


def convert(given: Mapping[str, Given], site: Site | None, overridden: Iterable[str] = ()) -> Converted:
    """The request's fields that these options ask for. Raises ScriptError.

    ``overridden``: fields that are said otherwise, so that nobody has to be asked for them.
    """
    made = Converted(given=given, shape=shapes.shape(given))
    skipped = set(overridden)
    for name, one in given.items():
        option = table.BY_NAME[name]
        if option.fate is Fate.REFUSED:
            raise one.error(option.text)
        if name in _FIRST_USE:
            made.differs.append(name)
        elif option.fate is Fate.IGNORED:
            made.note(one, f"no effect here: {option.text}")
        handler = _HANDLERS.get(name)
        if handler is not None and not (name == "account" and "budget" in skipped):
            handler(made, one, site)
    _shaped(made, site)
    return made


def _shaped(made: Converted, site: Site | None) -> None:
    sizes = made.shape
    if sizes.nodes > 1:
        made.fields["replicas"] = Field(sizes.nodes, sizes.origin("replicas"), sizes.typed("replicas"))
    if sizes.gpus is not None:
        made.fields["gpus"] = Field(sizes.gpus, sizes.origin("gpus"), sizes.typed("gpus"))
    if sizes.cpus is not None:
        made.fields["cpus"] = Field(sizes.cpus, sizes.origin("cpus"), sizes.typed("cpus"))
    if sizes.memory is not None:
        memory = units.format_memory(sizes.memory)
        made.fields["memory"] = Field(memory, sizes.origin("memory"), sizes.typed("memory"))
    nodes = made.given.get("nodes")
    if nodes is not None and "-" in (nodes.value or ""):
        made.note(nodes, f"{sizes.nodes} hosts are asked for: a gang has one size")
    if sizes.kind is not None:
        kind = next(part for part in re.split("[:,]", sizes.kind.value or "") if part not in ("gpu", "gres/gpu"))
        _wish(made, sizes.kind, kind, site, required=True)


def _set(made: Converted, given: Given, name: str, value: Any) -> None:
    made.fields[name] = Field(value, f"{given.text} ({given.place})", given.place == COMMAND_LINE)


def _seconds(given: Given) -> int | None:
    """On the command line `2h` will do as well, as for all other times there."""
    if (
        given.place == COMMAND_LINE
        and re.search("[a-z]$", given.value or "")
        and given.value not in ("unlimited", "infinite")
    ):
        return value_of(given, units.parse_duration) // SECOND
    return value_of(given, values.parse_time)


def _time(made: Converted, given: Given, _site: Site | None) -> None:
    seconds = _seconds(given)
    if seconds is not None:
        _set(made, given, "timeout", units.format_duration(seconds * SECOND))


def _time_min(made: Converted, given: Given, _site: Site | None) -> None:
    seconds = _seconds(given)
    if seconds is None:
        raise given.error("write the shortest run that makes progress, like 2:00:00; it is protected for so long")
    _set(made, given, "min_runtime", units.format_duration(seconds * SECOND))


def _account(made: Converted, given: Given, site: Site | None) -> None:
    name = given.value or ""
    if site is None:
        _set(made, given, "budget", name)
        return
    known = list(site.budgets())
    found = [path for path in known if path == name] or [path for path in known if path.rpartition("/")[2] == name]
    if len(found) == 1:
        _set(made, given, "budget", found[0])
    elif found:
        raise given.error(f"several budgets are called so: write {' or '.join(found[:4])}")
    else:
        last = {path.rpartition("/")[2]: path for path in known}
        close = get_close_matches(name, [*known, *last], n=1)
        hint = f"did you mean {last.get(close[0], close[0])}?" if close else "`tenure budgets` lists them"
        raise given.error(f"no budget is called so; {hint}")


def _partition(made: Converted, given: Given, _site: Site | None) -> None:
    _set(made, given, "clusters", [name for name in (given.value or "").split(",") if name])


def _constraint(made: Converted, given: Given, site: Site | None) -> None:
    text = given.value or ""
    if set(text) & set("|[]()*!"):
        raise given.error(
            "only features that a host must have all of, like a100&rack=r1; write one job for each choice"
        )
    for feature in re.split("[&,]", text):
        _wish(made, given, feature.strip(), site, required=given.name == "constraint")


def _wish(made: Converted, given: Given, feature: str, site: Site | None, *, required: bool) -> None:
    """A label that hosts must have, or should have."""
    key, equals, value = feature.partition("=")
    if not feature or (equals and not (key and value)):
        raise given.error("write KEY=VALUE, or the value of a label that hosts have")
    if not equals and site is not None:
        labels = sorted(set(site.labels()))
        found = [label for label in labels if label[1].lower() == feature.lower()]
        if len(found) != 1:
            there = " or ".join(f"{one}={other}" for one, other in (found or labels)[:6]) or "none at all"
            raise given.error(
                f"{'several labels have' if found else 'no host has'} the value {feature}; there are {there}"
            )
        key, value = found[0]
    elif not equals:
        made.note(given, "which label it is the value of is looked up when the job is submitted")
        key, value = "?", feature
    wishes = list(made.fields["labels"].value) if "labels" in made.fields else []
    wishes.append({"key": key, "value": value, "required": required})
    _set(made, given, "labels", wishes)


def _signal(made: Converted, given: Given, _site: Site | None) -> None:
    name, seconds = value_of(given, values.parse_signal)
    _set(made, given, "warn_signal", name)
    if seconds is not None:
        _set(made, given, "grace", f"{seconds}s")
    if "B" not in (given.value or "").rpartition(":")[0].upper():
        made.for_tasks = name
        made.note(given, "what srun starts hears it, and without srun the script itself: pass it on, or use exec")


def _requeue(made: Converted, given: Given, _site: Site | None) -> None:
    _set(made, given, "resumable", given.name == "requeue")


def _nice(made: Converted, given: Given, _site: Site | None) -> None:
    text = "100" if given.value is None else given.value
    if not re.fullmatch(r"-?[0-9]{1,10}", text) or abs(int(text)) > _MAX_PRIORITY:
        raise given.error(f"write a whole number, at most {_MAX_PRIORITY}; higher is later")
    _set(made, given, "priority", -int(text))


def _priority(made: Converted, given: Given, _site: Site | None) -> None:
    text = given.value or ""
    if not re.fullmatch(r"[0-9]{1,10}", text) or int(text) > _MAX_PRIORITY:
        raise given.error(f"write a whole number from 0 to {_MAX_PRIORITY}; it orders jobs inside your budget")
    _set(made, given, "priority", int(text))


def _file(made: Converted, given: Given, _site: Site | None) -> None:
    made.files[_FILES[given.name]] = value_of(given, values.check_file)


def _open_mode(made: Converted, given: Given, _site: Site | None) -> None:
    mode = (given.value or " ")[0].lower()
    if mode not in "at":
        raise given.error("write append or truncate")
    made.files["mode"] = "append" if mode == "a" else "truncate"


def _export(made: Converted, given: Given, _site: Site | None) -> None:
    made.export = value_of(given, values.parse_export)


def _name(made: Converted, given: Given, _site: Site | None) -> None:
    if not given.value:
        raise given.error("write a name")
    _set(made, given, "name", given.value)


def _hold(made: Converted, given: Given, _site: Site | None) -> None:
    _set(made, given, "hold", True)


def _array(made: Converted, given: Given, _site: Site | None) -> None:
    value_of(given, units.parse_array)
    _set(made, given, "array", given.value)


def _dependency(made: Converted, given: Given, _site: Site | None) -> None:
    ok, any_way = value_of(given, values.parse_dependency)
    for name, jobs in (("after_ok", ok), ("after_any", any_way)):
        if jobs:
            _set(made, given, name, jobs)


def _chdir(made: Converted, given: Given, _site: Site | None) -> None:
    if not given.value:
        raise given.error("write a directory")
    _set(made, given, "workdir", given.value)


_HANDLERS: dict[str, Callable[[Converted, Given, Site | None], None]] = {
    "account": _account,
    "array": _array,
    "chdir": _chdir,
    "constraint": _constraint,
    "dependency": _dependency,
    "error": _file,
    "export": _export,
    "hold": _hold,
    "input": _file,
    "job-name": _name,
    "nice": _nice,
    "no-requeue": _requeue,
    "open-mode": _open_mode,
    "output": _file,
    "partition": _partition,
    "prefer": _constraint,
    "priority": _priority,
    "requeue": _requeue,
    "signal": _signal,
    "time": _time,
    "time-min": _time_min,
}
ELSEWHERE = frozenset({"parsable", "test-only", "wrap", "ignore-pbs", "use-min-nodes", *shapes.OPTIONS})
"""Honoured or mapped options that are no field of their own."""
