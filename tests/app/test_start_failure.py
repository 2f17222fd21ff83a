"""What keeps the dashboard from starting is told: in a sentence, and in a container as a page too."""

import os
import subprocess
import sys
import tempfile
import threading
from pathlib import Path

import httpx
import pytest

from app import start_failure
from app.start_failure import make_server, show_in_container
from storage.data_folder import open_data_folder

ROOT = Path(__file__).parents[2]
REFUSED = """
import sys
import runner.start_check as check
check.cpu_refusal = lambda *a, quick: "this processor cannot run numpy" + (" (quick)" if quick else "")
sys.argv = ["goodput", *sys.argv[1:]]
from app.entry import main
sys.exit(main())
"""


@pytest.mark.parametrize(
    ("words", "told"), [(["list"], "numpy (quick)"), (["runner"], "numpy"), (["--port", "0"], "numpy")]
)
def test_a_processor_that_cannot_is_one_sentence_and_exit_code_1(words: list[str], told: str) -> None:
    """Nothing of ours is loaded before; only what runs long is worth a try on an old processor."""
    nowhere = {**os.environ, "GOODPUT_PORT": "none"}  # no page is shown, should this be a container
    command = [sys.executable, "-c", REFUSED, *words]
    done = subprocess.run(command, cwd=ROOT, env=nowhere, capture_output=True, text=True, timeout=60, check=False)
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr == f"goodput: this processor cannot run {told}\n"


def test_the_page_says_why_under_every_address() -> None:
    """As text, with a status that no health check takes for well."""
    with make_server("no <b>room</b>", "127.0.0.1", 0) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        for path in ("/", "/healthz", "/new"):
            answer = httpx.get(f"http://127.0.0.1:{server.server_port}{path}", trust_env=False)
            assert answer.status_code == 503
            assert "no &lt;b&gt;room&lt;/b&gt;" in answer.text
        server.shutdown()


def test_outside_a_container_it_just_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    """On a terminal the sentence is enough; no port is opened."""
    monkeypatch.setattr("runner.environment.in_container", lambda: False)
    monkeypatch.setattr(start_failure, "make_server", None)
    show_in_container("why")


def test_a_folder_of_somebody_else_names_both_users() -> None:
    """The usual trouble of a mounted folder: who may not write, whose it is, and what to do."""
    who = os.getuid() or 12345
    with tempfile.TemporaryDirectory() as theirs:
        os.chmod(theirs, 0o555)
        owner = os.stat(theirs)
        read, write = os.pipe()
        if (child := os.fork()) == 0:
            try:
                if os.getuid() == 0:
                    os.setgid(who)
                    os.setuid(who)
                open_data_folder(Path(theirs))
            except BaseException as e:
                os.write(write, str(e).encode())
            os._exit(0)
        os.close(write)
        with os.fdopen(read) as pipe:
            told = pipe.read()
        os.waitpid(child, 0)
        assert told.startswith(f"{theirs}: cannot be written by user {who}:")
        assert f"{theirs} belongs to {owner.st_uid}:{owner.st_gid}" in told
        assert f"chown -R {who}:" in told
