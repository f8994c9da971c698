"""A subscriber to play with: prints every event it gets. Usage: python docs/listen.py PORT"""

import sys
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer


class Listener(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers.get("content-length", 0)))
        attributes = {name[3:]: value for name, value in self.headers.items() if name.lower().startswith("ce-")}
        sys.stdout.write(f"{attributes.get('type')} {attributes.get('id')}: {body.decode(errors='replace')}\n")
        sys.stdout.flush()
        self.send_response(200)
        self.send_header("content-length", "0")
        self.end_headers()

    def log_message(self, *_: object) -> None:
        """Nothing: the events are the output."""


class Server(ThreadingHTTPServer):
    request_queue_size = (
        256  # a backlog comes over many connections at once; with Python's 5, most would wait for seconds
    )


if __name__ == "__main__":
    port = int(sys.argv[1]) if len(sys.argv) > 1 else 3000
    sys.stdout.write(f"listening on http://127.0.0.1:{port}/\n")
    sys.stdout.flush()
    Server(("127.0.0.1", port), Listener).serve_forever()
