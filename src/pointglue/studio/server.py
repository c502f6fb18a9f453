"""The web server: the page, its files and the socket, for those on this machine who have the token."""

import asyncio
import secrets
import webbrowser
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from ..errors import InputError, MissingDependencyError
from .runtime.hub import Hub, Page
from .runtime.session import Session

try:
    import uvicorn
    from starlette.applications import Starlette
    from starlette.requests import Request
    from starlette.responses import FileResponse, PlainTextResponse, Response
    from starlette.routing import Mount, Route, WebSocketRoute
    from starlette.staticfiles import StaticFiles
    from starlette.websockets import WebSocket, WebSocketDisconnect
except ImportError as error:
    raise MissingDependencyError("the studio needs a web server: pip install 'pointglue[studio]'") from error

__all__ = ["configuration", "create_app", "serve"]

STATIC = Path(__file__).parent / "static"
LOCAL = ("127.0.0.1", "localhost", "[::1]")
MOST_BYTES = 32 * 1024 * 1024  # bytes of a message of a page: a selection of all vertices fits
_SAFE = {
    "Content-Security-Policy": "default-src 'self'; style-src 'self' 'unsafe-inline'; "
    "img-src 'self' data: blob:; connect-src 'self' ws:; worker-src 'self' blob:; frame-ancestors 'none'",
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cache-Control": "no-store",
}


def create_app(session: Session, *, token: str, hosts: Sequence[str] = LOCAL) -> Starlette:
    """Return the web application of a session.

    Parameters
    ----------
    session : Session
        The session, which the application closes when it ends.
    token : str
        The secret without which nothing is served.
    hosts : sequence of str
        The names under which pages may reach the server, without ports.

    Returns
    -------
    Starlette
        The application; its `state.hub` is the `Hub` while it runs.
    """
    hub: list[Hub] = []

    @asynccontextmanager
    async def lifespan(app: Starlette) -> AsyncIterator[None]:
        app.state.hub = Hub(session)
        hub.append(app.state.hub)
        try:
            yield
        finally:
            await asyncio.to_thread(hub.pop().close)

    async def page(request: Request) -> Response:
        if not _same(request.query_params.get("token", ""), token):
            return PlainTextResponse("Open the address that `pointglue studio` has printed.", 403, _SAFE)
        return FileResponse(STATIC / "index.html", headers=_SAFE)

    async def socket(websocket: WebSocket) -> None:
        origin = websocket.headers.get("origin", "")
        host = websocket.headers.get("host", "")
        known = _same(websocket.query_params.get("token", ""), token)
        if not known or not _allowed(host, hosts) or origin not in (f"http://{host}", f"https://{host}"):
            await websocket.close(1008)
            return
        await websocket.accept()
        await _talk(websocket, hub[0])

    routes = [Route("/", page), WebSocketRoute("/socket", socket)]
    if (STATIC / "assets").is_dir():
        routes.append(Mount("/assets", _Assets(directory=STATIC / "assets")))
    app = Starlette(routes=routes, lifespan=lifespan)
    app.add_middleware(_OnlyKnownHosts, hosts=hosts)
    return app


class _Assets(StaticFiles):
    """The scripts and styles of the page."""

    def file_response(self, *arguments: Any, **options: Any) -> Response:
        """Return a file with the headers of all answers."""
        response = super().file_response(*arguments, **options)
        response.headers.update(_SAFE)
        return response


class _OnlyKnownHosts:
    """Refuses requests under other names, as of a foreign page whose name leads to this machine."""

    def __init__(self, app: Any, hosts: Sequence[str]) -> None:
        self.app, self.hosts = app, hosts

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] == "http":
            host = dict(scope["headers"]).get(b"host", b"").decode("latin-1")
            if not _allowed(host, self.hosts):
                await PlainTextResponse("This name is not known here.", 421)(scope, receive, send)
                return
        await self.app(scope, receive, send)


