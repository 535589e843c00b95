"""Users and their tokens."""

from __future__ import annotations

from typing import Annotated

import typer

from tenure.cli.context import Json, connect, print_json
from tenure.cli.errors import CliError

users = typer.Typer(no_args_is_help=True, help="Users (administrators).")
tokens = typer.Typer(no_args_is_help=True, help="Tokens, which let their user in.")

Name = Annotated[str, typer.Argument(metavar="NAME", show_default=False)]
Admin = Annotated[bool, typer.Option("--admin", help="May do everything.")]


def whoami(json: Json = False) -> None:
    """Show whose token this is, and which server it is for."""
    with connect() as client:
        user = client.me()
        if json:
            print_json(user)
        else:
            print(f"{user.name} ({user.role}) at {client.address.url}, from {client.address.source}")


@users.command("ls")
def list_users(json: Json = False) -> None:
    """List users."""
    with connect() as client:
        found = client.users()
    if json:
        print_json(found)
        return
    from tenure.cli import render

    table = render.table("NAME", "ROLE", "SINCE", "")
    for user in found:
        table.add_row(user.name, user.role, render.clock(user.created_at), "disabled" if user.disabled else "")
    render.output().print(table)


@users.command("add")
def add_user(name: Name, admin: Admin = False) -> None:
    """Add a user, and print a token for them."""
    with connect() as client:
        client.add_user(name, "admin" if admin else "user")
        print(client.add_token(name, "first"))


@users.command("change")
def change_user(
    name: Name,
    role: Annotated[str | None, typer.Option(metavar="ROLE", help="admin or user.")] = None,
    disabled: Annotated[bool | None, typer.Option("--disable/--enable", show_default=False)] = None,
) -> None:
    """Change somebody's role, or shut them out."""
    with connect() as client:
        user = client.change_user(name, role=role, disabled=disabled)
    print(f"{user.name} ({user.role}{', disabled' if user.disabled else ''})")


@tokens.command("ls")
def list_tokens(
    user: Annotated[str | None, typer.Option(metavar="NAME", help="Of this user (administrators).")] = None,
    json: Json = False,
) -> None:
    """List tokens, without their secret."""
    with connect() as client:
        found = client.tokens(user)
    if json:
        print_json(found)
        return
    from tenure.cli import render
    from tenure.cli.render import escape

    heads = ("ID", "USER", "LABEL", "MADE", "LAST USED", "EXPIRES")
    table = render.table(*heads, right=("ID",), spare=("LAST USED", "MADE"))
    for token in found:
        times = (render.clock(at) for at in (token.created_at, token.last_used_at, token.expires_at))
        table.add_row(str(token.id), escape(token.user), escape(token.label), *times)
    render.output().print(table)


@tokens.command("add")
def add_token(
    user: Annotated[str | None, typer.Option(metavar="NAME", help="For this user \\[you].")] = None,
    label: Annotated[str, typer.Option(help="What it is for.")] = "",
    expires: Annotated[str | None, typer.Option(metavar="TIME", help="Ends after this, like 90d.")] = None,
) -> None:
    """Make a token and print it: it cannot be shown again."""
    from tenure import units
    from tenure.cli import render

    try:
        end = None if expires is None else units.format_time(render.now_ms() + units.parse_duration(expires))
    except units.UnitError as error:
        raise CliError(f"expires = {error.value}: {error.fix}") from error
    with connect() as client:
        print(client.add_token(user or client.me().name, label, end))


@tokens.command("revoke")
def revoke_token(token: Annotated[int, typer.Argument(metavar="ID", show_default=False, min=1)]) -> None:
    """Make a token worthless."""
    with connect() as client:
        client.revoke_token(token)
    print(f"token {token} is revoked")
