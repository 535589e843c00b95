"""What the demo says before and after its story."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from pathlib import Path

from tenure.demo.checks import Check
from tenure.demo.scenario import LOOKBACK_S, Machine, recent_s
from tenure.demo.site import USUAL_DIRECTORY, Site
from tenure.demo.tell import Teller


def count(number: int, what: str) -> str:
    return f"{number} {what}{'' if number == 1 else 's'}"


def introduce(tell: Teller) -> None:
    """What this is."""
    tell.paragraph("Tenure hands out GPU time, not GPUs.", style="bold")
    tell.paragraph(
        "A lab has 3 programs with 2 projects each. Every project has a budget: a share of the GPU time. The scheduler "
        "keeps every promise that it has made, and gives what is not promised to those who are owed most."
    )


def set_the_scene(site: Site, tell: Teller, machine: Machine, slowness: float) -> None:
    """What there is, and where."""
    tell.paragraph(machine.note)
    tell.paragraph(
        f"So that all can be seen within a minute, {round(LOOKBACK_S * slowness)} s stand for the week over which "
        f"usage usually counts, and {recent_s(slowness)} s for the last day."
        + (f" This machine is slow or busy, so everything takes {slowness:g} times as long." if slowness > 1 else "")
    )
    tell.paragraph(
        f"The server runs at {site.url}, and all its files are in {site.directory}. Times count from the beginning of "
        "the story. Lines with | are from a job's own log."
    )


def verdict(tell: Teller, checks: Sequence[Check], seconds: float) -> bool:
    """Whether all was seen, and what was not."""
    tell.heading("What was seen")
    for one in checks:
        tell.check(one.passed, one.what, one.detail)
    missing = [one.what for one in checks if not one.passed]
    tell.space()
    if missing:
        tell.paragraph(f"{count(len(missing), 'thing')} not seen: {'; '.join(missing)}.", style="bold red")
    else:
        tell.paragraph(f"All of it, in {seconds:.0f} s.", style="bold green")
    return not missing


def how_to_go_on(site: Site, tell: Teller) -> None:
    """The server stays: what to try, and how to stop it. Every command works as it is printed."""
    tell.heading(
        "Go on yourself", f"The server goes on in the background at {site.url}, and the unallocated jobs with it. Try:"
    )
    for command, meaning in commands(site):
        tell.command(command, meaning)
    tell.paragraph("The last one runs a job of your own. --help says what else there is.")
    tell.space()
    tell.paragraph("When you are done, stop it with everything it runs:")
    tell.command(stop_command(site))


def interrupted(site: Site, tell: Teller) -> None:
    tell.space()
    tell.paragraph(f"Interrupted. The server and its jobs go on at {site.url}. To stop them:")
    tell.command(stop_command(site))


def commands(site: Site) -> list[tuple[str, str]]:
    """Commands to type in the current directory, one after the other, with what they show."""
    here = Path.cwd()
    python = _shortest(Path(sys.executable), site.directory)
    program = Path(sys.executable).parent / "tenure"
    tenure = _shortest(program, site.directory) if program.exists() else f"{python} -m tenure"
    found = [(f"cd {os.path.relpath(site.directory, here)}", "")]
    found += [(command, "this server, and no other") for command in _environment(site)]
    found += [
        (f"{tenure} ls --all", "all jobs, and why they are where they are"),
        (f"{tenure} show 1", "one job: its attempts, and why it was evicted"),
        (f"{tenure} budgets", "who is owed what, and who used what"),
        (f"{tenure} hosts", "who is where"),
        (f"{tenure} evictions", "who had to go, for whom, and why"),
        (f"{tenure} replay", "decide everything again from the log, and compare"),
        (f"{tenure} events --after 0", "all that happened and was decided"),
        # The comment would make it longer than a line.
        (f"{tenure} run --budget lab/vision/segment --gpus 2 {python} -m tenure.demo.train", ""),
    ]
    return found


def stop_command(site: Site) -> str:
    """What stops the server, to be typed where the demo was started."""
    if site.directory != Path(USUAL_DIRECTORY).resolve():
        return f"{sys.executable} -m tenure.demo --stop --directory {site.directory}"
    makefile = Path("Makefile")
    if makefile.is_file() and "tenure.demo" in makefile.read_text("utf-8", "replace"):
        return "make demo ARGS=--stop"
    return f"{sys.executable} -m tenure.demo --stop"


def _environment(site: Site) -> list[str]:
    """What must be said for commands to find this server where another one is known."""
    config = Path(os.environ.get("XDG_CONFIG_HOME") or Path.home() / ".config") / "tenure" / "client.toml"
    if not (os.environ.get("TENURE_URL") or os.environ.get("TENURE_TOKEN") or config.exists()):
        return []
    return [f"export TENURE_URL={site.url}", "unset TENURE_TOKEN"]


def _shortest(path: Path, seen_from: Path) -> str:
    relative = os.path.relpath(path, seen_from)
    return relative if len(relative) < len(str(path)) else str(path)
