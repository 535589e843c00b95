"""Webhooks over TLS: to the address that was checked, under the name that was given, with a certificate for that."""

from __future__ import annotations

import http.server
import shutil
import ssl
import subprocess
import threading
from collections.abc import Iterator
from email.message import EmailMessage
from pathlib import Path
from typing import Any

import pytest
from aiosmtpd.smtp import AuthResult, LoginPassword
from receivers import mail_server

from tenure.config import Smtp
from tenure.notice import mailing, webhook
from tenure.notice.results import Delivered, Refused, TryAgain
from tenure.notice.target import parse_target

if shutil.which("openssl") is None:
    pytest.skip("openssl, which makes certificates, is not installed", allow_module_level=True)


class Handler(http.server.BaseHTTPRequestHandler):
    hosts: list[str] = []  # noqa: RUF012  # what the one server of this module was asked for

    def do_POST(self) -> None:
        self.hosts.append(self.headers["Host"])
        self.send_response(200)
        self.end_headers()

    def log_message(self, *_: object) -> None:
        pass


@pytest.fixture(scope="module")
def certificate(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A certificate for ``localhost``, which signs itself, with its key."""
    where = tmp_path_factory.mktemp("tls")
    words = "req -x509 -newkey rsa:2048 -nodes -days 2 -subj /CN=localhost -addext subjectAltName=DNS:localhost"
    files = ["-keyout", str(where / "key.pem"), "-out", str(where / "cert.pem")]
    subprocess.run(["openssl", *words.split(), *files], check=True, capture_output=True)
    return where


@pytest.fixture(scope="module")
def port(certificate: Path) -> Iterator[int]:
    context = server_context(certificate)
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.socket = context.wrap_socket(server.socket, server_side=True)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05})
    thread.start()
    yield server.server_address[1]
    server.shutdown()
    thread.join()
    server.server_close()


def server_context(certificate: Path) -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate / "cert.pem", certificate / "key.pem")
    return context


@pytest.fixture
def trusted(certificate: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """This machine trusts the certificate."""
    monkeypatch.setenv("SSL_CERT_FILE", str(certificate / "cert.pem"))
    webhook._trusted.cache_clear()
    yield
    webhook._trusted.cache_clear()


def post(url: str, *listed: str) -> object:
    return webhook.post(parse_target(url, listed), b"{}", "id", "secret", 1_790_000_000_000, 20_000)


@pytest.mark.usefixtures("trusted")
def test_the_certificate_has_to_be_for_the_name(port: int) -> None:
    """The name has an address here on which nothing listens, too: the next one is tried."""
    assert post(f"https://localhost:{port}/x", "localhost") == Delivered()
    assert Handler.hosts[-1] == f"localhost:{port}"
    other = post(f"https://127.0.0.1:{port}/x", "127.0.0.1")
    assert isinstance(other, TryAgain) and "certificate" in other.why.lower()


def test_a_certificate_that_nobody_vouches_for(port: int) -> None:
    webhook._trusted.cache_clear()
    result = post(f"https://localhost:{port}/x", "localhost")
    assert isinstance(result, TryAgain) and "certificate" in result.why.lower()


@pytest.mark.usefixtures("trusted")
def test_a_name_that_leads_inside_is_refused_without_a_word(port: int) -> None:
    """As when somebody lets a public name of theirs point at this machine."""
    before = len(Handler.hosts)
    target = parse_target(f"https://localhost:{port}/x", ["localhost"])
    result = webhook.post(
        type(target)(target.scheme, target.host, target.port, target.path, listed=False),
        b"{}", "id", "secret", 1_790_000_000_000, 20_000,
    )  # fmt: skip
    assert isinstance(result, Refused) and "not on the internet" in result.why
    assert len(Handler.hosts) == before


def authenticate(_server: Any, _session: Any, _envelope: Any, _mechanism: str, data: LoginPassword) -> AuthResult:
    return AuthResult(success=(data.login, data.password) == (b"tenure", b"open sesame"), handled=False)


def mail() -> EmailMessage:
    made = EmailMessage()
    made["From"], made["To"], made["Subject"] = "tenure@lab.example", "ann@lab.example", "Job 1 has failed"
    made.set_content("Failed: exit code 3.\n")
    return made


@pytest.mark.filterwarnings("ignore:Requiring AUTH")
@pytest.mark.usefixtures("trusted")
@pytest.mark.parametrize("tls", ["starttls", "tls"])
def test_mail_goes_over_tls_and_with_a_password(certificate: Path, tmp_path: Path, tls: str) -> None:
    context, password = server_context(certificate), tmp_path / "password"
    more: dict[str, Any] = {"auth_required": True, "authenticator": authenticate}
    if tls == "starttls":
        more |= {"tls_context": context, "require_starttls": True}
    else:
        more |= {"ssl_context": context, "auth_require_tls": False}
    with mail_server(**more) as post:
        smtp = Smtp("localhost", post.port, tls, "tenure", password, "tenure@lab.example")
        password.write_text("wrong\n")
        assert mailing.send(smtp, mail(), 20_000) == TryAgain("the mail server does not let us in: 535")
        assert not post.got
        password.write_text("open sesame\n")
        assert mailing.send(smtp, mail(), 20_000) == Delivered()
        assert [got["Subject"] for got in post.got] == ["Job 1 has failed"]


def test_mail_does_not_go_to_a_server_that_nobody_vouches_for(certificate: Path, tmp_path: Path) -> None:
    with mail_server(tls_context=server_context(certificate)) as post:
        smtp = Smtp("localhost", post.port, "starttls", sender="tenure@lab.example")
        result = mailing.send(smtp, mail(), 20_000)
        assert isinstance(result, TryAgain) and "TLS failed" in result.why and not post.got
    with mail_server() as post:  # and not in clear to one that has no TLS
        result = mailing.send(Smtp("localhost", post.port, sender="tenure@lab.example"), mail(), 20_000)
        assert isinstance(result, TryAgain) and not post.got
    gone = mailing.send(Smtp("localhost", post.port, "none", sender="tenure@lab.example"), mail(), 20_000)
    assert isinstance(gone, TryAgain)
