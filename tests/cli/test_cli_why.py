"""``tenure why`` against a real server, and the page that it prints."""

from __future__ import annotations

import json
import re
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from rich.console import Console

from support.past import OLD, past
from support.server import TestServer
from support.world import World, hosts
from tenure.api.why_models import Why
from tenure.api.why_views import why_view
from tenure.cli.why_page import page
from tenure.core.model import HOUR, MINUTE, Array
from tenure.why import answer


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[TestServer]:
    running = TestServer(tmp_path_factory.mktemp("why"))
    running.start()
    yield running
    running.end()


def submit(server: TestServer, budget: str, *arguments: str) -> int:
    return int(server.cli("submit", "-q", "--budget", budget, *arguments).stdout)


def test_why_from_the_queue_to_the_end(server: TestServer) -> None:
    runs = submit(server, "lab/vision", "--gpus", "4", "--replicas", "2", "-m", "1h", "sleep", "300")
    server.wait_state(runs, "running")
    first = submit(server, "lab/language", "--gpus", "4", "--priority", "3", "sleep", "300")
    waits = submit(server, "lab/language", "--gpus", "4", "--array", "3-4", "sleep", "300")
    said = server.cli("why", f"{waits}_4").stdout
    assert said.startswith("Waiting for GPUs: it needs 4, and 0 are free; first to lose their protection: 1.1 until ")
    assert "lab/language comes first" not in said  # nobody else waits
    assert "In lab nobody else waits." in said
    assert "Before it in lab/language: 2 jobs (8 GPUs)" in said
    assert f"{first}    admin     4  priority 3" in said and f"{waits}_3  admin     4  submitted earlier" in said
    assert "In its way: it needs 4 GPUs on 1 whole host, and finds 0 GPUs, 0 whole hosts\n" in said
    assert f"{runs}.1      admin  lab/vision     8  " in said and " protected  8 GPUs, 2 whole hosts\n" in said
    assert said.endswith(", if those who come first leave it.\n")
    whole = server.cli("why", str(waits)).stdout
    assert whole.startswith(f"array {waits}: 2 wait. This is {waits}_3:\nWaiting for GPUs: ")
    as_json = json.loads(server.cli("why", str(waits), "--json").stdout)
    assert as_json["job"] == waits and as_json["ahead"]["jobs"] == 1
    safe = server.cli("why", str(runs)).stdout
    assert safe.startswith("Runs, protected until ") and f"job {first} of admin in lab/language would have it" in safe
    assert "n[1-2]; protected for 59m" in safe and "(last day 0.00) comes before lab/vision 0." in safe
    server.cli("cancel", str(waits))
    server.client.wait(waits, timeout_s=60)
    ended = server.cli("why", f"{waits}_3").stdout
    assert ended.startswith("It never ran: it waited ") and ", and was cancelled by admin.\n" in ended
    assert f"Job {waits}_3 does not wait: it was cancelled." in server.cli("eta", f"{waits}_3").stdout
    assert server.cli("why", str(waits)).stdout.startswith(f"array {waits}: 2 ended. This is {waits}_3:\n")
    assert "there is no such job" in server.cli("why", "999999", code=4).stderr
    assert "this command takes one job" in server.cli("why", f"{waits}_[3-4]", code=2).stderr


# ---- the page, from a world whose numbers are known


def printed(world: World, job: int, width: int = 110) -> str:
    """What a terminal shows about a job, after a round through JSON."""
    view = Why.model_validate_json(why_view(answer(world.state, world.job(job))).model_dump_json())
    console = Console(width=width, color_system=None, highlight=False)
    with console.capture() as captured:
        for part in page(view, world.now, width):
            console.print(part)
    return "\n".join(line.rstrip() for line in captured.get().splitlines()) + "\n"


