"""Whom a dashboard and all that it starts speak to: every look-up, connection and socket is noted."""

import json
import threading
from collections.abc import Mapping
from ipaddress import ip_address
from pathlib import Path

import psutil

from runner.environment import in_container
from runner.load.targets import DOCKER_HOST

# put before all of our processes: notes each name that is looked up and each address that is connected to or sent to
LISTENER = """
import json, os, sys

def note(event, args):
    if event in ("socket.connect", "socket.sendto", "socket.sendmsg", "socket.getaddrinfo", "socket.gethostbyname"):
        where = args[0] if event.startswith("socket.get") else args[1]
        line = json.dumps([event, where if isinstance(where, (str, list, tuple)) else repr(where)], default=repr)
        fd = os.open(os.environ["NOTES"], os.O_WRONLY | os.O_APPEND | os.O_CREAT)
        os.write(fd, line.encode() + b"\\n")
        os.close(fd)

sys.addaudithook(note)
"""


def listened(folder: Path) -> dict[str, str]:
    """The environment of a Python process that is to note all it asks for."""
    folder.mkdir()
    (folder / "sitecustomize.py").write_text(LISTENER, encoding="utf-8")
    return {"PYTHONPATH": str(folder), "NOTES": str(folder / "notes")}


def asked(environment: Mapping[str, str]) -> list[tuple[str, object]]:
    """(event, whom) of all that was noted."""
    return [tuple(json.loads(line)) for line in Path(environment["NOTES"]).read_text(encoding="utf-8").splitlines()]


class Sockets(threading.Thread):
    """Looks again and again at every internet socket of a process and of all that it started, also by other languages
    than Python. `foreign`: addresses of other machines that were seen."""

    def __init__(self, data_dir: Path) -> None:
        super().__init__(daemon=True)
        self._data_dir = str(data_dir)
        self.foreign: set[str] = set()
        self.seen = 0
        self.ended = threading.Event()

    def run(self) -> None:
        while not self.ended.wait(0.25):
            for process in processes_of(self._data_dir):
                self._look(process)

    def _look(self, process: psutil.Process) -> None:
        try:
            for one in (process, *process.children(recursive=True)):
                for connection in one.net_connections(kind="inet"):
                    self.seen += 1
                    if connection.raddr and not ip_address(connection.raddr.ip).is_loopback:
                        self.foreign.add(f"{one.name()}: {connection.raddr}")
        except psutil.Error:
            pass  # it has ended


def processes_of(data_dir: str) -> list[psutil.Process]:
    """The dashboard and the worker of a data folder."""
    return [p for p in psutil.process_iter(["cmdline"]) if data_dir in (p.info["cmdline"] or [])]


def is_here(where: object) -> bool:
    """True for loopback, this machine's name, local sockets, and nothing at all; in a container for its host."""
    host = where[0] if isinstance(where, list) and where else where
    if host == DOCKER_HOST:
        return in_container()
    if host in (None, "", "None", "localhost") or str(host).startswith(("/", "\x00")):
        return True
    try:
        return ip_address(str(host).partition("%")[0]).is_loopback or str(host) in ("0.0.0.0", "::")
    except ValueError:
        return False
