"""How jobs are named on a command line: ``12``, ``12_3`` and ``12_[0-3]`` of an array."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from tenure import units
from tenure.cli.errors import CliError, Exit

if TYPE_CHECKING:
    from tenure.api.models import ArrayView, JobView
    from tenure.client import Client


@dataclass(frozen=True, slots=True)
class Named:
    """What was typed: a job or a whole array (``indices`` None), or some of an array."""

    text: str
    number: int
    indices: str | None = None

    @property
    def single(self) -> bool:
        """Whether it is certainly one job of an array."""
        return self.indices is not None and self.indices.isdigit()


def named(text: str) -> Named:
    """``12``, ``12.1`` as attempts are called, ``12_3``, ``12_[0-3,7]``. Raises CliError."""
    head, underscore, indices = text.partition("_")
    number = head if underscore else head.partition(".")[0]
    if not number.isascii() or not number.isdigit() or not 0 < int(number[:20]) < 2**63:
        raise CliError(f"job = {text}: write a job's number, as `tenure ls` shows it", Exit.REFUSED)
    if not underscore:
        return Named(text, int(number))
    bare = indices.partition(".")[0]
    try:
        return Named(text, int(number), units.format_indices(units.parse_indices(bare)))
    except units.UnitError as error:
        raise CliError(f"job = {text}: write one of an array like 12_3, or some like 12_[0-3,7]") from error


def one(client: Client, job: Named) -> int:
    """The id of the one job that is meant. Raises CliError when it names several, or one that there is not."""
    if job.indices is None:
        return job.number
    if not job.single:
        raise CliError(
            f"job = {job.text}: this command takes one job, like {job.number}_{job.indices.partition('-')[0]}"
        )
    return some(client, job)[0].id


def some(client: Client, job: Named) -> list[JobView]:
    """Jobs of an array, the lowest index first. Raises CliError when there is none of them."""
    found = list(client.jobs(array=job.number, indices=job.indices, all=True))
    if not found:
        array = client.array(job.number)
        raise CliError(f"job = {job.text}: array {array.id} has the indices {array.indices}", Exit.NOT_FOUND)
    return found[::-1]


def array_of(client: Client, job: Named) -> ArrayView | None:
    """The array of this number; None when it is a job's, or nobody's."""
    from tenure.client import TenureError

    try:
        return client.array(job.number)
    except TenureError as error:
        if error.status != 404:
            raise
        return None
