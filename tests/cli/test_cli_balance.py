"""``tenure balance`` against a real server with real jobs."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator

import pytest

from support.server import TestServer
from tenure.core.model import GPU, HOUR
from tenure.store import Store
from tenure.units import parse_time

BUDGET = "lab/language"


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[TestServer]:
    """With a job of grace's that has ended, and one of the administrator's that runs, protected for an hour."""
    running = TestServer(tmp_path_factory.mktemp("balance"))
    running.start()
    running.client.add_user("grace")
    running.client.add_user("linus")
    token = running.client.add_token("grace")
    done = running.cli("submit", "-q", "-b", BUDGET, "-g", "2", "--name", "short", "sleep", "1", token=token)
    running.cli("wait", done.stdout.strip())
    job = running.cli("submit", "-q", "-b", BUDGET, "-g", "4", "-m", "1h", "--name", "long", "sleep", "300").stdout
    running.wait_state(int(job), "running")
    yield running
    running.end()


def test_the_numbers_are_those_of_the_spans_in_the_database(server: TestServer) -> None:
    view = json.loads(server.cli("balance", BUDGET, "--json").stdout)
    one, at = view["clusters"]["main"], parse_time(view["at"])
    with Store.open(f"sqlite:///{server.directory / '.tenure' / 'tenure.db'}") as store:
        amounts = [span.amount * (span.end - span.start) for span in store.spans("main", leaf=BUDGET)]
    assert len(amounts) == 1 and one["settled_gpu_hours"] == round(amounts[0] / (GPU * HOUR), 6) > 0
    attempt = next(job for job in server.client.jobs(state=["running"])).attempt
    assert attempt is not None and attempt.started_at is not None and attempt.protected_until is not None
    assert one["running_gpu_hours"] == round(4 * (at - attempt.started_at) / HOUR, 6)
    assert one["committed_gpu_hours"] == round(4 * (attempt.protected_until - at) / HOUR, 6)
    assert one["entitled_gpu_hours"] == 4 * 168
    assert [(job["name"], job["user"]) for job in one["jobs"]] == [("long", "admin"), ("short", "grace")]


def test_it_reads_like_a_statement(server: TestServer) -> None:
    said = server.cli("balance", BUDGET).stdout
    lines = said.splitlines()
    assert lines[0].startswith("lab/language on main, the 7d until ")
    figures = {line.split()[0]: float(line.split()[1].replace("<", "")) for line in lines[1:6]}
    assert figures["owed"] == 672 and -4 <= figures["committed"] < -3 and 667 < figures["left"] <= 668
    assert any(set(line.strip()) <= set("█▓░#=.") and line.strip() for line in lines)
    assert re.search(r"96\.0 GPU-hours lapse by tomorrow \d\d:\d\d unless they are used", said)
    assert "BACK BY " in said and "grace" in said and re.search(r"long +admin +\d\.\d ", said)
    assert said.count("this cluster had no records; that time is counted at today's values.") == 1
    assert "RESERVED" not in said and "FREE" not in said  # there is nothing in them


def test_of_one_person(server: TestServer) -> None:
    said = server.cli("balance", BUDGET, "--person", "grace").stdout
    assert "short" in said and "admin" not in said
    assert "and 2 more: --jobs N" in server.cli("balance", BUDGET, "--jobs", "0").stdout


def test_without_a_budget_it_is_about_your_own(server: TestServer) -> None:
    """Grace has a job in one; the administrator is a member of another as well; linus sees what there is."""

    def told(user: str) -> list[str]:
        token = server.client.add_token(user)
        found = json.loads(server.cli("balance", "--json", token=token).stdout)
        said = server.cli("balance", token=token).stdout
        assert all(f"{view['path']} on main" in said for view in found)
        assert ("BACK BY " in said) == (len(found) == 1)
        assert ("tenure balance BUDGET" in said) == (len(found) > 1)
        return [view["path"] for view in found]

    assert told("grace") == ["lab/language"]
    assert told("admin") == ["lab/language", "lab/vision"]
    assert told("linus") == ["lab/language", "lab/none", "lab/vision"]


def test_a_picture(server: TestServer) -> None:
    file = server.directory / "week.svg"
    assert f"wrote {file}" in server.cli("balance", BUDGET, "--plot", str(file)).stderr
    drawn = file.read_text()
    assert "<svg" in drawn and "lab/language on main" in drawn and ">grace<" in drawn and ">admin<" in drawn
    server.cli("balance", BUDGET, "--plot", "week.png")
    assert (server.directory / "week.png").read_bytes().startswith(b"\x89PNG")
    assert "ends in .png or .svg" in server.cli("balance", BUDGET, "--plot", "week.pdf", code=2).stderr
    nowhere = server.cli("balance", BUDGET, "--plot", "/nonexistent/week.svg", code=2).stderr
    assert "plot = /nonexistent/week.svg: No such file or directory" in nowhere and "Errno" not in nowhere
    several = server.cli("balance", "--plot", "week.png", code=2).stderr
    assert "a picture is of one budget; name it, one of lab/language, lab/vision" in " ".join(several.split())


def test_what_does_not_exist_is_named(server: TestServer) -> None:
    assert "did you mean lab/language?" in server.cli("balance", "lab/langage", code=4).stderr
    assert "lab/language/self" not in server.cli("balance", "lab/language/slf", code=4).stderr
    assert (
        "person = grce: there is no such person; did you mean grace?"
        in server.cli("balance", BUDGET, "--person", "grce", code=4).stderr
    )
    assert "there is no such cluster" in server.cli("balance", BUDGET, "--cluster", "mian", code=4).stderr
    assert list(json.loads(server.cli("balance", BUDGET, "--cluster", "main", "--json").stdout)["clusters"]) == ["main"]
