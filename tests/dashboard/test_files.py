"""What the browser is given: types, tags, sizes, headers, and nothing that is not there."""

import gzip
import http.client
from urllib.parse import urlsplit

from penstock.dashboard import files
from tests.conftest import System


def ask(system: System, path: str, **headers: str) -> tuple[int, dict[str, str], bytes]:
    connection = http.client.HTTPConnection(urlsplit(system.admin_url).netloc, timeout=10)
    connection.request("GET", path, headers={name.replace("_", "-"): value for name, value in headers.items()})
    answer = connection.getresponse()
    found = {name.lower(): value for name, value in answer.getheaders()}, answer.read()
    connection.close()
    return answer.status, *found


def test_everything_together_is_small() -> None:
    """Kept promise: the whole dashboard weighs less than 150 kB on the wire."""
    found = files.load()
    assert {"index.html", "app.js", "style.css", "pages/overview.js"} <= set(found)
    assert sum(len(each.packed) for each in found.values()) < files.LARGEST_IN_ALL
    for path, each in found.items():
        assert gzip.decompress(each.packed) == each.content, path


def test_files_come_with_type_tag_and_policy(penstock_up: System) -> None:
    """Kept promise: a browser runs nothing that is not ours, and asks again without loading again."""
    status, headers, body = ask(penstock_up, "/")
    assert (status, headers["content-type"]) == (200, "text/html; charset=utf-8")
    assert "default-src 'self'" in headers["content-security-policy"]
    assert "unsafe" not in headers["content-security-policy"]
    assert b"<script>" not in body
    status, headers, body = ask(penstock_up, "/static/app.js", accept_encoding="gzip")
    assert (status, headers["content-type"]) == (200, "text/javascript; charset=utf-8")
    assert (headers["cache-control"], headers["content-encoding"]) == ("no-cache", "gzip")
    assert gzip.decompress(body) == files.load()["app.js"].content
    status, again, body = ask(penstock_up, "/static/app.js", if_none_match=headers["etag"])
    assert (status, again["etag"], body) == (304, headers["etag"], b"")


def test_what_is_not_there_is_not_found(penstock_up: System) -> None:
    for path in ("/static/nothing.js", "/static/", "/static/../files.py", "/static/%2e%2e/files.py"):
        assert ask(penstock_up, path)[0] == 404, path
