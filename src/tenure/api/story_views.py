"""Stories of ``tenure.why`` as the API shows them."""

from __future__ import annotations

from typing import Any

from tenure.api import story_models as models
from tenure.api.job_views import hours, reason_view
from tenure.core.model import GPU
from tenure.core.reasons import Because
from tenure.why import chapters
from tenure.why.chapters import Story
from tenure.why.telling import line

_MODELS: dict[type[chapters.Chapter], type[models.Chapter]] = {
    chapters.Submitted: models.SubmittedChapter,
    chapters.Waited: models.WaitedChapter,
    chapters.ClaimLost: models.ClaimLostChapter,
    chapters.Started: models.StartedChapter,
    chapters.Exposed: models.ExposedChapter,
    chapters.Evicted: models.EvictedChapter,
    chapters.Left: models.LeftChapter,
    chapters.Ended: models.EndedChapter,
}
_RENAMED = {"why": "reason", "min_runtime": "min_runtime_ms", "codes": "exit_codes", "ran": "ran_ms"}
_RENAMED |= {"waited": "waited_ms", "amount": "charge_rate"}
_GPU_TIME = {"gained", "at_risk", "lost", "used", "credited"}
_OF_TOTALS = {"charged", "unallocated", "lost"}


def story_view(story: Story) -> list[models.Chapter]:
    """All chapters, oldest first."""
    return [_MODELS[type(chapter)](text=line(chapter), **_fields(chapter, _GPU_TIME)) for chapter in story.chapters]


def _fields(record: Any, gpu_time: set[str]) -> dict[str, Any]:
    """A record's fields under their names outside; ``gpu_time`` are amounts x ms and become GPU-hours."""
    found: dict[str, Any] = {}
    for name in record.__slots__:
        value = getattr(record, name)
        if name in gpu_time:
            found[f"{name}_gpu_hours"] = None if value is None else hours(value)
        else:
            found[_RENAMED.get(name, name)] = _value(name, value)
    return found


def _value(name: str, value: Any) -> Any:
    if isinstance(value, Because):
        return reason_view(value)
    if isinstance(value, chapters.Gainer):
        return models.GainerView(job=value.job, label=value.label, user=value.user or None, budget=value.budget)
    if isinstance(value, chapters.Totals):
        return models.TotalsView(**_fields(value, _OF_TOTALS))
    if name == "amount":
        return value / GPU
    return list(value) if isinstance(value, tuple) else value