@pytest.fixture
def utc(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setenv("TZ", "UTC")
    time.tzset()
    yield
    monkeypatch.undo()
    time.tzset()


EXAMPLE = Path(__file__).resolve().parents[2] / "docs" / "why.md"


def lab() -> tuple[World, dict[str, int]]:
    """The example of docs/why.md: a gang of vision waits behind robots, for hosts that are protected."""
    world = World(hosts(4), {"lab/language": 0.5, "lab/robots": 0.2, "lab/vision": 0.3})
    past(world, ("lab/language", 400, OLD, "ann"), ("lab/vision", 90, OLD, "carl"), ("lab/robots", 20, OLD, "dora"))
    jobs = {
        "language": world.submit("lab/language", 8, min_runtime=2 * HOUR, user="ann"),
        "again": world.submit("lab/language", 8, min_runtime=3 * HOUR, user="bob"),
        "exposed": world.submit("lab/robots", 8, min_runtime=30 * MINUTE, user="dora"),
        "vision": world.submit("lab/vision", 8, min_runtime=HOUR, user="carl"),
    }
    world.advance(40 * MINUTE)
    jobs["small"] = world.submit("lab/vision", 8, user="dora")
    jobs["gang"] = world.submit("lab/vision", 8, replicas=2, user="carl")
    jobs["robots"] = world.submit("lab/robots", 8, replicas=4, user="dora")
    world.advance(MINUTE)
    return world, jobs


@pytest.mark.usefixtures("utc")
def test_the_page_of_the_documentation_is_what_is_printed() -> None:
    world, jobs = lab()
    text = EXAMPLE.read_text("utf-8")
    for name, job in jobs.items():
        if f"$ tenure why {job}\n" in text:
            block = text.split(f"$ tenure why {job}\n")[1].split("```")[0]
            assert block == printed(world, job), name
    assert text.count("$ tenure why") >= 2


@pytest.mark.usefixtures("utc")
def test_of_many_siblings_the_first_ones_and_its_own_are_shown() -> None:
    tree = {f"lab/b{i:02}": 0.05 for i in range(20)}
    world = World(hosts(1), tree)
    past(world, ("lab/b07", 300, OLD, "eve"))
    world.submit("lab/b00", 8)
    for i in range(20):
        world.submit(f"lab/b{i:02}", 8)
    last = next(job for job in reversed(world.state.jobs) if world.job(job).leaf == "lab/b07")
    said = printed(world, last)
    assert said.count("    lab/b") == 7 and "  > lab/b07" in said and "    ...\n" in said
    assert "lab/b01 comes first: over the last day" not in said and "lab/b01 comes first: its usage ratio" in said


@pytest.mark.usefixtures("utc")
def test_a_narrow_terminal_has_fewer_columns_and_nothing_is_cut_off() -> None:
    world, jobs = lab()
    said = printed(world, jobs["gang"], 74)
    assert "…" not in said
    assert "    BUDGET" not in said and "  BUDGET          RATIO  LAST DAY  RUNS EXPOSED\n" in said
    assert "    lab/robots     0.02      0.04  8 GPUs, not for it\n" in said
    assert "  1.1      ann   10:00 protected  8 GPUs, 1 whole host\n" in said


@pytest.mark.usefixtures("utc")
def test_ratios_that_decide_are_told_apart() -> None:
    world = World(hosts(1), {"lab/a": 0.5, "lab/b": 0.5})
    past(world, ("lab/a", 400, OLD, "ann"), ("lab/b", 401, OLD, "bob"))
    world.submit("lab/a", 8, min_runtime=2 * HOUR)
    first = world.submit("lab/a", 8, min_runtime=HOUR)
    waits = world.submit("lab/b", 8, min_runtime=HOUR)
    said = printed(world, waits)
    levels = answer(world.state, world.job(waits)).places[0].levels
    assert levels[0].by is not None and levels[0].by.value == "ratio", first
    ratios = re.findall(r"lab/[ab] +50%  +(\S+)", said)
    assert len(set(ratios)) == 2 and len({len(ratio) for ratio in ratios}) == 1, said


@pytest.mark.usefixtures("utc")
def test_jobs_of_arrays_in_the_way_are_called_by_their_label_and_it_is_said_by_which_rule_they_stay() -> None:
    world = World(hosts(2), {"lab/a": 0.5, "lab/b": 0.5})
    past(world, ("lab/b", 400, OLD, "bob"))
    event = world.queue("lab/a", 8, array=Array((0, 1), 0))
    world.step(event)
    said = printed(world, world.submit("lab/b", 8, min_runtime=HOUR))
    first = event.job_id
    assert f"  {first}.1      {first}_0" in said and "  ATTEMPT  JOB " in said
    assert "not known: it comes first" in said
    assert said.endswith("some of these may stay, and have no time-out; 1 other may end before.\n")
