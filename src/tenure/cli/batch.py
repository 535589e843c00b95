"""From a command line, a script's lines and what the server knows to one request, each value with its origin."""

from __future__ import annotations

import os
import socket
import sys
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tenure.cli.aliases import own_options
from tenure.cli.errors import CliError
from tenure.cli.options import JobOptions, passed_variables
from tenure.scripts import launch, lines, srun
from tenure.scripts.convert import Converted, Field, Site, convert, merged
from tenure.scripts.errors import COMMAND_LINE, Given, Place, ScriptError
from tenure.scripts.lines import Script
from tenure.scripts.shape import Shape

_NOT_IN_SCRIPTS = ("key", "user", "quiet", "json", "dry-run", "plan", "help", "wrap")
"""Options of ``submit`` that say nothing about the job."""
_NOT_PASSED = ("SLURM_", "SBATCH_", "SRUN_", "SALLOC_", "TENURE_", "PET_", "TORCHELASTIC_", "PMI_", "PMIX_", "OMPI_")
_NOT_PASSED_EXACTLY = (
    *("CUDA_VISIBLE_DEVICES", "CUDA_DEVICE_ORDER", "MASTER_ADDR", "MASTER_PORT", "RANK", "WORLD_SIZE", "LOCAL_RANK"),
    *("LOCAL_WORLD_SIZE", "GROUP_RANK", "PWD", "OLDPWD", "SHLVL", "_", "DISPLAY", "XAUTHORITY", "SSH_AUTH_SOCK"),
)
"""What an outer launcher or a terminal says of itself, and --export=ALL does not mean."""
_SCRIPTS_ONLY = {
    **dict.fromkeys(("output", "error", "open-mode"), "`tenure logs` has its output"),
    "input": "let a shell read the file",
    "export": "write --env NAME=VALUE, or --clean-env",
    "ntasks-per-node": "write --replicas, and --launch per-gpu for a process on each GPU",
    **dict.fromkeys(("cpus-per-gpu", "mincpus"), "write --cpus"),
    **dict.fromkeys(("mem-per-cpu", "mem-per-gpu"), "write --mem"),
}
"""Options of sbatch that a command has other words for."""
_SPREADING = ("srun", "mpirun", "mpiexec")


@dataclass
class Prepared:
    """A request (``body``), what said so (``origins``, by field), and what people should know."""

    body: dict[str, Any]
    origins: dict[str, str] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)
    differs: list[str] = field(default_factory=list)
    quiet: bool = False
    dry_run: bool = False


def prepare(options: JobOptions, site: Site | None) -> Prepared:
    """The request of a command line. ``site`` None: nobody is asked, as for a dry run without a server.

    Raises CliError.
    """
    try:
        typed = [_typed(text) for text in options.sbatch or ()]
        script = _script(options)
        if script is None and not typed:
            made = _plain(options)
        elif script is None:
            made = _command(options, convert(merged((), typed), site))
        else:
            made = _batch(options, script, typed, site)
    except ScriptError as error:
        raise CliError(str(error)) from error
    if options.priority is not None:
        made.differs.append("priority")
    return made


def _typed(text: str) -> Given:
    name, equals, value = text.partition("=")
    return Given(name, value if equals else None, COMMAND_LINE)


def _script(options: JobOptions) -> Script | None:
    """The batch script that is to run, if it is one. Raises ScriptError, CliError."""
    words = list(options.words or ())
    known = {name: takes for name, takes in own_options()[0].items() if name not in _NOT_IN_SCRIPTS}
    if options.wrap is not None:
        if words:
            raise CliError(f"wrap = {options.wrap}: it is the whole script; take {words[0]} out, or leave --wrap out")
        return lines.read(f"#!/bin/sh\n{options.wrap}\n".encode(), "wrap", known)
    if not options.script or not words:
        return None
    if words[0] == "-":
        return lines.read(sys.stdin.read(lines.MAX_SCRIPT + 1).encode("utf-8", "surrogateescape"), "sbatch", known)
    path = Path(words[0])
    try:
        with path.open("rb") as file:
            return lines.read(file.read(16 * lines.MAX_SCRIPT), path.name, known)
    except OSError as error:
        raise CliError(f"script = {words[0]}: {error.strerror}") from error


