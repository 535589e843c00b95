"""Every store under test: SQLite always, PostgreSQL from a cluster of our own when it is installed."""

from __future__ import annotations

import os
import secrets
import shutil
import subprocess
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import IO

import psycopg
import pytest

from tenure.store import Store, schema

MISSING = "PostgreSQL's server is not installed (on Debian: apt-get install postgresql)"


def _server_programs() -> Path | None:
    on_path = shutil.which("initdb")
    if on_path:
        return Path(on_path).resolve().parent
    found = sorted(Path("/usr/lib/postgresql").glob("*/bin/initdb"))
    return found[-1].parent if found else None


def _as_server_user(directory: Path) -> list[str]:
    """PostgreSQL refuses root. As root: nobody, with the one capability to pass through pytest's directories.

    The server dies with the test process in any case.
    """
    if os.geteuid() != 0:
        return ["setpriv", "--pdeathsig", "QUIT"]
    shutil.chown(directory, "nobody", "nogroup")
    user = ["--reuid", "nobody", "--regid", "nogroup", "--clear-groups"]
    through = ["--inh-caps", "+dac_override", "--ambient-caps", "+dac_override"]
    return ["setpriv", *user, *through, "--pdeathsig", "QUIT"]


def _wait_until_ready(log: IO[str]) -> None:
    seen = []
    for line in log:
        seen.append(line)
        if "database system is ready to accept connections" in line:
            return
    pytest.fail("PostgreSQL did not start: " + "".join(seen))


@pytest.fixture(scope="session")
def postgres(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The directory of the socket of a PostgreSQL server, started for this session of tests."""
    programs = _server_programs()
    if programs is None:
        pytest.skip(MISSING)
    if shutil.which("setpriv") is None:
        pytest.skip("setpriv, which starts PostgreSQL without root, is not installed")
    home = tmp_path_factory.mktemp("pg")
    prefix = _as_server_user(home)
    data = home / "data"
    how = ["--no-sync", "--auth=trust", "--username=tenure", "--encoding=UTF8", "--locale=C.UTF-8"]
    initdb = [*prefix, str(programs / "initdb"), *how, "--pgdata", str(data)]
    done = subprocess.run(initdb, cwd=home, capture_output=True, text=True, check=False)
    if done.returncode:
        pytest.fail(f"initdb failed: {done.stderr}")
    settings = {"listen_addresses": "", "unix_socket_directories": home, "fsync": "off", "lc_messages": "C"}
    options = [part for name, value in settings.items() for part in ("-c", f"{name}={value}")]
    server = subprocess.Popen(
        [*prefix, programs / "postgres", "-D", data, *options], cwd=home, stderr=subprocess.PIPE, text=True
    )
    assert server.stderr is not None
    _wait_until_ready(server.stderr)
    drain = threading.Thread(target=server.stderr.read, daemon=True)
    drain.start()
    yield str(home)
    server.terminate()
    server.wait(timeout=60)
    drain.join()
    server.stderr.close()


@pytest.fixture
def new_postgres(request: pytest.FixtureRequest) -> Iterator[Callable[[], str]]:
    """Makes empty databases, and drops them at the end."""
    socket = request.getfixturevalue("postgres")
    names: list[str] = []
    with psycopg.connect(host=socket, user="tenure", dbname="postgres", autocommit=True) as admin:

        def make() -> str:
            name = f"tenure_{secrets.token_hex(6)}"
            admin.execute(f"CREATE DATABASE {name}")
            names.append(name)
            return f"postgresql://tenure@/{name}?host={socket}"

        yield make
        for name in names:
            admin.execute(f"DROP DATABASE {name} WITH (FORCE)")


@pytest.fixture(params=["sqlite", "postgresql"])
def new_url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """The URL of a database that no one has opened before."""
    if request.param == "sqlite":
        return f"sqlite:///{tmp_path}/tenure.db"
    make: Callable[[], str] = request.getfixturevalue("new_postgres")
    return make()


@pytest.fixture(scope="session")
def used_postgres(postgres: str) -> str:
    """One migrated database for most tests: making one for each would take most of their time."""
    with psycopg.connect(host=postgres, user="tenure", dbname="postgres", autocommit=True) as admin:
        admin.execute("CREATE DATABASE used")
    url = f"postgresql://tenure@/used?host={postgres}"
    Store.open(url).close()
    return url


@pytest.fixture(scope="session")
def migrated_file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A SQLite database to copy, which is faster than to migrate."""
    path = tmp_path_factory.mktemp("sqlite") / "tenure.db"
    Store.open(f"sqlite:///{path}").close()
    return path


@pytest.fixture
def sqlite_url(migrated_file: Path, tmp_path: Path) -> str:
    """The URL of a SQLite database in which nothing has been written."""
    return f"sqlite:///{shutil.copy(migrated_file, tmp_path)}"


@pytest.fixture(params=["sqlite", "postgresql"])
def url(request: pytest.FixtureRequest) -> str:
    """The URL of a database in which nothing has been written."""
    if request.param == "sqlite":
        file: str = request.getfixturevalue("sqlite_url")
        return file
    used: str = request.getfixturevalue("used_postgres")
    socket: str = request.getfixturevalue("postgres")
    with psycopg.connect(host=socket, user="tenure", dbname="used", autocommit=True) as admin:
        names = ", ".join(f'"{name}"' for name in schema.metadata.tables if name != "meta")
        admin.execute(f"TRUNCATE {names} RESTART IDENTITY")
        admin.execute("DELETE FROM meta WHERE key NOT IN ('epoch', 'highest_deleted_job')")
        admin.execute("UPDATE meta SET value = '0'")
    return used


@pytest.fixture
def store(url: str) -> Iterator[Store]:
    with Store.open(url) as opened:
        yield opened


@pytest.fixture
def sqlite_store(sqlite_url: str) -> Iterator[Store]:
    with Store.open(sqlite_url) as opened:
        yield opened
