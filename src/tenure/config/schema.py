"""The tables of the two files, and how one table is validated: shapes and units only, limits are in ``check``."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import Annotated, Any, TypeVar

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, ValidationError
from pydantic_core import ErrorDetails

from tenure import units
from tenure.config.problems import MISSING, Problem, did_you_mean, dotted, show
from tenure.units import UnitError

Place = Sequence[str | int]
"""Where in a file: keys and list positions from the top."""


def _unit(parse: Callable[[str], int], example: str) -> BeforeValidator:
    """Accept text and bare numbers, as the unit's parser does."""

    def convert(value: object) -> int:
        if isinstance(value, bool) or not isinstance(value, str | int | Decimal):
            raise UnitError(show(value), f"write it like {example}")
        return parse(str(value))

    return BeforeValidator(convert)


def _to_ms(value: object) -> int:
    if isinstance(value, datetime):
        if value.tzinfo is None:
            raise UnitError(value.isoformat(), f"say the zone: {value.isoformat()}Z for UTC")
        ms = (value - datetime(1970, 1, 1, tzinfo=UTC)) // timedelta(milliseconds=1)
        if ms < 0:
            raise UnitError(value.isoformat(), "times start in 1970")
        return ms
    if isinstance(value, str):
        return units.parse_time(value)
    raise UnitError(show(value), "write a date with time and zone, like 2026-10-09T12:00:00Z")


Duration = Annotated[int, _unit(units.parse_duration, '"2h30m"')]
Memory = Annotated[int, _unit(units.parse_memory, '"64G"')]
Cpus = Annotated[int, _unit(units.parse_cpus, "64")]
Share = Annotated[int, _unit(units.parse_share, '0.35 or "35%"')]
Time = Annotated[int, BeforeValidator(_to_ms)]


class Table(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True, frozen=True)


class TopTable(Table):
    """``tenure.toml``. The tables inside are validated one by one."""

    budgets: str | None = None
    server: Any = None
    slurm: Any = None
    notice: Any = None
    policy: Any = None
    clusters: Any = None


class ServerTable(Table):
    listen: str | None = None
    port: int | None = None
    data_dir: str | None = None
    database: str | None = None
    retention: Duration | None = None
    slow_tick: Duration | None = None
    estimates: Duration | None = None
    executor: str | None = None


class SlurmTable(Table):
    partition: str | None = None
    root: str | None = None
    commands: str | None = None
    conf: str | None = None
    accounts: dict[str, str] | None = None
    submit_as: list[str] | None = None


class NoticeTable(Table):
    """``smtp`` is validated apart."""

    smtp: Any = None
    default_domain: str | None = None
    link: str | None = None
    secret_file: str | None = None
    webhook_hosts: list[str] | None = None
    mail_domains: list[str] | None = None
    timeout: Duration | None = None
    retry_first: Duration | None = None
    give_up_after: Duration | None = None


class SmtpTable(Table):
    host: str | None = None
    port: int | None = None
    tls: str | None = None
    user: str | None = None
    password_file: str | None = None
    sender: str | None = Field(default=None, alias="from")


class PolicyTable(Table):
    lookback: Duration | None = None
    recent: Duration | None = None
    entitlement_floor: Duration | None = None
    preemption_margin: Duration | None = None
    unallocated_turn: Duration | None = None
    evictions_per_minute: int | None = None
    packing: bool | None = None
    reserved_percent: int | None = None
    reserve_from: int | None = None
    reserve_margin_percent: int | None = None
    reserve_ahead: Duration | None = None
    look_every: Duration | None = None
    headroom_percent: int | None = None
    moves_per_hour: int | None = None
    backoff_first: Duration | None = None
    backoff_max: Duration | None = None


class ClusterTable(Table):
    every_host: Any = None
    hosts: list[Any] = Field(default_factory=list)
    min_runtime_floor: Duration | None = None
    min_runtime_max: Duration | None = None
    default_min_runtime: Duration | None = None
    default_resumable: bool | None = None
    max_grace: Duration | None = None
    unallocated_grace: Duration | None = None
    kill_timeout: Duration | None = None
    start_timeout: Duration | None = None
    gang_label: str | None = None


class HostDefaults(Table):
    """``every_host``: what a cluster's hosts have unless they say otherwise."""

    gpus: int | None = None
    cpus: Cpus | None = None
    memory: Memory | None = None
    labels: dict[str, str] = Field(default_factory=dict)


class HostTable(HostDefaults):
    name: str | None = None
    discover: bool = False


class BudgetTable(Table):
    """One budget; its child tables are taken out before."""

    share: Share | None = None
    cluster_shares: dict[str, Share] = Field(default_factory=dict)
    managers: list[str] = Field(default_factory=list)
    members: list[str] = Field(default_factory=list)
    moved_from: str | None = None


class GrantTable(Table):
    to: str
    taken_from: list[str] = Field(alias="from")
    gpu_hours: int
    cluster: str
    start: Time
    end: Time


_T = TypeVar("_T", bound=Table)

_REMEDIES = {
    "int_type": "write a whole number, like 8",
    "bool_type": "write true or false",
    "string_type": 'write text in quotes, like "text"',
    "list_type": 'write a list, like ["one", "two"]',
    "dict_type": "write a table, like { key = value }",
    "model_type": "write a table, like { key = value }",
}
_EXAMPLES = {
    "to": 'to = "lab/language/pretrain"',
    "from": 'from = ["lab/vision"]',
    "gpu_hours": "gpu_hours = 2000",
    "cluster": 'cluster = "h100"',
    "start": "start = 2026-11-01T00:00:00Z",
    "end": "end = 2026-11-15T00:00:00Z",
}


def validate(table: type[_T], data: object, file: str, place: Place, problems: list[Problem]) -> _T | None:
    """``data`` as a ``table``, or None with its problems added to ``problems``."""
    try:
        return table.model_validate(data)
    except ValidationError as error:
        problems += [_problem(table, detail, file, place) for detail in error.errors(include_url=False)]
        return None


def _problem(table: type[Table], detail: ErrorDetails, file: str, place: Place) -> Problem:
    field = dotted([*place, *detail["loc"]])
    kind = detail["type"]
    last = str(detail["loc"][-1]) if detail["loc"] else ""
    if kind == "missing":
        return Problem(file, field, MISSING, f"add it, for instance {_EXAMPLES[last]}")
    value = show(detail["input"])
    if kind == "extra_forbidden":
        known = [info.alias or name for name, info in table.model_fields.items()]
        return Problem(file, field, value, f"no such setting here; {did_you_mean(last, known)}")
    cause = detail.get("ctx", {}).get("error")
    if isinstance(cause, UnitError):
        return Problem(file, field, value, cause.fix)
    return Problem(file, field, value, _REMEDIES.get(kind, detail["msg"]))
