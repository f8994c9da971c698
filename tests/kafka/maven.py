"""A tiny Maven repository on loopback, for tests of the download: files by path, and a list of what was asked."""

import hashlib
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

from penstock.kafka.jars import Jar


class Maven:
    def __init__(self) -> None:
        self.files: dict[str, bytes] = {}
        self.downloads: list[str] = []
        maven = self

        class Handler(BaseHTTPRequestHandler):
            def do_HEAD(self) -> None:
                self._answer(with_body=False)

            def do_GET(self) -> None:
                self._answer(with_body=True)

            def _answer(self, *, with_body: bool) -> None:
                body = maven.files.get(self.path)
                self.send_response(404 if body is None else 200)
                self.send_header("Content-Length", str(len(body or b"")))
                self.end_headers()
                if with_body and body is not None:
                    maven.downloads.append(self.path)
                    self.wfile.write(body)

            def log_message(self, format: str, *args: object) -> None:
                pass

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.05,), daemon=True)
        self._thread.start()

    @property
    def root(self) -> str:
        return f"http://127.0.0.1:{self._server.server_address[1]}/"

    def publish(self, jar: Jar, content: bytes) -> None:
        self.files[path_of(jar)] = content

    def stop(self) -> None:
        self._server.shutdown()
        self._server.server_close()


def path_of(jar: Jar) -> str:
    return f"/{jar.organisation.replace('.', '/')}/{jar.name}/{jar.version}/{jar.file_name}"


def jar_of(name: str, content: bytes) -> Jar:
    return Jar("org.example", name, "1.0", len(content), hashlib.sha256(content).hexdigest())
