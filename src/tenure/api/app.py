"""The application: routes, problems, limits, and a description of all that in ``/openapi.json``."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from fastapi import FastAPI
from fastapi.openapi.utils import get_openapi
from fastapi.responses import Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

import tenure
from tenure.api import metrics, problems
from tenure.api.changes import Changes
from tenure.api.models import Health, Problem
from tenure.api.routes import arrays, balance, cluster, follow, jobs, notice, people, plans, why
from tenure.engine.engine import Engine
from tenure.engine.past import Past
from tenure.notice.courier import Courier

MAX_BODY = 1 << 20
"""Bytes of a request's body."""
_OPEN = ("/healthz", "/metrics")
"""Paths that need no token."""


def create_app(engine: Engine, courier: Courier | None = None) -> FastAPI:
    """The API of a running engine. Without ``courier`` notices are taken, and nobody delivers them."""
    courier = courier or Courier(engine.config, engine.store, engine.epoch)

    @asynccontextmanager
    async def lifespan(app: FastAPI) -> AsyncIterator[None]:
        yield
        app.state.changes.close()

    app = FastAPI(
        title="Tenure",
        version=tenure.__version__,
        summary="A GPU-cluster scheduler that hands out GPU time",
        lifespan=lifespan,
        docs_url=None,
        redoc_url=None,
    )
    app.state.engine = engine
    app.state.changes = Changes(engine)
    app.state.past = Past(engine.store)
    app.state.courier = courier
    exporter = metrics.Exporter(engine, courier.tally)
    for module in (plans, jobs, why, arrays, follow, cluster, balance, people, notice):
        app.include_router(module.router)

    @app.get("/healthz", tags=["health"])
    def healthz() -> Health:
        """503 when the engine has failed and must be restarted."""
        if engine.failure is not None:
            raise problems.Failed(503, "the engine has failed; the server must be restarted")
        return Health(status="ok", version=tenure.__version__)

    @app.get("/metrics", tags=["health"], response_class=Response, responses={200: {"content": {"text/plain": {}}}})
    def prometheus() -> Response:
        return Response(exporter.scrape(), media_type=metrics.CONTENT_TYPE)

    problems.install(app)
    app.add_middleware(BodyLimit)
    app.openapi = lambda: _openapi(app)  # type: ignore[method-assign]  # the documented way to change it
    return app


def _openapi(app: FastAPI) -> dict[str, Any]:
    """FastAPI's description, with our problems in place of its own errors, and the token."""
    if app.openapi_schema is not None:
        return app.openapi_schema
    schema = get_openapi(title=app.title, version=app.version, summary=app.summary, routes=app.routes)
    components = schema.setdefault("components", {})
    problem = Problem.model_json_schema(ref_template="#/components/schemas/{model}")
    schemas = components.setdefault("schemas", {})
    schemas.update(problem.pop("$defs"))
    schemas["Problem"] = problem
    for name in ("HTTPValidationError", "ValidationError"):
        schemas.pop(name, None)
    components["securitySchemes"] = {"token": {"type": "http", "scheme": "bearer"}}
    content = {problems.MEDIA_TYPE: {"schema": {"$ref": "#/components/schemas/Problem"}}}
    for path, operations in schema["paths"].items():
        for operation in operations.values():
            operation["responses"].pop("422", None)
            operation["responses"]["default"] = {"description": "A problem", "content": content}
            if path not in _OPEN:
                operation["security"] = [{"token": []}]
    submit = schema["paths"]["/v1/jobs"]["post"]["responses"]
    submit["200"] = {**submit["201"], "description": "The client key was used before: this is that job"}
    app.openapi_schema = schema
    return schema


class BodyLimit:
    """Refuses bodies above ``MAX_BODY`` with a 413, however they are sent, before anything reads them."""

    def __init__(self, app: ASGIApp) -> None:
        self.app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        body = await self._read(scope, receive)
        if body is None:
            detail = f"a request has at most {MAX_BODY >> 20} MiB"
            await problems.response(problems.problem(413, detail))(scope, receive, send)
            return
        messages: list[Message] = [{"type": "http.request", "body": body, "more_body": False}]

        async def replay() -> Message:
            return messages.pop() if messages else await receive()

        await self.app(scope, replay, send)

    async def _read(self, scope: Scope, receive: Receive) -> bytes | None:
        declared = next((value for name, value in scope["headers"] if name == b"content-length"), b"0")
        if not declared.isdigit() or int(declared[:20]) > MAX_BODY:
            return None
        parts: list[bytes] = []
        size = 0
        while True:
            message = await receive()
            if message["type"] != "http.request":
                break
            part = message.get("body", b"")
            size += len(part)
            if size > MAX_BODY:
                return None
            parts.append(part)
            if not message.get("more_body", False):
                break
        return b"".join(parts)
