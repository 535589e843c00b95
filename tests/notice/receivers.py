"""Real receivers: a web server that does as it is told, and a mail server."""

from __future__ import annotations

import hashlib
import hmac
import json
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from email import message_from_bytes, policy
from email.message import EmailMessage
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from aiosmtpd.controller import Controller
from aiosmtpd.smtp import SMTP, Envelope, Session

WITHIN_S = 60.0


@dataclass(frozen=True)
class Posted:
    """One request that came in whole. ``answered``: the status that it got."""

    path: str
    headers: dict[str, str]
    body: bytes
    answered: int

    @property
    def json(self) -> Any:
        return json.loads(self.body)

    @property
    def id(self) -> str:
        return self.headers["idempotency-key"]

    @property
    def kinds(self) -> list[str]:
        return [notice["kind"] for notice in self.json["tenure"]["notices"]]

    def signed_with(self, secret: str) -> bool:
        """As a receiver would check it, by its own arithmetic."""
        signed = b"v1:" + self.headers["x-tenure-timestamp"].encode() + b":" + self.body
        wanted = "v1=" + hmac.new(secret.encode(), signed, hashlib.sha256).hexdigest()
        return hmac.compare_digest(wanted, self.headers["x-tenure-signature"])


@dataclass
class Hook:
    """What came in by path, and how each path answers: a status, or a function that writes the answer itself."""

    url: str = ""
    port: int = 0
    got: list[Posted] = field(default_factory=list)
    answers: dict[str, list[int | Callable[[BaseHTTPRequestHandler], None]]] = field(default_factory=dict)
    headers: dict[str, str] = field(default_factory=dict)
    came: threading.Condition = field(default_factory=threading.Condition)
    let_go: threading.Event = field(default_factory=threading.Event)
    hanging: int = 0

    def at(self, path: str) -> list[Posted]:
        return [posted for posted in self.got if posted.path == path]

    def good(self, path: str) -> list[Posted]:
        return [posted for posted in self.at(path) if posted.answered < 300]

    def wait(self, enough: Callable[[], bool], what: str = "") -> None:
        with self.came:
            assert self.came.wait_for(enough, WITHIN_S), f"{what}: {[(p.path, p.answered, p.body) for p in self.got]}"

    def hang(self, handler: BaseHTTPRequestHandler) -> None:
        """Take the request and say nothing until the test lets go."""
        with self.came:
            self.hanging += 1
            self.came.notify_all()
        self.let_go.wait(10 * WITHIN_S)

    def drip(self, handler: BaseHTTPRequestHandler) -> None:
        """Send a byte of the answer now and then, for ever."""
        with self.came:
            self.hanging += 1
            self.came.notify_all()
        with suppress(OSError):
            while not self.let_go.wait(0.05):
                handler.wfile.write(b"H")
                handler.wfile.flush()


@contextmanager
def hook() -> Iterator[Hook]:
    """A web server on this machine. A path answers by its list in ``answers``, the last one for ever, or 200."""
    made = Hook()

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"]))
            with made.came:
                script = made.answers.get(self.path, [200])
                answer = script.pop(0) if len(script) > 1 else script[0]
                if isinstance(answer, int):
                    headers = {name.lower(): value for name, value in self.headers.items()}
                    made.got.append(Posted(self.path, headers, body, answer))
                    made.came.notify_all()
            if not isinstance(answer, int):
                self.close_connection = True
                answer(self)
                return
            self.send_response(answer)
            for name, value in made.headers.items():
                self.send_header(name, value)
            self.send_header("Content-Length", "4")
            self.end_headers()
            self.wfile.write(b"said")

        def log_message(self, *_: object) -> None:
            pass

    class Server(ThreadingHTTPServer):
        daemon_threads = True

        def handle_error(self, *_: object) -> None:
            """Whoever asks may hang up."""

    server = Server(("127.0.0.1", 0), Handler)
    made.port = server.server_address[1]
    made.url = f"http://127.0.0.1:{made.port}"
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05})
    thread.start()
    try:
        yield made
    finally:
        made.let_go.set()
        server.shutdown()
        thread.join()
        server.server_close()


class Post:
    """A mail server's memory. ``refuse``: answers to RCPT by address. ``answers``: to DATA, one after the other."""

    def __init__(self) -> None:
        self.got: list[EmailMessage] = []
        self.raw: list[bytes] = []
        self.to: list[list[str]] = []
        self.refuse: dict[str, str] = {}
        self.answers: list[str] = []
        self.came = threading.Condition()
        self.port = 0

    async def handle_RCPT(self, _server: SMTP, _session: Session, envelope: Envelope, to: str, _options: Any) -> str:
        if to in self.refuse:
            return self.refuse[to]
        envelope.rcpt_tos.append(to)
        return "250 OK"

    async def handle_DATA(self, _server: SMTP, _session: Session, envelope: Envelope) -> str:
        answer = self.answers.pop(0) if self.answers else "250 OK"
        if answer.startswith("2"):
            assert isinstance(envelope.content, bytes)
            parsed = message_from_bytes(envelope.content, policy=policy.default)
            assert isinstance(parsed, EmailMessage)
            with self.came:
                self.raw.append(envelope.content)
                self.got.append(parsed)
                self.to.append(list(envelope.rcpt_tos))
                self.came.notify_all()
        return answer

    def wait(self, enough: Callable[[], bool]) -> None:
        with self.came:
            assert self.came.wait_for(enough, WITHIN_S), self.raw


class _AnyPort(Controller):
    """One that learns which port it was given before it looks whether it answers."""

    def _trigger_server(self) -> None:
        self.port = self.server.sockets[0].getsockname()[1]
        super()._trigger_server()


@contextmanager
def mail_server(**more: Any) -> Iterator[Post]:
    """A mail server on this machine; without ``more`` it has no TLS and asks for no password."""
    post = Post()
    controller = _AnyPort(post, hostname="127.0.0.1", port=0, **more)
    controller.start()
    post.port = controller.port
    try:
        yield post
    finally:
        controller.stop()


def until(true: Callable[[], bool], what: str = "") -> None:
    """Wait for something that nobody announces."""
    end = time.monotonic() + WITHIN_S
    while not true():
        assert time.monotonic() < end, f"it never came to be: {what}"
        time.sleep(0.02)
