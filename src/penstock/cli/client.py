"""The command line's way to the admin API: one keep-alive connection, errors as ours.

In: the server's URL. Out: JSON. Used by every command that needs a running system.
"""

import http.client
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from penstock.access.tokens import authorization
from penstock.cli.credentials import token_for
from penstock.control.kinds import Kind, Resource
from penstock.errors import Misconfigured, PenstockError, Rejected, Unavailable
from penstock.visible import visible_message

TIMEOUT_SECONDS = 30.0


class NotFound(Rejected):
    """The server knows no such thing."""


class Unauthorized(Rejected):
    """The server requires a token, and got none or a wrong one."""


class Client:
    def __init__(
        self, server: str, timeout_seconds: float = TIMEOUT_SECONDS, *, data_dir: Path | None = None
    ) -> None:
        """``data_dir``: where its token may be; by default from the environment."""
        parts = urlsplit(server if "://" in server else f"http://{server}")
        try:
            port = parts.port or (443 if parts.scheme == "https" else 80)
        except ValueError:  # not a number, or out of range
            port = 0
        if parts.scheme not in ("http", "https") or not parts.hostname or not port:
            raise Misconfigured(f"the server's address {server} is not an http URL", hint="http://127.0.0.1:8090")
        self.server = f"{parts.scheme}://{parts.netloc}"
        self._connection = self._connect(timeout_seconds)
        self._headers = {"Content-Type": "application/json"}
        token = token_for(parts.hostname, port, data_dir)
        if token is not None:
            self._headers["Authorization"] = authorization(token)

    def _connect(self, timeout_seconds: float | None = None) -> http.client.HTTPConnection:
        parts = urlsplit(self.server)
        if parts.scheme == "https":
            return http.client.HTTPSConnection(parts.hostname or "", parts.port or 443, timeout=timeout_seconds)
        return http.client.HTTPConnection(parts.hostname or "", parts.port or 80, timeout=timeout_seconds)

    def get(self, path: str) -> Any:
        return self._call("GET", path)[0]

    def text(self, path: str) -> str:
        """An answer that is not JSON, such as metrics."""
        return self._raw("GET", path)[1].decode(errors="replace")

    def listing(self, kind: Kind, namespace: str | None) -> list[Resource]:
        return list(self.get(_collection(kind, namespace))["items"])

    def one(self, kind: Kind, namespace: str, name: str) -> Resource:
        return dict(self.get(f"{_collection(kind, namespace)}/{name}"))

    def apply(self, kind: Kind, resource: Resource, *, dry_run: bool = False) -> tuple[Resource, str]:
        """The stored object, and created, configured or unchanged; in a dry run what it would be."""
        path = _collection(kind, resource["metadata"]["namespace"]) + ("?dryRun=All" if dry_run else "")
        stored, headers = self._call("POST", path, resource)
        return stored, headers.get("penstock-verdict", "configured")

    def delete(self, kind: Kind, namespace: str, name: str) -> Resource:
        return dict(self._call("DELETE", f"{_collection(kind, namespace)}/{name}")[0])

    def dependents(self, kind: Kind, namespace: str, name: str) -> list[dict[str, str]]:
        """Who loses something when it goes."""
        return list(self.get(f"/api/penstock/dependents/{namespace}/{name}?kind={kind.name}")["dependents"])

    def lag(self, kind: Kind, namespace: str, name: str) -> dict[str, Any]:
        return dict(self.get(f"/api/penstock/lag/{namespace}/{name}?kind={kind.name}"))

    def post(self, path: str, body: Any) -> Any:
        return self._call("POST", path, body)[0]

    def watch(self, kind: Kind, namespace: str | None) -> Iterator[dict[str, Any]]:
        """Changes as they come, the present objects first; ends when the server does."""
        connection = self._connect()
        try:
            connection.request("GET", _collection(kind, namespace) + "?watch=1", headers=self._headers)
            response = connection.getresponse()
            if response.status != http.client.OK:
                raise _explained(response.status, response.read())
            for line in response:
                yield json.loads(line)
        except (OSError, http.client.HTTPException) as error:
            raise self._unreachable(error) from error
        finally:
            connection.close()

    def lines(self, path: str, body: Any = None) -> Iterator[bytes]:
        """The lines of an answer as they come; whoever stops reading ends what the server does for them."""
        connection = self._connect()
        try:
            payload = None if body is None else json.dumps(body).encode()
            connection.request("GET" if body is None else "POST", path, payload, self._headers)
            response = connection.getresponse()
            if response.status != http.client.OK:
                raise _explained(response.status, response.read())
            yield from response
        except (OSError, http.client.HTTPException) as error:
            raise self._unreachable(error) from error
        finally:
            connection.close()

    def _raw(self, method: str, path: str, body: Any = None) -> tuple[dict[str, str], bytes]:
        try:
            status, headers, raw = self._exchange(method, path, body)
        except (OSError, http.client.HTTPException) as error:
            self._connection.close()
            raise self._unreachable(error) from error
        if status >= http.client.BAD_REQUEST:
            raise _explained(status, raw)
        return headers, raw

    def _call(self, method: str, path: str, body: Any = None) -> tuple[Any, dict[str, str]]:
        headers, raw = self._raw(method, path, body)
        try:
            return json.loads(raw), headers
        except ValueError:
            what = f"{self.server} answered, but not as Penstock's admin API does"
            raise Misconfigured(what, hint="--server or PENSTOCK_SERVER names the right address") from None

    def _exchange(self, method: str, path: str, body: Any) -> tuple[int, dict[str, str], bytes]:
        payload = None if body is None else json.dumps(body).encode()
        try:
            self._connection.request(method, path, payload, self._headers)
            response = self._connection.getresponse()
        except (http.client.RemoteDisconnected, BrokenPipeError, ConnectionResetError):
            # The server may close an idle connection at any time. Every call here can be repeated.
            self._connection.close()
            self._connection.request(method, path, payload, self._headers)
            response = self._connection.getresponse()
        return response.status, {k.lower(): v for k, v in response.getheaders()}, response.read()

    def _unreachable(self, error: Exception) -> Unavailable:
        why = error.strerror if isinstance(error, OSError) and error.strerror else str(error) or repr(error)
        return Unavailable(
            f"the server at {self.server} cannot be reached\n{why}",
            hint="`penstock up` starts one; --server or PENSTOCK_SERVER names another",
        )


def _collection(kind: Kind, namespace: str | None) -> str:
    inside = f"/namespaces/{namespace}" if namespace else ""
    return f"{kind.collection_path}{inside}/{kind.plural}"


def _explained(status: int, raw: bytes) -> PenstockError:
    """The server's refusal with its reasons, one line each."""
    try:
        answer = json.loads(raw)
        message, hint = str(answer["error"]), answer.get("hint")
        lines = [
            f"{p['field']}: {p['message']}" if p["field"] else p["message"] for p in answer.get("problems") or []
        ]
    except (ValueError, KeyError, TypeError):
        message, hint, lines = f"the server answered {status}: {raw[:200].decode(errors='replace')}", None, []
    text = "\n".join(visible_message(line) for line in [message, *lines])
    if status == http.client.UNAUTHORIZED:
        return Unauthorized(
            text, hint="--token-file FILE (PENSTOCK_TOKEN_FILE) names the file with the server's run/admin.token"
        )
    if status == http.client.NOT_FOUND:
        return NotFound(text, hint=hint)
    if status >= http.client.INTERNAL_SERVER_ERROR:
        return Unavailable(text, hint=hint)
    return Rejected(text, hint=hint)
