#!/usr/bin/env python3
"""An OpenAI-like server that loads its model at its first request and does not say so. Usage: PORT S …"""

import json
import sys
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

PORT, LOAD_S = int(sys.argv[1]), float(sys.argv[2])
COLD_PROMPT_TOKENS = 7777  # what the request that waited for the model is told, so that it is known again


def chunks(prompt_tokens: int) -> list[dict[str, object]]:
    return [
        {"choices": [{"index": 0, "delta": {"content": "hello"}, "finish_reason": "stop"}]},
        {"choices": [], "usage": {"prompt_tokens": prompt_tokens, "completion_tokens": 1}},
    ]


class Handler(BaseHTTPRequestHandler):
    loaded = False

    def do_GET(self) -> None:
        known = self.path == "/v1/models"
        self.answer(200 if known else 404, json.dumps({"data": [{"id": "m", "owned_by": "me"}]} if known else {}))

    def do_POST(self) -> None:
        self.rfile.read(int(self.headers["Content-Length"]))
        told = chunks(4 if Handler.loaded else COLD_PROMPT_TOKENS)
        if not Handler.loaded:
            time.sleep(LOAD_S)  # the model load itself
            Handler.loaded = True
        self.answer(200, "".join(f"data: {json.dumps(chunk)}\n\n" for chunk in told) + "data: [DONE]\n\n")

    def answer(self, status: int, body: str) -> None:
        self.send_response(status)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body.encode())

    def log_message(self, format: str, *args: object) -> None:
        pass


ThreadingHTTPServer(("127.0.0.1", PORT), Handler).serve_forever()
