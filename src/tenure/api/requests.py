"""What comes in, one set for server, client and CLI. Units at the edge: see ``fields``."""

from __future__ import annotations

from collections.abc import Callable
from typing import Annotated, Literal

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field

from tenure.api.fields import (
    MAX_REPLICAS,
    Argument,
    ArrayText,
    Cpus,
    DurationText,
    IndicesText,
    JobText,
    MemoryText,
    Ms,
    Name,
    Path,
    Text,
    TimeText,
    printable,
)
from tenure.notice.person import parse_digest, parse_email, parse_kinds, parse_quiet, parse_zone
from tenure.notice.target import MAX_URL
from tenure.units import UnitError

Gpus = Annotated[int, Field(ge=0, le=1_000_000)]
Replicas = Annotated[int, Field(ge=1, le=MAX_REPLICAS)]
MemoryMiB = Annotated[int, Field(ge=0, le=1 << 30)]
Priority = Annotated[int, Field(ge=-1_000_000, le=1_000_000)]
Signal = Literal["SIGTERM", "SIGINT", "SIGHUP", "SIGUSR1", "SIGUSR2", "SIGQUIT", "SIGALRM"]
UserName = Annotated[str, Field(max_length=100, pattern=r"^[A-Za-z0-9][A-Za-z0-9._@+-]*$", examples=["ann"])]


def _program(words: list[str]) -> list[str]:
    """Raises UnitError for a command without a program."""
    if not words[0]:
        raise UnitError(words[0], 'say what to run, like ["python", "train.py"]')
    return words


Command = Annotated[list[Argument], Field(min_length=1, max_length=10_000), AfterValidator(_program)]


After = Annotated[list[JobText], Field(max_length=1000)]


class Request(BaseModel):
    """What comes in: nothing is guessed, and an unknown field is an error."""

    model_config = ConfigDict(extra="forbid", strict=True)


class LabelModel(Request):
    """A wish about host labels; without ``value``: all replicas where ``key`` has one and the same value."""

    key: Name
    value: Name | None = None
    required: bool = False


class RoleRequest(Request):
    """Identical replicas of one command. CPUs and memory: left out, a replica gets its GPUs' part of a host."""

    name: Name = "main"
    replicas: Replicas = 1
    gpus: Gpus = 1
    cpus: Cpus | None = None
    memory: MemoryText | None = None
    memory_mib: MemoryMiB | None = None
    command: Command


class JobRequest(Request):
    """A job. One role: ``gpus`` to ``command`` here; several: ``roles``. What is left out gets a default.

    Durations are text such as ``2h30m``, or milliseconds in the field that ends in ``_ms``. ``user``: for whom,
    which only admins may say. ``client_key``: a second request of a user with the same key creates nothing.
    ``array``: one job for each index, as ``0-15%4`` for at most 4 at a time. ``after_ok``, ``after_any``: jobs and
    arrays that have to succeed, or to end, before it may start.
    """

    budget: Path
    user: Name | None = None
    name: Name | None = None
    gpus: Gpus | None = None
    replicas: Replicas | None = None
    cpus: Cpus | None = None
    memory: MemoryText | None = None
    memory_mib: MemoryMiB | None = None
    command: Command | None = None
    roles: Annotated[list[RoleRequest], Field(min_length=1, max_length=64)] | None = None
    clusters: Annotated[list[Name], Field(min_length=1, max_length=100)] | None = None
    min_runtime: DurationText | None = None
    min_runtime_ms: Ms | None = None
    resumable: bool | None = None
    priority: Priority = 0
    timeout: DurationText | None = None
    timeout_ms: Ms | None = None
    grace: DurationText | None = None
    grace_ms: Ms | None = None
    retries: Annotated[int, Field(ge=0, le=1000)] = 0
    labels: Annotated[list[LabelModel], Field(max_length=100)] = []
    env: dict[Name, Argument] = {}
    workdir: Path | None = None
    launch: Literal["per-replica", "per-gpu"] = "per-replica"
    warn_signal: Signal = "SIGTERM"
    hold: bool = False
    client_key: Name | None = None
    array: ArrayText | None = None
    after_ok: After = []
    after_any: After = []


class ArrayRequest(Request):
    """Which jobs of an array; without ``indices`` all of them."""

    indices: IndicesText | None = None


class PriorityRequest(Request):
    priority: Priority


class EvictRequest(Request):
    why: Text


class HostRequest(Request):
    """``deadline``: when a drain also evicts gangs that reach over other hosts and cannot restart elsewhere."""

    why: Text = ""
    deadline: TimeText | None = None


class PauseRequest(Request):
    scope: Literal["starts", "evictions"] = "starts"


class FileText(Request):
    """A configuration file: ``name`` as errors shall call it, ``text`` its whole content."""

    name: Name
    text: str


class ApplyRequest(Request):
    clusters: FileText
    budgets: FileText
    dry_run: bool = False


class UserRequest(Request):
    name: UserName
    role: Literal["admin", "user"] = "user"


class UserChange(Request):
    role: Literal["admin", "user"] | None = None
    disabled: bool | None = None


def _checked(parse: Callable[[str], object]) -> BeforeValidator:
    """Text as ``parse`` takes it, or '' for none. What it makes into no text stays as it is. Raises UnitError."""

    def convert(value: object) -> object:
        if not isinstance(value, str) or not value:
            return value
        parsed = parse(value)  # parsers pass over space around: what is kept must not have it either
        return parsed if isinstance(parsed, str) else value.strip()

    return BeforeValidator(convert)


def _kinds(value: object) -> object:
    if isinstance(value, list) and all(isinstance(item, str) for item in value):
        return list(parse_kinds(value))
    return value


Kinds = Annotated[list[str], BeforeValidator(_kinds), Field(max_length=100, examples=[["preempted", "failed"]])]


class NoticeRequest(Request):
    """How somebody wants to be told. What is left out stays as it is; '' takes an address or quiet hours away.

    ``digest``: one message for all of so long a time, '0' for each notice at once. ``quiet`` like ``22:00-07:00``, in
    ``zone``. ``through``: kinds that neither puts off. ``new_secret``: another secret for the webhook.
    """

    email: Annotated[str, _checked(parse_email), Field(max_length=254)] | None = None
    webhook: Annotated[str, AfterValidator(printable), Field(max_length=MAX_URL)] | None = None
    kinds: Kinds | None = None
    through: Kinds | None = None
    digest: Annotated[str, _checked(parse_digest), Field(min_length=1, max_length=64, examples=["1h"])] | None = None
    quiet: Annotated[str, _checked(parse_quiet), Field(max_length=16, examples=["22:00-07:00"])] | None = None
    zone: Annotated[str, _checked(parse_zone), Field(max_length=64, examples=["Europe/Berlin"])] | None = None
    new_secret: bool = False


class TokenRequest(Request):
    label: Text = ""
    expires_at: TimeText | None = None
