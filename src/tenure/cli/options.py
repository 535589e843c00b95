"""The options of ``submit`` and ``run``, once, and how they become a request."""

from __future__ import annotations

import inspect
import os
import shutil
import tomllib
from collections.abc import Callable
from dataclasses import dataclass, fields
from functools import cache
from pathlib import Path
from typing import Annotated, Any, get_type_hints

import typer

from tenure.cli.context import complete_budgets
from tenure.cli.errors import CliError
from tenure.scripts.table import Takes

PASSED = ("PATH", "VIRTUAL_ENV", "CONDA_PREFIX", "CONDA_DEFAULT_ENV", "LD_LIBRARY_PATH", "PYTHONPATH", "LANG")
"""Variables that a job gets from the shell that submits it, unless ``--clean-env``."""

Text = str | None


@dataclass(frozen=True)
class JobOptions:
    """Values as they were typed: the server reads them and says what is wrong with them."""

    words: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="[JOB.toml|SCRIPT] [--] COMMAND...",
            help="A command, a batch script with its arguments (- reads it from here), or a job file.",
            show_default=False,
        ),
    ] = None
    budget: Annotated[
        Text,
        typer.Option(
            "--budget",
            "-b",
            metavar="PATH",
            help="Who is charged, like lab/vision [TENURE_BUDGET].",
            autocompletion=complete_budgets,
        ),
    ] = None
    gpus: Annotated[Text, typer.Option("--gpus", "-g", metavar="N", help="GPUs of each replica [1].")] = None
    replicas: Annotated[Text, typer.Option(metavar="N", help="How many, started together [1].")] = None
    cpus: Annotated[Text, typer.Option(metavar="N", help="CPUs of each replica \\[its GPUs' part of a host].")] = None
    mem: Annotated[Text, typer.Option(metavar="SIZE", help="Memory of each replica, like 64G.")] = None
    min_runtime: Annotated[
        Text,
        typer.Option("--min-runtime", "-m", metavar="TIME", help="Protected for so long, like 2h; 0: free, evictable."),
    ] = None
    resumable: Annotated[
        bool | None, typer.Option("--resumable/--no-resumable", help="When evicted, queue again.", show_default=False)
    ] = None
    priority: Annotated[Text, typer.Option(metavar="N", help="Order inside the budget, higher first [0].")] = None
    timeout: Annotated[Text, typer.Option(metavar="TIME", help="The longest that an attempt may run.")] = None
    grace: Annotated[Text, typer.Option(metavar="TIME", help="Between warning and kill, when evicted.")] = None
    cluster: Annotated[list[str] | None, typer.Option(metavar="NAME", help="Accepted clusters, first best.")] = None
    name: Annotated[Text, typer.Option(metavar="NAME", help="A name to recognise it by.")] = None
    env: Annotated[
        list[str] | None, typer.Option("--env", "-e", metavar="NAME[=VALUE]", help="A variable; without value: yours.")
    ] = None
    clean_env: Annotated[bool, typer.Option("--clean-env", help=f"Do not pass {', '.join(PASSED)}.")] = False
    workdir: Annotated[Text, typer.Option(metavar="DIR", help="Where it runs \\[this directory].")] = None
    launch: Annotated[
        Text, typer.Option(metavar="HOW", help="per-replica (one process, torchrun) or per-gpu (RANK is set).")
    ] = None
    warn_signal: Annotated[Text, typer.Option(metavar="SIGNAL", help="The warning before an eviction.")] = None
    retries: Annotated[Text, typer.Option(metavar="N", help="Start again when it fails by itself [0].")] = None
    require: Annotated[
        list[str] | None, typer.Option(metavar="KEY[=VALUE]", help="Only hosts with this label; KEY: all on one value.")
    ] = None
    prefer: Annotated[list[str] | None, typer.Option(metavar="KEY[=VALUE]", help="The same, if possible.")] = None
    array: Annotated[
        Text,
        typer.Option(metavar="INDICES", help="A job for each index, like 0-15, 0,6,16-32 or 0-31%4 (4 at a time)."),
    ] = None
    after_ok: Annotated[
        list[str] | None, typer.Option("--after-ok", metavar="JOB[,JOB...]", help="Start after the success of these.")
    ] = None
    after_any: Annotated[
        list[str] | None, typer.Option("--after-any", metavar="JOB[,JOB...]", help="Start after the end of these.")
    ] = None
    hold: Annotated[bool, typer.Option("--hold", help="Do not start before `tenure release`.")] = False
    key: Annotated[Text, typer.Option(metavar="KEY", help="Submitting twice with one key creates one job.")] = None
    user: Annotated[Text, typer.Option(metavar="NAME", help="For somebody else (administrators).")] = None
    wrap: Annotated[Text, typer.Option(metavar="TEXT", help="Run this line as a script of /bin/sh.")] = None
    script: Annotated[bool, typer.Option("--script", hidden=True)] = False
    """The command is a batch script, which aliases found out."""
    sbatch: Annotated[list[str] | None, typer.Option("--sbatch", hidden=True)] = None
    """Options of sbatch, as NAME or NAME=VALUE: aliases put them here."""

    def request(self) -> dict[str, Any]:
        """The request's JSON: the job file, with options over it. Raises CliError."""
        words = list(self.words or ())
        body: dict[str, Any] = {}
        if words and words[0].endswith(".toml") and Path(words[0]).is_file():
            body = read_job_file(Path(words.pop(0)))
        if words:
            body["command"] = command_words(words)
        if budget := os.environ.get("TENURE_BUDGET"):
            body["budget"] = budget
        for field, value in self.plain_values().items():
            if value is not None:
                body[field] = value
        if wishes := self.labels():
            body.setdefault("labels", []).extend(wishes)
        body.setdefault("workdir", str(Path.cwd()))
        passed = {} if self.clean_env else passed_variables()
        given = body.get("env", {})
        if isinstance(given, dict):
            body["env"] = {**passed, **given, **self.variables()}
        return body

    def labels(self) -> list[dict[str, Any]]:
        wishes = [_label("require", wish, True) for wish in self.require or ()]
        return wishes + [_label("prefer", wish, False) for wish in self.prefer or ()]

    def variables(self) -> dict[str, str]:
        return dict(_variable(text) for text in self.env or ())

    def plain_values(self) -> dict[str, Any]:
        """What is simply a field of the request; None was not given."""
        return {
            "budget": self.budget,
            "gpus": _number(self.gpus),
            "replicas": _number(self.replicas),
            "cpus": self.cpus,
            "memory": self.mem,
            "min_runtime": self.min_runtime,
            "resumable": self.resumable,
            "priority": _number(self.priority),
            "timeout": self.timeout,
            "grace": self.grace,
            "clusters": _listed(self.cluster),
            "name": self.name,
            "workdir": None if self.workdir is None else str(Path(self.workdir).absolute()),
            "launch": self.launch,
            "warn_signal": _signal(self.warn_signal),
            "retries": _number(self.retries),
            "array": self.array,
            "after_ok": _listed(self.after_ok),
            "after_any": _listed(self.after_any),
            "hold": self.hold or None,
            "client_key": self.key,
            "user": self.user,
        }


