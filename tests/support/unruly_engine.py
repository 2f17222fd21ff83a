#!/usr/bin/env python3
"""A server of streamed chats that misbehaves as its setting says, for tests of sweeps. Standard library only.

    unruly_engine.py --port N --behaviour NAME --memory FILE

NAME: good | oom | flag | killed (it does not start) | never_ready | crash_at_once (at the first chat)
| crash | crash_once | hang_once | leave (after some chats; the last one in order, with all that it took answered).
FILE remembers the starts of this behaviour, so that something happens once only.
"""

import argparse
import json
import os
import select
import sys
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

MEASURED_TOKENS = 8
CHATS = 4

parser = argparse.ArgumentParser()
parser.add_argument("--port", type=int, required=True)
parser.add_argument("--behaviour", required=True)
parser.add_argument("--memory", type=Path, required=True)
flags = parser.parse_args()
memory = flags.memory.with_name(f"{flags.memory.name}.{flags.behaviour}")
starts = len(memory.read_text()) + 1 if memory.exists() else 1
memory.write_text("x" * starts)
chats = 0

LAST_WORDS = {
    "oom": ("ggml_metal: error: Insufficient Memory (kIOGPUCommandBufferCallbackErrorOutOfMemory)", 1),
    "flag": ("error: invalid argument: --behaviour", 2),
    "killed": ("loading the model", 137),
}


class Handler(BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        listing = {"object": "list", "data": [{"id": "m", "owned_by": "x"}]}
        known = {"/health": "{}", "/v1/models": json.dumps(listing)}
        self.answer(200 if self.path in known else 404, known.get(self.path, "{}"))

    def do_POST(self) -> None:
        global chats
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        chats += MEASURED_TOKENS in (body.get("max_tokens"), body.get("max_completion_tokens"))
        dies = flags.behaviour == "crash" or (flags.behaviour == "crash_once" and starts == 1)
        if flags.behaviour == "crash_at_once" or (chats > CHATS and dies):
            print("GGML_ASSERT(n_tokens <= n_batch) failed", flush=True)
            os._exit(7)
        if chats > CHATS and flags.behaviour == "hang_once" and starts == 1:
            time.sleep(600)
        chunks = [{"choices": [{"index": 0, "delta": {"content": f"w{n}"}}]} for n in range(MEASURED_TOKENS)]
        usage = {"prompt_tokens": 16, "completion_tokens": MEASURED_TOKENS}
        last = {"choices": [{"index": 0, "delta": {}, "finish_reason": "length"}], "usage": usage}
        lines = [f"data: {json.dumps(c)}\n\n" for c in (*chunks, last)]
        self.answer(200, "".join([*lines, "data: [DONE]\n\n"]), "text/event-stream")
        if chats > CHATS and flags.behaviour == "leave":
            threading.Thread(target=server.shutdown).start()

    def answer(self, status: int, body: str, kind: str = "application/json") -> None:
        self.send_response(status)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body.encode())

    def log_message(self, *_: object) -> None:
        pass


if flags.behaviour in LAST_WORDS:
    words, code = LAST_WORDS[flags.behaviour]
    print(words, flush=True)
    sys.exit(code)
if flags.behaviour == "never_ready":
    time.sleep(600)
server = ThreadingHTTPServer(("127.0.0.1", flags.port), Handler)
server.daemon_threads = False
server.serve_forever(poll_interval=0.02)
while select.select([server.socket], [], [], 0)[0]:
    server.handle_request()
server.server_close()