def _plain(options: JobOptions) -> Prepared:
    """A command or a job file, in our own words only."""
    body = options.request()
    first = (options.words or [""])[0]
    origins = {name: first for name in body if name != "env"} if first.endswith(".toml") else {}
    if os.environ.get("TENURE_BUDGET"):
        origins["budget"] = "TENURE_BUDGET"
    return Prepared(body, origins | dict.fromkeys(_told(options), "command line"))


def _told(options: JobOptions) -> set[str]:
    """Fields that the command line says."""
    return {name for name, value in options.plain_values().items() if value is not None}


def _command(options: JobOptions, made: Converted) -> Prepared:
    """A command, not a script, with options of sbatch that have no other name here."""
    for name, given in made.given.items():
        if name in _SCRIPTS_ONLY:
            raise given.error(f"it is for batch scripts, and this is a command: {_SCRIPTS_ONLY[name]}")
    body = options.request()
    told = _told(options)
    origins = dict.fromkeys(told, "command line")
    for name, one in made.fields.items():
        if name == "labels":
            body["labels"] = [*one.value, *body.get("labels", [])]
        elif name not in told and (one.typed or name == "labels"):
            body[name], origins[name] = one.value, one.origin
    return Prepared(body, origins, made.notes, list(made.differs))


def _batch(options: JobOptions, script: Script, typed: list[Given], site: Site | None) -> Prepared:
    ours = _options_of(script.tenure)
    made = convert(merged(script.sbatch, typed), site, _told(ours) | _told(options))
    fields = _layers(options, script, ours, made)
    wishes = [*made.fields["labels"].value] if "labels" in made.fields else []
    body = {name: one.value for name, one in fields.items()}
    if labels := [*wishes, *ours.labels(), *options.labels()]:
        body["labels"] = labels
    body["workdir"] = str(Path(body.get("workdir", ".")).absolute())
    body["env"] = _environment(options, ours, made)
    changed = any(fields.get(name) is not made.fields.get(name) for name in ("replicas", "gpus", "cpus", "memory"))
    _launch(body, script, list(options.words or ())[1:], made, changed)
    notes = [*made.notes, *(f"{place}: {text}" for place, text in script.unread), *_where_it_runs(script, body, made)]
    notes += [*_not_meant(list(options.words or ())[1:]), *_not_read(os.environ)]
    return Prepared(
        body=body,
        origins={name: one.origin for name, one in fields.items()},
        notes=notes,
        differs=list(made.differs),
        quiet="parsable" in made.given,
        dry_run="test-only" in made.given,
    )


def _options_of(given: Iterable[Given]) -> JobOptions:
    """What #TENURE lines say, as if it had been typed."""
    values: dict[str, Any] = {}
    for one in given:
        name = one.name.replace("-", "_")
        if name in ("resumable", "no_resumable"):
            values["resumable"] = name == "resumable"
        elif name in ("cluster", "env", "require", "prefer", "after_ok", "after_any"):
            values.setdefault(name, []).append(one.value)
        else:
            values[name] = True if one.value is None else one.value
    return JobOptions(**values)


def _layers(options: JobOptions, script: Script, ours: JobOptions, made: Converted) -> dict[str, Field]:
    """Each field from the best place that says it: defaults, #SBATCH, #TENURE, the command line."""
    fields = {"name": Field(script.name, "the script's name")}
    if budget := os.environ.get("TENURE_BUDGET"):
        fields["budget"] = Field(budget, "TENURE_BUDGET")
    sbatch = {name: one for name, one in made.fields.items() if name != "labels"}
    fields |= {name: one for name, one in sbatch.items() if not one.typed}
    said = {_FIELD_OF.get(one.name, one.name.replace("-", "_")): one for one in script.tenure}
    for name, value in ours.plain_values().items():
        if value is not None:
            fields[name] = Field(value, f"{said[name].text} ({said[name].place})")
    fields |= {name: one for name, one in sbatch.items() if one.typed}
    for name, value in options.plain_values().items():
        if value is not None:
            fields[name] = Field(value, "command line")
    return fields


