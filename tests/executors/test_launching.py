"""The environment that jobs get."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from executor_kit import launch_of, replica, sh

from tenure.executors.base import ArrayPart
from tenure.executors.launching import inherited, render
from tenure.executors.supervisor import complete_environment

HERE = Path("/runs/1/1")


def test_the_servers_secrets_and_its_own_launcher_are_not_inherited() -> None:
    server = {
        "PATH": "/bin",
        "LD_LIBRARY_PATH": "/lib",
        "RANKING": "kept",
        "TENURE_TOKEN": "secret",
        "TENURE_FAULT": "x",
        "PET_NNODES": "4",
        "RANK": "3",
        "SLURM_JOB_ID": "9",
        "CUDA_VISIBLE_DEVICES": "0",
        "NOTIFY_SOCKET": "/run/x",
        "LISTEN_FDS": "1",
    }
    assert inherited(server) == {"PATH": "/bin", "LD_LIBRARY_PATH": "/lib", "RANKING": "kept"}


def test_who_wins() -> None:
    user = {
        "PATH": "/mine",
        "PET_RDZV_BACKEND": "c10d",
        "PET_NPROC_PER_NODE": "4",
        "TENURE_JOB_ID": "99",
        "CUDA_VISIBLE_DEVICES": "7",
    }
    rendered = render(launch_of(replicas=[replica(sh("x"), gpus=(1,))], env=user), HERE, {"PATH": "/server"})
    env = {**rendered["env"], **rendered["processes"][0]["env"]}
    assert (env["PATH"], env["PET_RDZV_BACKEND"], env["PET_NPROC_PER_NODE"]) == ("/mine", "c10d", "4")
    assert (env["TENURE_JOB_ID"], env["CUDA_VISIBLE_DEVICES"]) == ("1", "1")
    assert env["CUDA_DEVICE_ORDER"] == "PCI_BUS_ID"


def test_a_job_of_an_array_knows_which_it_is() -> None:
    plain = launch_of(sh("x"), env={"TENURE_ARRAY_INDEX": "99"})
    env = render(replace(plain, array=ArrayPart(7, 12, 4, 3, 12, 3)), HERE, {})["env"]
    assert {name: value for name, value in env.items() if name.startswith("TENURE_ARRAY")} == {
        "TENURE_ARRAY_ID": "7",
        "TENURE_ARRAY_INDEX": "12",
        "TENURE_ARRAY_COUNT": "4",
        "TENURE_ARRAY_MIN": "3",
        "TENURE_ARRAY_MAX": "12",
        "TENURE_ARRAY_STEP": "3",
    }


def test_a_port_of_the_users_own() -> None:
    env = complete_environment({"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": "4242"}, 20_000, 0)
    assert (env["MASTER_PORT"], env["PET_MASTER_PORT"], env["PET_RDZV_ENDPOINT"]) == (
        "4242",
        "4242",
        "127.0.0.1:4242",
    )
    assert env["TENURE_PROTECTED_UNTIL"] == ""


def test_torchrun_passes_the_warning_on_whatever_signal_it_is() -> None:
    signals = [
        render(replace(launch_of(sh("x")), warn_signal=name), HERE, {})["env"]["PET_SIGNALS_TO_HANDLE"]
        for name in ("SIGTERM", "SIGUSR1")
    ]
    assert signals == ["SIGTERM,SIGINT,SIGHUP,SIGQUIT", "SIGTERM,SIGINT,SIGHUP,SIGQUIT,SIGUSR1"]


def test_without_a_working_directory_it_is_the_home() -> None:
    assert render(launch_of(sh("x"), workdir=""), HERE, {})["workdir"] == str(Path.home())