async def _talk(websocket: WebSocket, hub: Hub) -> None:
    """Serve one page until it leaves."""
    page = Page(asyncio.get_running_loop())
    hub.pages.add(page)
    sender = asyncio.create_task(_send(websocket, hub, page))
    try:
        while True:
            message = await websocket.receive()
            if message["type"] == "websocket.disconnect":
                break
            hub.receive(page, message.get("text") or message.get("bytes") or "")
    except (WebSocketDisconnect, RuntimeError):
        pass
    finally:
        hub.left(page)
        sender.cancel()
        await asyncio.gather(sender, return_exceptions=True)


async def _send(websocket: WebSocket, hub: Hub, page: Page) -> None:
    """Send replies and updates to a page as they come."""
    while True:
        await page.wake.wait()
        page.wake.clear()
        while page.outbox:
            await websocket.send_text(page.outbox.popleft())
        update = hub.update(page)
        if update is not None:
            await websocket.send_bytes(update)


def _same(given: str, token: str) -> bool:
    """Return whether a token is right, in a time that says nothing about it."""
    return secrets.compare_digest(given.encode(), token.encode())


def _allowed(host: str, hosts: Sequence[str]) -> bool:
    """Return whether a host, with or without a port, is one of the known ones."""
    name = host.rsplit(":", 1)[0] if host.rpartition(":")[2].isdecimal() else host
    return name.lower() in hosts


def serve(
    start: Path | None = None,
    *,
    host: str = "127.0.0.1",
    port: int = 0,
    browser: bool = True,
    token: str = "",
) -> None:
    """Serve the studio until Ctrl-C, and print its address.

    The working directory is the current one, or that of `start` if it is elsewhere.

    Parameters
    ----------
    start : Path, optional
        A mesh, a scene file or the folder of a run to open.
    host : str, default "127.0.0.1"
        The address to listen to.
    port : int, default 0
        The port to listen to, 0 for any that is free.
    browser : bool, default True
        Whether the page is opened in a browser.
    token : str, default ""
        The secret of the address, drawn at random if it is empty.

    Raises
    ------
    InputError
        If the page has not been built, `start` does not exist, or `host` is no address of a machine.
    """
    if not (STATIC / "index.html").is_file():
        raise InputError(
            "the page of the studio has not been built: install pointglue from a wheel, "
            "or in a checkout run npm ci and npm run build in studio-client"
        )
    if host in ("0.0.0.0", "::"):
        raise InputError(f"host must be the address that others reach this machine by, got {host!r}")
    if start is not None and not start.exists():
        raise InputError(f"{start}: no such file")
    root = Path.cwd()
    if start is not None and root not in start.resolve().parents and root != start.resolve():
        root = start.resolve().parent
    token = token or secrets.token_urlsafe(24)
    hosts = LOCAL if host in ("127.0.0.1", "localhost", "::1") else (*LOCAL, host.lower())
    app = create_app(Session(root, start), token=token, hosts=hosts)
    server = _Server(
        configuration(app, host, port), f"http://{host if ':' not in host else f'[{host}]'}", token, browser
    )
    server.run()


def configuration(app: Starlette, host: str, port: int) -> uvicorn.Config:
    """Return the settings of the server: no compression, which would take longer than all else.

    Parameters
    ----------
    app : Starlette
        The application.
    host : str
        The address to listen to.
    port : int
        The port to listen to, 0 for any that is free.

    Returns
    -------
    uvicorn.Config
        The settings.
    """
    return uvicorn.Config(
        app,
        host=host,
        port=port,
        log_level="warning",
        ws_max_size=MOST_BYTES,
        ws_per_message_deflate=False,
        timeout_graceful_shutdown=2,
    )


class _Server(uvicorn.Server):
    """A server that prints its address once it listens."""

    def __init__(self, config: uvicorn.Config, address: str, token: str, browser: bool) -> None:
        super().__init__(config)
        self._address, self._token, self._browser = address, token, browser

    async def startup(self, sockets: Any = None) -> None:
        """Listen, then print the address."""
        await super().startup(sockets)
        if not self.started:
            return
        port = self.servers[0].sockets[0].getsockname()[1]
        url = f"{self._address}:{port}/?token={self._token}"
        print(f"pointglue studio: {url}\n(Ctrl-C ends it)", flush=True)
        if self._browser:
            webbrowser.open(url)