@cache
def _hints() -> dict[str, Any]:
    return get_type_hints(JobOptions, include_extras=True)


def spellings(field: str) -> dict[str, Takes]:
    """Long names of a field's option, with what they take; nothing for what is not to be typed."""
    names = [name for name in names_of(field) if name.startswith("--")]
    flag = _hints()[field].__origin__ in (bool, bool | None)
    return dict.fromkeys(names, Takes.NOTHING if flag else Takes.VALUE)


def names_of(field: str) -> list[str]:
    """All names of a field's option, short ones too; nothing for what is not to be typed."""
    declared = _hints()[field].__metadata__[0]
    if not hasattr(declared, "param_decls") or declared.hidden or field == "words":
        return []
    # Inside of Annotated typer takes the first name for a default.
    given = [one for one in (declared.default, *(declared.param_decls or ())) if isinstance(one, str)]
    names = [name for one in given for name in one.split("/") if name.startswith("-")]
    return names if any(name.startswith("--") for name in names) else [*names, f"--{field.replace('_', '-')}"]


def passed_variables() -> dict[str, str]:
    return {name: os.environ[name] for name in PASSED if name in os.environ}


def takes(options: type[Any]) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Give a command all fields of a dataclass as its own options; it is called with such a record first."""

    def decorate(command: Callable[..., None]) -> Callable[..., None]:
        own = list(inspect.signature(command).parameters.values())[1:]
        hints = get_type_hints(options, include_extras=True)
        names = [field.name for field in fields(options)]
        shared = [
            inspect.Parameter(
                field.name, inspect.Parameter.POSITIONAL_OR_KEYWORD, default=field.default, annotation=hints[field.name]
            )
            for field in fields(options)
        ]

        def wrapper(**values: Any) -> None:
            command(options(**{name: values.pop(name) for name in names}), **values)

        own_hints = get_type_hints(command, include_extras=True)
        own = [parameter.replace(annotation=own_hints[parameter.name]) for parameter in own]
        required = [p for p in own if p.default is inspect.Parameter.empty]
        optional = [p for p in own if p.default is not inspect.Parameter.empty]
        parameters = [*required, *shared, *optional]
        wrapper.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
        wrapper.__annotations__ = {p.name: p.annotation for p in parameters}
        wrapper.__doc__, wrapper.__name__ = command.__doc__, command.__name__
        return wrapper

    return decorate


def read_job_file(path: Path) -> dict[str, Any]:
    """A job file: the fields of a request as TOML. A relative ``workdir`` is taken from the file's directory."""
    try:
        data = tomllib.loads(path.read_text("utf-8"))
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise CliError(f"{path.name}: not TOML: {error}") from error
    except OSError as error:
        raise CliError(f"{path}: {error.strerror}") from error
    body: dict[str, Any] = _jsonable(data)
    workdir = body.get("workdir")
    if isinstance(workdir, str):
        body["workdir"] = str((path.absolute().parent / workdir).absolute())
    return body


