"""A server in a thread of its own: fixed GET answers, and a function that answers each POST."""

import json
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread
from typing import Any

Json = dict[str, Any]
Reply = tuple[int, str]  # status, body


def chat_answer(text: str = "hello") -> str:
    choice = {"index": 0, "delta": {"content": text}, "finish_reason": "stop"}
    usage = {"prompt_tokens": 4, "completion_tokens": 1}
    return f"data: {json.dumps({'choices': [choice], 'usage': usage})}\n\ndata: [DONE]\n\n"


@contextmanager
def server(
    gets: Mapping[str, Json | str | Reply], post: Callable[[str, Json], Reply], banner: str = "test"
) -> Iterator[tuple[str, list[tuple[str, Json]]]]:
    """A server with these GET answers (404 for others) and a function for POSTs; gives its URL and the POSTs it got."""
    posts: list[tuple[str, Json]] = []

    class Handler(BaseHTTPRequestHandler):
        server_version, sys_version = banner, ""

        def do_GET(self) -> None:
            found = gets.get(self.path, (404, '{"detail": "no"}'))
            status, body = found if isinstance(found, tuple) else (200, found)
            self._answer(status, body if isinstance(body, str) else json.dumps(body))

        def do_POST(self) -> None:
            body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            posts.append((self.path, body))
            self._answer(*post(self.path, body))

        def _answer(self, status: int, body: str) -> None:
            self.send_response(status)
            self.send_header("Content-Length", str(len(body.encode())))
            self.end_headers()
            self.wfile.write(body.encode())

        def log_message(self, format: str, *args: object) -> None:
            pass

    http = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    Thread(target=http.serve_forever, args=(0.01,), daemon=True).start()
    try:
        yield f"http://127.0.0.1:{http.server_port}", posts
    finally:
        http.shutdown()
        http.server_close()


def models(owner: str, *names: str) -> Json:
    return {"object": "list", "data": [{"id": name, "owned_by": owner} for name in names]}
