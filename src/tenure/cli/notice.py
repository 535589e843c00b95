"""How you are told what becomes of your jobs."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Annotated, Any

import typer

from tenure.cli.context import Json, connect, print_json
from tenure.cli.errors import CliError, Exit

if TYPE_CHECKING:
    from tenure.api.notice_models import NoticeView, ToldView
    from tenure.client import Client

app = typer.Typer(no_args_is_help=True, help="How you are told what becomes of your jobs: webhook, e-mail.")

User = Annotated[str | None, typer.Option("--user", metavar="NAME", help="Of this user (administrators) \\[you].")]
TEST_WITHIN_S = 20.0
_POLL_S = 0.2


@app.command()
def show(user: User = None, json: Json = False) -> None:
    """Show how you are told."""
    with connect() as client:
        found = client.notice(user or client.me().name)
    print_json(found) if json else _print(found)


@app.command("set")
def change(
    email: Annotated[str | None, typer.Option(metavar="ADDRESS", help="Mail goes there; '' for none.")] = None,
    webhook: Annotated[
        str | None, typer.Option(metavar="URL", help="Posted to, as Slack takes it; '' for none.")
    ] = None,
    kinds: Annotated[
        str | None, typer.Option(metavar="KINDS", help="What you are told, like preempted,failed; all for everything.")
    ] = None,
    digest: Annotated[
        str | None, typer.Option(metavar="TIME", help="One message for all of so long, like 1h; 0: each at once.")
    ] = None,
    quiet: Annotated[
        str | None, typer.Option(metavar="HOURS", help="Nothing then, like 22:00-07:00; '' for none.")
    ] = None,
    zone: Annotated[str | None, typer.Option(metavar="ZONE", help="Of the quiet hours, like Europe/Berlin.")] = None,
    through: Annotated[
        str | None, typer.Option(metavar="KINDS", help="What neither digest nor quiet hours put off; '' for nothing.")
    ] = None,
    new_secret: Annotated[bool, typer.Option("--new-secret", help="Make another secret for the webhook.")] = False,
    user: User = None,
    json: Json = False,
) -> None:
    """Change how you are told. What you do not name stays as it is."""
    from tenure.notice.kinds import Kind

    said: dict[str, Any] = {"email": email, "webhook": webhook, "digest": digest, "quiet": quiet, "zone": zone}
    for field, names in (("kinds", kinds), ("through", through)):
        if names is not None:
            listed = [name.strip() for name in names.split(",") if name.strip()]
            said[field] = [kind.value for kind in Kind] if listed == ["all"] else listed
    body = {field: value for field, value in said.items() if value is not None}
    if new_secret:
        body["new_secret"] = True
    if not body:
        raise CliError("nothing to change: name at least one option, like --webhook or --email; --help lists them")
    with connect() as client:
        found = client.set_notice(user or client.me().name, body)
    if json:
        print_json(found)
        return
    _print(found)
    if found.secret:
        print(f"secret      {found.secret}")
        print("The webhook's signatures are made with this secret. It cannot be shown again.")


@app.command()
def test(user: User = None, json: Json = False) -> None:
    """Send a test to every address, and say what became of it."""
    with connect() as client:
        name = user or client.me().name
        results = _results(client, name, client.test_notice(name))
    if json:
        print_json(results)
    else:
        for one in results:
            print(f"{one.channel}: {_became(one)}")
    if any(one.state != "sent" for one in results):
        raise typer.Exit(Exit.FAILED)


def _results(client: Client, name: str, ids: list[int]) -> list[ToldView]:
    """The tests in the log, once each was tried, or after a while."""
    end = time.monotonic() + TEST_WITHIN_S
    while True:
        found = [one for one in client.notice_log(name).items if one.id in ids]
        if all(one.state != "waiting" or one.tries for one in found) or time.monotonic() > end:
            return sorted(found, key=lambda one: one.id)
        time.sleep(_POLL_S)


@app.command("log")
def told(
    limit: Annotated[int, typer.Option("-n", "--limit", help="So many.", min=1, max=1000)] = 20,
    user: User = None,
    json: Json = False,
) -> None:
    """List what you were told, and what is still on its way, newest first."""
    with connect() as client:
        found = client.notice_log(user or client.me().name, limit=limit).items
    if json:
        print_json(found)
        return
    from tenure.cli import render
    from tenure.cli.render import escape

    table = render.table("TIME", "BY", "NOTICE", "", fold=("NOTICE", ""), spare=("BY",))
    for one in found:
        table.add_row(render.clock(one.at), one.channel, escape(one.title), escape(_became(one)))
    render.output().print(table)


def _became(one: ToldView) -> str:
    from tenure import words

    if one.behind:
        return "waits behind the one before it"
    if one.state == "waiting":
        again = f", tried {'once' if one.tries == 1 else f'{one.tries} times'}: {one.error}" if one.tries else ""
        return f"waits until {words.moment(one.due_at)}{again}"
    return f"{one.state}: {one.error}" if one.error else one.state


def _print(found: NoticeView) -> None:
    from tenure import units

    lines = {
        "user": found.user + (" (by default: nothing was chosen)" if found.by_default else ""),
        "email": found.email or "none",
        "webhook": found.webhook or "none",
        "kinds": ", ".join(found.kinds) or "none",
        "digest": units.format_duration(found.digest_ms) if found.digest_ms else "none: each at once",
        "quiet": f"{found.quiet} in {found.zone}" if found.quiet else "none",
        "at once": ", ".join(found.through) or "nothing",
    }
    for name, value in lines.items():
        print(f"{name:<11} {value}")
