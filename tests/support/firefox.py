"""A real Firefox for tests, spoken to over WebDriver BiDi: it needs nothing beside Debian's firefox-esr.

`Firefox` has the few methods that a test uses of Playwright's Page, under the same names, so that one test can drive
both browsers. See https://w3c.github.io/webdriver-bidi/.
"""

import json
import os
import re
import shutil
import subprocess
import tempfile
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from websockets.sync.client import ClientConnection, connect

FIREFOX = shutil.which("firefox-esr") or shutil.which("firefox")
MARKS = [
    pytest.mark.browser,
    pytest.mark.skipif(FIREFOX is None and not os.environ.get("CI"), reason="no Firefox here"),
]
PATIENCE_S = 120.0
# everything goes to a proxy that is not there: this browser has no net
PREFERENCES = {
    "network.proxy.type": 1,
    "network.proxy.http": "127.0.0.1",
    "network.proxy.http_port": 9,
    "network.proxy.ssl": "127.0.0.1",
    "network.proxy.ssl_port": 9,
    "network.proxy.no_proxies_on": "",
    "network.proxy.allow_hijacking_localhost": True,
    "network.captive-portal-service.enabled": False,
    "network.connectivity-service.enabled": False,
    "datareporting.policy.dataSubmissionEnabled": False,
    "browser.shell.checkDefaultBrowser": False,
    "intl.accept_languages": "en-US",
}
KEYS = {"ArrowLeft": "\ue012", "ArrowRight": "\ue014", "Home": "\ue011", "End": "\ue010"}
# what a page does against its own policy is told to the page alone
LISTEN = """() => {
    window.refused = [];
    document.addEventListener("securitypolicyviolation", (e) => refused.push(`${e.violatedDirective} ${e.blockedURI}`));
}"""


class Firefox:
    """The one window of a running Firefox. `asked`: addresses it asked for; `said`: errors and console lines."""

    def __init__(self, socket: ClientConnection) -> None:
        self._socket = socket
        self._calls = 0
        self.asked: list[str] = []
        self.said: list[str] = []
        self.call("session.new", capabilities={})
        self.call("session.subscribe", events=["log.entryAdded", "network.beforeRequestSent"])
        self.call("script.addPreloadScript", functionDeclaration=LISTEN)
        self._tab = self.call("browsingContext.getTree")["contexts"][0]["context"]

    def call(self, method: str, **parameters: Any) -> dict[str, Any]:  # noqa: ANN401  (any JSON)
        """One command; its result. What happens meanwhile is noted."""
        self._calls += 1
        self._socket.send(json.dumps({"id": self._calls, "method": method, "params": parameters}))
        while True:
            told = json.loads(self._socket.recv(timeout=PATIENCE_S))
            if told["type"] == "event":
                self._note(told["method"], told["params"])
            elif told.get("id") == self._calls:
                assert told["type"] == "success", told
                result: dict[str, Any] = told["result"]
                return result

    def _note(self, event: str, told: dict[str, Any]) -> None:
        if event == "network.beforeRequestSent":
            self.asked.append(told["request"]["url"])
        else:
            self.said.append(str(told["text"]))

    def goto(self, url: str) -> None:
        self.call("browsingContext.navigate", context=self._tab, url=url, wait="complete")

    def set_viewport_size(self, size: dict[str, int]) -> None:
        self.call("browsingContext.setViewport", context=self._tab, viewport=size)

    def evaluate(self, function: str, arg: object = None) -> Any:  # noqa: ANN401  (any JSON)
        """What a function of the page's own language says of `arg`."""
        told = self.call(
            "script.evaluate",
            expression=f"(async () => JSON.stringify(await ({function})({json.dumps(arg)})) ?? 'null')()",
            target={"context": self._tab},
            awaitPromise=True,
        )
        assert told["type"] == "success", told["exceptionDetails"]["text"]
        return json.loads(told["result"]["value"])

    def press(self, selector: str, key: str) -> None:
        """A real press of a key, with the element in focus."""
        self.evaluate("(selector) => document.querySelector(selector).focus()", selector)
        strokes = [{"type": kind, "value": KEYS[key]} for kind in ("keyDown", "keyUp")]
        keyboard = {"type": "key", "id": "keyboard", "actions": strokes}
        self.call("input.performActions", context=self._tab, actions=[keyboard])


@contextmanager
def firefox() -> Iterator[Firefox]:
    """One running browser with a profile of its own, offline. Its start takes some seconds: share it within a file."""
    assert FIREFOX, "CI must have a Firefox: the shared page is checked in it"
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as home:
        lines = [f"user_pref({json.dumps(k)}, {json.dumps(v)});\n" for k, v in PREFERENCES.items()]
        (Path(home) / "user.js").write_text("".join(lines), encoding="utf-8")
        process = subprocess.Popen(
            [FIREFOX, "--headless", "--new-instance", "--remote-debugging-port=0", "--profile", home],
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            text=True,
            env={**os.environ, "HOME": home, "MOZ_CRASHREPORTER_DISABLE": "1"},
        )
        try:
            address = _address(process)
            with connect(f"{address}/session", max_size=None, proxy=None) as socket:
                yield Firefox(socket)
        finally:
            process.terminate()
            process.wait(30)


def _address(process: subprocess.Popen[str]) -> str:
    """Where it listens, as it says itself; what more it says is read away."""
    assert process.stderr is not None
    told = (re.search(r"WebDriver BiDi listening on (ws://\S+)", line) for line in process.stderr)
    found = next((m for m in told if m), None)
    assert found, "Firefox ended before it listened"
    threading.Thread(target=process.stderr.read, daemon=True).start()
    return found[1].rstrip("/")
