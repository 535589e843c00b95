"""The three ways to run an attempt, told apart by its ``launch.json``: ours, its user's own job, one as its user."""

from __future__ import annotations

import os
from dataclasses import asdict
from pathlib import Path

from tenure.executors import procs
from tenure.executors.base import Launch
from tenure.executors.files import AttemptFiles
from tenure.executors.slurm import native, user_plan, user_run
from tenure.executors.slurm import plan as plans
from tenure.executors.slurm.gang import FileClock
from tenure.executors.slurm.native import NativeRun
from tenure.executors.slurm.run import Run
from tenure.executors.slurm.user_run import UserJobs, UserRun


def write(attempt: AttemptFiles, launch: Launch, jobs: UserJobs, addresses: dict[str, str], news: Path) -> None:
    """Write down what an attempt is. ``addresses``: of nodes, by name. ``news``: where its supervisors leave word.

    Raises OSError.
    """
    if launch.adopted:
        procs.write_json(attempt.launch, asdict(native.plan_of(launch)))
    elif jobs.words and launch.user != user_run.own_name():
        procs.write_json(attempt.launch, asdict(user_plan.plan_of(launch, user_run.person(launch.user))))
    else:
        plan = plans.plan_of(launch)
        address = addresses.get(plan.hosts[0], plan.hosts[0])
        plans.write(plan, attempt, launch, os.environ, address, news)


def run_of(attempt: AttemptFiles, jobs: UserJobs, clock: FileClock) -> Run | NativeRun:
    content = procs.read_json(attempt.launch)
    as_user, adopted = user_plan.read(content), native.read_plan(content)
    if as_user is not None:
        return UserRun(attempt, as_user, jobs)
    return NativeRun(attempt, adopted) if adopted is not None else Run(attempt, plans.read(attempt), clock)
