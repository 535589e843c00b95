"""Puts what `tenure simulate behaviours --out DIR` found into docs/behaviours.md, with its pictures.

python docs/evidence/behaviours.py DIR
"""

from __future__ import annotations

import json
import shutil
import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent
PAGE = HERE.parent / "behaviours.md"
FIGURES = HERE / "behaviours.json"
BEGIN, END = "<!-- behaviours -->", "<!-- end of behaviours -->"
SHOWN = ("What it gains or loses", "What people came to do")
"""Sections of the report that the page has; the others are one table for each policy."""


def said(report: str) -> str:
    """What of ``behaviours.md`` goes into the page: what was run, what may be said, and the short tables."""
    head, *sections = report.split("\n## ")
    about, _rule, *sentences = [part for part in head.split("\n\n")[1:] if part.strip()]
    kept = [f"### {section.strip()}" for section in sections if section.startswith(SHOWN)]
    return "\n\n".join([about, *(part.strip() for part in sentences), *kept])


def put(page: str, text: str) -> str:
    head, rest = page.split(BEGIN, 1)
    return f"{head}{BEGIN}\n{text}\n{END}{rest.split(END, 1)[1]}"


def main(folder: Path) -> None:
    PAGE.write_text(put(PAGE.read_text("utf-8"), said((folder / "behaviours.md").read_text("utf-8"))), "utf-8")
    found = json.loads((folder / "behaviours.json").read_text("utf-8"))
    for row in found["behaviours"]:
        for pair in row["pairs"]:
            del pair["people"]  # every person of every world: the figures above are what is read
    FIGURES.write_text(json.dumps(found, indent=1) + "\n", "utf-8")
    for name in ("gains", "drift"):
        picture = folder / "charts" / f"{name}.png"
        if picture.is_file():
            shutil.copyfile(picture, HERE / f"behaviours-{name}.png")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