def _jsonable(value: Any) -> Any:
    """TOML's dates, infinities and the like as their text, for the server to refuse."""
    if isinstance(value, dict):
        return {key: _jsonable(item) for key, item in value.items()}
    if isinstance(value, list):
        return [_jsonable(item) for item in value]
    if isinstance(value, bool | int | str) or (isinstance(value, float) and abs(value) < float("inf")):
        return value
    return str(value)


def _number(text: str | None) -> int | str | None:
    """A whole number when it is one, else the text."""
    if text is None:
        return None
    digits = text.removeprefix("-")
    return int(text) if digits.isascii() and digits.isdigit() and len(digits) < 19 else text


def _listed(texts: list[str] | None) -> list[str] | None:
    """``a,b`` and ``c`` are three; None for nothing."""
    return [name for text in texts for name in text.split(",")] if texts else None


def _signal(text: str | None) -> str | None:
    """``TERM`` and ``sigterm`` are known, too; Slurm's ``B:USR1@60`` names its signal in the middle."""
    if text is None:
        return None
    name = text.rpartition(":")[2].partition("@")[0].upper()
    return name if name.startswith("SIG") else f"SIG{name}"


def _label(option: str, text: str, required: bool) -> dict[str, Any]:
    key, equals, value = text.partition("=")
    if not key or (equals and not value):
        raise CliError(f"{option} = {text}: write KEY=VALUE, or KEY alone for all on one value of it")
    return {"key": key, "value": value if equals else None, "required": required}


def _variable(text: str) -> tuple[str, str]:
    name, equals, value = text.partition("=")
    if equals:
        return name, value
    if name not in os.environ:
        raise CliError(f"env = {name}: it is not set here; write {name}=VALUE")
    return name, os.environ[name]


def is_there(command: list[str], workdir: str) -> bool:
    """Whether this machine has such a program or file; hosts may have others."""
    first = command[0]
    return (Path(workdir) / first).exists() if "/" in first else shutil.which(first) is not None


def command_words(words: list[str]) -> list[str]:
    """The command, where a script of this directory needs no ``./``. Raises CliError for one that cannot run."""
    first = Path(words[0])
    if "/" in words[0] or shutil.which(words[0]) is not None or not first.is_file():
        return words
    if not os.access(first, os.X_OK):
        runner = "python" if first.suffix == ".py" else "bash"
        raise CliError(f"command = {words[0]}: it is not executable; write: {runner} {words[0]}")
    return [str(first.absolute()), *words[1:]]
