"""``python -m tenure.demo``: a scheduler on this machine, with real work to watch.

Exit codes: 0 all was seen, 1 something was not or the demo could not run, 2 bad options, 130 interrupted.
"""

from __future__ import annotations

import argparse
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from types import FrameType

from rich.console import Console

from tenure.client import Client, TenureError, Unreachable
from tenure.demo import ending, scenario
from tenure.demo.checks import Check, Evidence, check, check_store
from tenure.demo.site import USUAL_DIRECTORY, DemoError, Site, free_port
from tenure.demo.story import Story
from tenure.demo.tell import Teller

USUAL_START_S = 1.5
"""How long the training program takes to do nothing on a machine that is slow enough."""
MOST_SLOWNESS = 2.0
RECORD = "record.json"


def main(arguments: Sequence[str] | None = None) -> int:
    """The program; see the top of this file for its exit codes."""
    parser = argparse.ArgumentParser(prog="python -m tenure.demo", description="Show the scheduler at work.")
    mode = parser.add_mutually_exclusive_group()
    mode.add_argument("--once", action="store_true", help="check that all was seen, and stop the server again")
    mode.add_argument("--stop", action="store_true", help="stop the server that an earlier demo left running")
    parser.add_argument("--directory", type=Path, default=Path(USUAL_DIRECTORY), help="where all goes (%(default)s)")
    options = parser.parse_args(arguments)
    tell, site = Teller(Console(highlight=False)), Site(options.directory)
    signal.signal(signal.SIGTERM, _interrupt)
    try:
        if options.stop:
            return _stop(site, tell)
        return _demo(site, tell, once=options.once)
    except (DemoError, Unreachable, TenureError) as error:
        tell.paragraph(f"The demo cannot go on: {error}", style="bold red")
        return 1
    except KeyboardInterrupt:
        return 130


def _interrupt(_number: int, _frame: FrameType | None) -> None:
    raise KeyboardInterrupt


def _stop(site: Site, tell: Teller) -> int:
    if not site.servers() and not site.supervisors():
        tell.paragraph("No demo server is running here.")
        return 0
    with tell.live():
        jobs = site.stop(tell.idle)
    tell.paragraph(f"The demo server is stopped, and its {ending.count(jobs, 'job')} with it.")
    return 0


def _demo(site: Site, tell: Teller, *, once: bool) -> int:
    """Set up, tell the story, check it, and say how to go on."""
    complete = False
    try:
        slowness, machine = _set_up(site, tell)
        began = time.monotonic()
        with site.client() as admin, tell.live():
            story = Story(site, admin, tell, machine, scenario.cast_for(machine, slowness), slowness)
            checks, evidence = _told(story, admin)
            complete = True
            if once:
                site.stop(tell.idle)
            checks += check_store(site.config, evidence)
        passed = ending.verdict(tell, checks, time.monotonic() - began)
        if not once:
            ending.how_to_go_on(site, tell)
        return 0 if passed else 1
    except KeyboardInterrupt:
        if not once and site.answers():
            ending.interrupted(site, tell)
            complete = True
        raise
    finally:
        # A server that is half set up is of no use to anybody.
        if once or not (complete or site.answers()):
            signal.signal(signal.SIGINT, signal.SIG_IGN)
            site.stop(lambda text: None)


def _told(story: Story, admin: Client) -> tuple[list[Check], Evidence]:
    """Tell it, gather what the server knows, and keep all of that in the directory."""
    record = story.run()
    evidence = Evidence.gather(admin, record.roles)
    checks = list(check(evidence, record, story.watch))
    kept = {
        "began": story.tell.began,
        **asdict(record),
        "facts": [fact.plain() for fact in story.watch.facts],
        "jobs": {role: job.model_dump(mode="json") for role, job in evidence.jobs.items()},
        "evictions": [eviction.model_dump(mode="json") for eviction in evidence.evictions],
    }
    (story.site.directory / RECORD).write_text(json.dumps(kept, indent=1), "utf-8")
    return checks, evidence


def _set_up(site: Site, tell: Teller) -> tuple[float, scenario.Machine]:
    """Stop what an earlier demo has left, look at the machine, and start the server. Raises DemoError."""
    ending.introduce(tell)
    with tell.live():
        if site.servers() or site.supervisors():
            tell.paragraph("A demo server of an earlier run is running here: it is stopped first, with its jobs.")
            site.stop(tell.idle)
        slowness = _measure(tell)
        machine = scenario.look_at_machine()
        _start(site, tell, machine, slowness)
    ending.set_the_scene(site, tell, machine, slowness)
    return slowness, machine


def _start(site: Site, tell: Teller, machine: scenario.Machine, slowness: float) -> None:
    """On the usual port, or on any when that is taken. Raises DemoError."""
    while True:
        port = free_port()
        wanted = port or free_port(0) or 0
        site.make(scenario.configuration(machine, wanted, slowness))
        try:
            site.start(lambda: tell.idle("the server starts"))
            return
        except DemoError:
            # Somebody may have been faster on the usual port.
            if port is None or free_port() is not None:
                raise


def _measure(tell: Teller) -> float:
    """How much slower than usual this machine starts a job, from 1 on. Raises DemoError when it cannot at all."""
    tell.idle("trying the training program")
    environment = {name: value for name, value in os.environ.items() if not name.startswith("TENURE_")}
    began = time.monotonic()
    command = [sys.executable, "-m", "tenure.demo.train", "--steps", "1"]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    if done.returncode:
        raise DemoError(f"the training program does not run here: {done.stderr.strip()}")
    return min(MOST_SLOWNESS, max(1.0, round(2 * (time.monotonic() - began) / USUAL_START_S) / 2))


if __name__ == "__main__":
    sys.exit(main())
