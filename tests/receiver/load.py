"""Senders that keep a receiver busy and remember every answer."""

import threading
from collections import Counter

from tests.receiver.running import EVENT, Receiver, read_answer


class Load:
    """Threads that each send one event after the other on a connection of their own, until they are stopped."""

    def __init__(self, receiver: Receiver, path: str, senders: int = 8, body: bytes = b"{}") -> None:
        self.sent: set[str] = set()
        self.accepted: set[str] = set()
        self.codes: Counter[int] = Counter()
        self.unanswered: list[str] = []  # sent on a connection that was open, and no answer came
        self._receiver = receiver
        self._path = path
        self._body = body
        self._stopping = threading.Event()
        self._threads = [threading.Thread(target=self._send, args=(n,), daemon=True) for n in range(senders)]

    def start(self) -> "Load":
        for thread in self._threads:
            thread.start()
        return self

    def stop(self) -> "Load":
        self._stopping.set()
        for thread in self._threads:
            thread.join(30)
        return self

    def _send(self, sender: int) -> None:
        number = 0
        while not self._stopping.is_set():
            try:
                with self._receiver.connect() as connection:
                    closing = False
                    while not closing and not self._stopping.is_set():
                        number += 1
                        name = f"{sender}-{number}"
                        self.sent.add(name)
                        connection.sendall(self._request(name))
                        try:
                            answer = read_answer(connection)
                        except OSError:
                            self.unanswered.append(name)
                            break
                        self.codes[answer.status] += 1
                        if answer.status == 202:
                            self.accepted.add(name)
                        else:
                            self._stopping.wait(0.02)  # or it would take the cores that Kafka needs to come back
                        closing = answer.headers.get("connection") == "close"
            except OSError:
                self._stopping.wait(0.05)  # not accepting: nothing was promised

    def _request(self, name: str) -> bytes:
        head = "".join(f"{key}: {value}\r\n" for key, value in {**EVENT, "ce-id": name}.items())
        head = f"POST {self._path} HTTP/1.1\r\nHost: h\r\n{head}Content-Length: {len(self._body)}\r\n\r\n"
        return head.encode() + self._body
