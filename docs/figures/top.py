"""The picture of ``docs/top.md``: a real server with real jobs that sleep, as ``tenure top`` shows it.

``python docs/figures/top.py [--size 112x48] [--keys end w] [--to FILE.svg]`` starts it in a temporary directory.
"""

from __future__ import annotations

import argparse
import asyncio
import random
import re
import subprocess
import sys
import tempfile
from pathlib import Path

from tenure.cli.top.app import TopApp
from tenure.cli.top.views import JobTable
from tenure.client import Client

HERE = Path(__file__).parent
CLUSTERS = """
budgets = "budgets.toml"
[server]
port = 0
data_dir = ".tenure"
[policy]
lookback = "4h"
recent = "2h"
entitlement_floor = "30m"
[clusters.main]
min_runtime_max = "4h"
min_runtime_floor = "1s"
every_host = { gpus = 8, cpus = 96, memory = "1T" }
hosts = [{ name = "g[01-24]" }]
"""
BUDGETS = """
[lab]
managers = ["admin"]
[lab.language]
share = 0.45
[lab.language.pretrain]
share = 0.6
[lab.language.post]
share = 0.4
[lab.vision]
share = 0.3
[lab.vision.video]
share = 0.5
[lab.vision.robots]
share = 0.5
[lab.science]
share = 0.25
"""
NAMES = {
    "lab/language/pretrain": ("pretrain-7b", "ablation", "tokens", "scaling"),
    "lab/language/post": ("sft", "dpo", "reward", "eval-suite"),
    "lab/vision/video": ("video-vae", "captions", "frames"),
    "lab/vision/robots": ("policy", "grasp", "sim2real"),
    "lab/science": ("folding", "weather", "md-run"),
}
USERS = ("ada", "grace", "alan", "edsger", "barbara", "donald", "margaret", "john")


def jobs(rng: random.Random) -> list[dict[str, object]]:
    """Some that fill the cluster, charged and not, and more that wait."""
    made: list[dict[str, object]] = []
    sizes = [(8, 1), (4, 1), (8, 2), (2, 1), (4, 1), (1, 1), (8, 1)]
    for at in range(42):
        budget = rng.choice(list(NAMES))
        gpus, replicas = sizes[at % len(sizes)] if at < 28 else (8, rng.choice([12, 16, 20]))
        length = "0s" if 20 <= at < 28 else rng.choice(["1s", "1h", "2h", "4h"]) if at < 28 else "30m"
        made.append(
            {
                "budget": budget,
                "name": f"{rng.choice(NAMES[budget])}-{at}",
                "user": rng.choice(USERS),
                "gpus": gpus,
                "replicas": replicas,
                "min_runtime": length,
                "resumable": True,
                "command": ["sleep", "1000"],
            }
        )
    return made


def fill(client: Client) -> None:
    """Submit all, take two hosts out, and wait until what can run runs."""
    for body in jobs(random.Random(7)):
        client.submit(body)
    client.drain("main", "g17", "fan")
    client.fail_host("main", "g05", "gone")
    while client.status().jobs.get("starting"):
        client.changes(client.status().seq, 1000)


def clear(client: Client) -> None:
    """Leave nothing behind."""
    for job in list(client.jobs()):
        if job.state != "stopping":
            client.cancel(job.id)
    for job in list(client.jobs()):
        client.wait(job.id)


async def draw(url: str, token: str, size: tuple[int, int], keys: list[str], to: Path) -> None:
    app = TopApp(lambda: Client(url, token), user="admin")
    async with app.run_test(size=size) as pilot:
        while app.taken is None or not app.query_one(JobTable).row_count:
            await pilot.pause(0.1)
        for key in keys:
            await pilot.press(key)
            await pilot.pause(0.5)
        await pilot.pause(0.5)
        picture = app.export_screenshot(title="tenure top")
        # A page that is read shall load nothing from elsewhere; any monospaced font will do.
        to.write_text(re.sub(r"@font-face \{.*?\}|<!--.*?-->", "", picture, flags=re.DOTALL), "utf-8")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--size", default="112x48", help="columns x lines (%(default)s)")
    parser.add_argument(
        "--keys", nargs="*", default=["end", "up", "up", "up", "w"], help="pressed first, as Textual calls them"
    )
    parser.add_argument("--to", type=Path, default=HERE / "top.svg")
    options = parser.parse_args()
    columns, lines = (int(part) for part in options.size.split("x"))
    with tempfile.TemporaryDirectory() as name:
        directory = Path(name)
        (directory / "tenure.toml").write_text(CLUSTERS)
        (directory / "budgets.toml").write_text(BUDGETS)
        serve = [sys.executable, "-m", "tenure", "serve", "--config", str(directory / "tenure.toml")]
        server = subprocess.Popen(serve, cwd=directory, stdout=subprocess.PIPE, text=True)
        try:
            assert server.stdout is not None
            url = server.stdout.readline().rpartition(" ")[2].strip()
            token = (directory / ".tenure" / "client.toml").read_text().partition('token = "')[2].partition('"')[0]
            with Client(url, token) as client:
                try:
                    fill(client)
                    asyncio.run(draw(url, token, (columns, lines), options.keys, options.to))
                finally:
                    clear(client)
        finally:
            server.terminate()
            server.wait()


if __name__ == "__main__":
    main()
