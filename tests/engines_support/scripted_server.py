#!/usr/bin/env python3
"""An engine that misbehaves as told, for tests of start and end. Standard library only.

    scripted_server.py --port N [--unready-asks N] [--ignore-term] [--child] [--die-after-asks N] [--say TEXT] …

/health says 503 for the first N asks, /v1/models always 200, /asked how often /health was asked, /pids its processes.
A chat is answered with the same three words.
"""

import argparse
import json
import os
import signal
import subprocess
import sys
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

parser = argparse.ArgumentParser(allow_abbrev=False)
parser.add_argument("--port", type=int, required=True)
parser.add_argument("--unready-asks", type=int, default=0)
parser.add_argument("--ignore-term", action="store_true")
parser.add_argument("--child", action="store_true", help="start a child that ignores TERM")
parser.add_argument("--die-after-asks", type=int)
parser.add_argument("--say", default="")
parser.add_argument("--exit", type=int)
parser.add_argument("--no-port", action="store_true", help="live, but listen nowhere")
flags = parser.parse_args()
asked = 0
pids = [os.getpid()]


class Handler(BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        global asked
        if self.path == "/asked":
            self.answer(200, asked)
        elif self.path == "/pids":
            self.answer(200, pids)
        elif self.path == "/v1/models":
            self.answer(200, {"data": [{"id": "m"}]})
        elif self.path == "/health":
            asked += 1
            if flags.die_after_asks is not None and asked > flags.die_after_asks:
                print("fatal: lost the GPU", flush=True)
                os._exit(7)
            self.answer(503 if asked <= flags.unready_asks else 200, {})
        else:
            self.answer(404, {})

    def do_POST(self) -> None:
        """Any chat is answered at once with three words."""
        self.rfile.read(int(self.headers["Content-Length"]))
        choices = [
            {"index": 0, "delta": {"content": word}, "finish_reason": None} for word in ("one", " two", " three")
        ]
        usage = {"prompt_tokens": 8, "completion_tokens": 3}
        last = {"choices": [{"index": 0, "delta": {}, "finish_reason": "stop"}], "usage": usage}
        events = [json.dumps(e) for e in (*({"choices": [c]} for c in choices), last)]
        self.send("".join(f"data: {e}\n\n" for e in (*events, "[DONE]")).encode(), 200)

    def answer(self, status: int, body: object) -> None:
        self.send(json.dumps(body).encode(), status)

    def send(self, data: bytes, status: int) -> None:
        self.send_response(status)
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def log_message(self, *_: object) -> None:
        pass


if flags.ignore_term:
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
if flags.child:
    code = "import signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN); time.sleep(600)"
    pids.append(subprocess.Popen([sys.executable, "-c", code]).pid)
if flags.say:
    print(flags.say, flush=True)
if flags.exit is not None:
    sys.exit(flags.exit)
if flags.no_port:
    time.sleep(600)
ThreadingHTTPServer(("127.0.0.1", flags.port), Handler).serve_forever()
