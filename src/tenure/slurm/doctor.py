"""Whether a site's Slurm suits Tenure: what was found, what is wanted and why. Pure: ``read_site`` did the looking."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

from tenure.slurm.check_machines import check_machines
from tenure.slurm.check_settings import check_settings
from tenure.slurm.findings import Finding, Level, ordered
from tenure.slurm.reading import version_of
from tenure.slurm.site import Site, uid_of

TESTED = (22, 5)
OLDEST = (22, 5)
NEWEST = (25, 11)
CLOCK_S = 2
_OPERATORS = ("operator", "administrator")


def examine(site: Site, partitions: Sequence[str] = ()) -> list[Finding]:
    """All findings, the worst first. ``partitions``: those that Tenure is to schedule; none: those with GPUs."""
    chosen = list(partitions) or site.with_gpus()
    if not site.answers:
        return [_silent(site)]
    found = [
        *_version(site),
        *_unread(site),
        *_auth(site),
        *_operator(site),
        *_clocks(site),
        *_plugin(site, chosen),
        *check_settings(site, chosen),
        *check_machines(site, chosen),
    ]
    return ordered(found)


def _silent(site: Site) -> Finding:
    why = "without an answer from Slurm nothing can be looked at; run this where scontrol works"
    return Finding("reachable", Level.MUST, site.unread["config"], "scontrol show config answers", why)


def _version(site: Site) -> Iterable[Finding]:
    text = site.settings.text("SLURM_VERSION")
    version = version_of(text)
    wanted = f"22.05 (tested), or up to {NEWEST[0]}.{NEWEST[1]:02d} (untested)"
    if version is None:
        yield Finding("version", Level.CANNOT_TELL, text or "no version", wanted, "its commands may print other things")
    elif version < OLDEST:
        why = "older versions lack what Tenure reads and does"
        yield Finding("version", Level.MUST, text, wanted, why)
    elif version == TESTED:
        yield Finding("version", Level.FINE, text, wanted, "Tenure's tests run on this one")
    else:
        why = "the commands used are the same there by their manuals, but no test of Tenure has run on it"
        yield Finding("version", Level.CANNOT_TELL, text, wanted, why)


def _unread(site: Site) -> Iterable[Finding]:
    for what, why in site.unread.items():
        yield Finding(f"read_{what}", Level.CANNOT_TELL, why, f"{what} can be read", f"nothing was checked of {what}")


def _auth(site: Site) -> Iterable[Finding]:
    kind = site.settings.text("AuthType")
    why = "slurmctld accepted this machine's credential just now"
    level = Level.FINE if kind == "auth/munge" else Level.CANNOT_TELL
    if level is Level.CANNOT_TELL:
        why += "; but no test of Tenure has run with this kind"
    yield Finding("auth", level, kind or "no AuthType", "auth/munge", why)


def _operator(site: Site) -> Iterable[Finding]:
    wanted = "SlurmUser, or a Slurm operator; not root"
    why = "holding, pinning and requeueing other people's jobs takes operator rights"
    owner = re.sub(r"\(\d+\)$", "", site.settings.text("SlurmUser"))
    make = f"sacctmgr modify user {site.user} set adminlevel=operator"
    level = next((one.level for one in site.users or () if one.name == site.user), "None")
    if uid_of(site.user) == 0:
        found = f"{site.user}, who may do everything on this machine"
        yield Finding("operator", Level.SHOULD, found, wanted, "Tenure needs Slurm's rights, not the machine's")
    elif site.user == owner:
        yield Finding("operator", Level.FINE, f"{site.user} is SlurmUser", wanted, why)
    elif level.lower() in _OPERATORS:
        yield Finding("operator", Level.FINE, f"{site.user} is {level.lower()}", wanted, why)
    elif site.users is not None:
        yield Finding("operator", Level.MUST, f"{site.user} has AdminLevel {level}", wanted, why, make)
    elif "users" in site.unread:
        yield Finding("operator", Level.CANNOT_TELL, f"{site.user}; {site.unread['users']}", wanted, why, make)
    else:
        found = f"{site.user} is not SlurmUser ({owner}), and without accounting there are no operators"
        yield Finding("operator", Level.MUST, found, wanted, why, f"SlurmUser={site.user}")


def _clocks(site: Site) -> Iterable[Finding]:
    wanted = f"within {CLOCK_S} s"
    why = "ends come with Slurm's times and go into the ledger; a step of more than 2 s stops evictions"
    off = site.clock_off
    if off is None:
        yield Finding("clock", Level.CANNOT_TELL, "slurmctld's time is not shown", wanted, why)
    else:
        level = Level.FINE if abs(off) <= CLOCK_S else Level.SHOULD
        found = (
            f"slurmctld's clock is {abs(off)} s {'ahead' if off > 0 else 'behind'}" if off else "same as slurmctld's"
        )
        yield Finding(
            "clock", level, found, wanted, why, "" if level is Level.FINE else "# run chrony on both machines"
        )
    yield Finding(
        "clock_hosts",
        Level.CANNOT_TELL,
        "Slurm does not show its hosts' clocks",
        "one time service on all",
        "munge refuses credentials that are minutes off; log lines and checkpoints carry the hosts' own times",
    )


# ---- the job_submit plugin

_LIST = r"local\s+{name}\s*=\s*\{{([^}}]*)\}}"


def _plugin(site: Site, chosen: Sequence[str]) -> Iterable[Finding]:
    plugins = site.settings.words("JobSubmitPlugins")
    found = site.settings.text("JobSubmitPlugins") or "none"
    wanted = "lua, with Tenure's job_submit.lua"
    why = "without it a plain sbatch in a partition of Tenure starts at once, past every budget"
    if "lua" not in plugins:
        line = "JobSubmitPlugins=" + ",".join([*plugins, "lua"])
        yield Finding("job_submit", Level.SHOULD, found, wanted, why, line)
        return
    text = site.files.get("job_submit.lua")
    if text is None:
        yield Finding("job_submit", Level.CANNOT_TELL, f"{found}; its script is not here", wanted, why)
    elif "tenure_submit" not in text:
        yield Finding(
            "job_submit", Level.SHOULD, "lua, with another script", wanted, f"{why}: call tenure_submit there"
        )
    else:
        yield Finding("job_submit", Level.FINE, "lua, with Tenure's script", wanted, "jobs are held at birth")
        yield from _plugin_lists(site, text, chosen)


def _plugin_lists(site: Site, text: str, chosen: Sequence[str]) -> Iterable[Finding]:
    listed = re.search(_LIST.format(name="PARTITIONS"), text)
    names = re.findall(r"[\"']([^\"']+)[\"']", listed[1]) if listed else []
    missing = [name for name in chosen if name not in names]
    why = "jobs of a partition that is not listed are not held; those of a listed one wait for Tenure"
    wanted = ", ".join(chosen)
    line = "job_submit.lua: local PARTITIONS = { " + ", ".join(f'"{name}"' for name in chosen) + " }"
    if missing:
        yield Finding("plugin_partitions", Level.SHOULD, ", ".join(names) or "none", wanted, why, line)
    else:
        yield Finding("plugin_partitions", Level.FINE, ", ".join(names), wanted, why)
    uid = uid_of(site.user)
    uids = re.search(_LIST.format(name="TENURE_UIDS"), text)
    allowed = {0, *(int(number) for number in re.findall(r"\d{1,9}", uids[1] if uids else ""))}
    shown = ", ".join(str(number) for number in sorted(allowed))
    why = "others than these cannot release a job"
    if uid is None:
        yield Finding("plugin_uids", Level.CANNOT_TELL, f"no user {site.user} here", f"the uid of {site.user}", why)
    elif uid in allowed:
        yield Finding("plugin_uids", Level.FINE, shown, str(uid), why)
    else:
        line = f"job_submit.lua: local TENURE_UIDS = {{ {uid} }}"
        yield Finding("plugin_uids", Level.MUST, shown, str(uid), why, line)