_FIELD_OF = {"mem": "memory", "cluster": "clusters", "key": "client_key", "no-resumable": "resumable"}
"""Fields that are not called as their option."""


def _environment(options: JobOptions, ours: JobOptions, made: Converted) -> dict[str, str]:
    export = made.export
    env: dict[str, str] = {}
    if export is not None and export.everything:
        env = {name: value for name, value in os.environ.items() if _is_passed(name, value)}
    elif export is None and not (options.clean_env or ours.clean_env):
        env = passed_variables()
    if export is not None:
        # As sbatch: a name that is not set here is left out.
        env |= {name: os.environ[name] for name in export.names if name in os.environ} | dict(export.values)
    return env | ours.variables() | options.variables()


def _is_passed(name: str, value: str) -> bool:
    if name.startswith(_NOT_PASSED) or name in _NOT_PASSED_EXACTLY or not name.isprintable():
        return False
    try:
        return len(value.encode()) < lines.MAX_SCRIPT
    except UnicodeEncodeError:
        return False


def _launch(body: dict[str, Any], script: Script, arguments: list[str], made: Converted, changed: bool) -> None:
    """Put the command that runs the script, and the script, into the request.

    ``changed``: its size was said in other words than sbatch's, so what those said is not true.
    """
    sizes = Shape() if changed else made.shape
    given = {} if changed else {name: one.value for name, one in made.given.items()}
    said = launch.variables(sizes, given, str(Path.cwd()), socket.gethostname()) | made.files
    alone = body.get("replicas", 1) == 1
    if alone or sizes.tasks_per_node == 1:
        said["each"] = "1"
    body["command"] = launch.command(script, arguments, said)
    body["env"][launch.SCRIPT] = script.text
    if alone and script.shell == "bash" and launch.calls(script, "srun"):
        body["env"][launch.SRUN] = srun.function(made.for_tasks if body.get("warn_signal") == made.for_tasks else "")


def _where_it_runs(script: Script, body: Mapping[str, Any], made: Converted) -> list[str]:
    """What there is to know about a script on several hosts. Raises ScriptError for what cannot work."""
    replicas = body.get("replicas", 1)
    found = launch.calls(script, *_SPREADING) if isinstance(replicas, int) and replicas > 1 else None
    if found:
        program, line = found
        raise ScriptError(
            Place(script.name, line),
            program,
            None,
            f"it would start tasks on {replicas} hosts, and without Slurm below nothing here does that. Let the script "
            "start one program, which Tenure then runs on every host with the variables of torchrun "
            "(docs/jobs.md), or ask for one host",
        )
    found = launch.calls(script, "srun")
    if found and script.shell != "bash" and made.shape.nodes == 1:
        fix = "without Slurm below there is a srun for scripts of bash only; begin it with #!/bin/bash"
        raise ScriptError(Place(script.name, found[1]), "srun", None, fix)
    if isinstance(replicas, int) and replicas > 1:
        return [
            f"the script runs on each of its {replicas} hosts at once, with SLURM_NODEID, MASTER_ADDR and the like: "
            "see docs/sbatch.md"
        ]
    return []


def _not_meant(words: Sequence[str]) -> list[str]:
    """As with sbatch, what stands after the script is the script's; somebody who meant a dry run should know."""
    given = [word for word in words if word in ("--dry-run", "--plan")]
    return [f"{', '.join(given)}: given to the script; for Tenure write it before the script"] if given else []


def _not_read(environ: Mapping[str, str]) -> list[str]:
    names = sorted(name for name in environ if name.startswith("SBATCH_"))
    return [f"{', '.join(names)}: variables of sbatch are not read; write options"] if names else []
