"""Sorts of jobs: whose past is told of whose future."""

from __future__ import annotations

from tenure.core.model import HOUR, SHORT_GPUS, JobSpec, short
from tenure.core.state import Job, State

HOST = SHORT_GPUS
MANY = 8 * HOST
SIZE_CLASSES = ("short", "small", "medium", "large", "free small", "free large")
"""What estimates are compared with: short contracts; other charged jobs up to 8, up to 64, and of more GPUs;
unallocated ones up to 8, and of more.
"""

Sort = tuple[object, ...]


def could_start(state: State, job: Job) -> bool:
    """Whether a live job waits, and for GPUs alone: nobody holds it, and it waits neither for other jobs to end nor for
    a place in its array's throttle.
    """
    if job.held_by or job.behind or job.submission in state.pending:
        return False
    return job.attempt is None or job.attempt.started_at is None


def size_class(spec: JobSpec) -> str:
    """One of ``SIZE_CLASSES``."""
    gpus = spec.gpus
    if not spec.charged:
        return "free small" if gpus <= HOST else "free large"
    if short(spec.contract.min_runtime, gpus):
        return "short"
    return "small" if gpus <= HOST else "medium" if gpus <= MANY else "large"


def stem(name: str) -> str:
    """A job's name without the numbers that tell its runs apart: ``pretrain-12`` and ``pretrain-13`` are alike."""
    return name.rstrip("0123456789").rstrip("-_. ")


def sorts_of(spec: JobSpec) -> tuple[Sort, ...]:
    """From the narrowest to the widest: jobs that ran as long as this one may, as far as anybody can tell."""
    contract = spec.contract.min_runtime
    promise = 0 if not contract else 1 + sum(contract > bound for bound in _PROMISES)
    size = (spec.gpus - 1).bit_length()
    kind = (promise, spec.contract.resumable)
    return (
        ("person", spec.user, stem(spec.name), size, *kind),
        ("person", spec.user, size, *kind),
        ("budget", spec.budget, size, *kind),
        ("all", size, *kind),
        ("all", *kind),
        ("all", spec.charged),
    )


_PROMISES = (HOUR // 4, HOUR, 2 * HOUR, 4 * HOUR)
