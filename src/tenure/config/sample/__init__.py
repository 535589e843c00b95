"""The configuration that `tenure init` writes: 2 hosts x 8 GPU slots, 3 programs, 6 projects."""

from __future__ import annotations

from importlib.resources import files
from pathlib import Path

SAMPLE_FILES = ("tenure.toml", "budgets.toml")


def write_sample(directory: Path) -> list[Path]:
    """Write both files into ``directory``, made if missing. Returns their paths.

    Raises FileExistsError, before anything is written, when one of them is there.
    """
    targets = [directory / name for name in SAMPLE_FILES]
    for target in targets:
        if target.exists():
            raise FileExistsError(f"{target} exists; move it away or choose another directory")
    directory.mkdir(parents=True, exist_ok=True)
    for target in targets:
        target.write_text(files(__package__).joinpath(target.name).read_text("utf-8"), "utf-8")
    return targets
