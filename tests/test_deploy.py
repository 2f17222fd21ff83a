"""The recipes for containers and NAS boxes fit the program: what they copy exists, what they set is read."""

import os
import re
import shlex
import socket
import subprocess
import sys
import threading
import xml.etree.ElementTree as ET
from pathlib import Path

import pytest

from app.cli import parser
from app.start_failure import make_server

ROOT = Path(__file__).parent.parent
NAS = ROOT / "sample_data" / "nas"
DOCKERFILE = (ROOT / "Dockerfile").read_text(encoding="utf-8")
COMPOSE = (ROOT / "compose.yaml").read_text(encoding="utf-8")
CASAOS = (NAS / "casaos.yaml").read_text(encoding="utf-8")
UNRAID = (NAS / "unraid.xml").read_text(encoding="utf-8")
RECIPES = {"compose.yaml": COMPOSE, "casaos.yaml": CASAOS, "unraid.xml": UNRAID, "Dockerfile": DOCKERFILE}


def instructions() -> list[tuple[str, str]]:
    """(instruction, rest) of the Dockerfile, continued lines joined, comments left out."""
    text = re.sub(r"^#.*\n", "", DOCKERFILE, flags=re.M).replace("\\\n", " ")
    pairs = [line.split(None, 1) for line in text.splitlines() if line.strip()]
    return [(name, " ".join(rest.split())) for name, rest in pairs]


def rest_of(wanted: str) -> list[str]:
    return [rest for name, rest in instructions() if name == wanted]


def test_what_the_image_copies_exists_and_is_let_in() -> None:
    """Every source of a COPY from the build folder is there, and .dockerignore, which keeps out all else, names it."""
    let_in = re.findall(r"^!(\S+)$", (ROOT / ".dockerignore").read_text(), re.M)
    sources = [part for rest in rest_of("COPY") if "--from" not in rest for part in rest.split()[:-1]]
    assert set(sources) == set(let_in)
    assert [s for s in sources if not (ROOT / s).exists()] == []
    assert {"app", "runner", "storage", "sample_data"} <= set(sources)


def test_the_image_is_built_in_two_stages_from_a_pinned_slim_base() -> None:
    """The second stage takes only the finished folder; the Python is one that the project supports."""
    bases = [rest.split()[0] for rest in rest_of("FROM")]
    assert len(bases) == 2
    assert set(bases) == {"python:3.11-slim-bookworm"}
    assert [rest for rest in rest_of("COPY") if rest.startswith("--from=build ")]
    assert rest_of("ADD") == []


def test_every_install_is_held_to_the_tested_versions() -> None:
    """pip takes constraints.txt and wheels alone; apt keeps no lists and installs nothing that is only recommended."""
    runs = " ".join(rest_of("RUN"))
    for line in re.findall(r"pip [^&]*install[^&]*", runs):
        assert "-c constraints.txt" in line
    assert "--only-binary :all:" in runs
    for line in re.findall(r"apt-get install[^&]*", runs):
        assert "--no-install-recommends" in line
    assert "rm -rf /var/lib/apt/lists/*" in runs
    assert "sudo" not in runs


def test_it_runs_as_nobody_special_and_writes_to_data_alone() -> None:
    """No root; one volume that any user may write; an init that collects orphans; words in a log at once."""
    (user,) = rest_of("USER")
    assert re.fullmatch(r"[1-9]\d*:[1-9]\d*", user)
    assert rest_of("VOLUME") == ["/data"]
    assert "install -d -m 1777 /data" in DOCKERFILE
    assert rest_of("ENTRYPOINT") == ['["tini", "--", "goodput"]']
    assert "PYTHONUNBUFFERED=1" in DOCKERFILE
    for recipe in (COMPOSE, CASAOS):
        assert recipe.count("read_only: true") == recipe.count("tmpfs: [/tmp]") == 1
        assert "cap_drop: [ALL]" in recipe
        assert "no-new-privileges:true" in recipe


def test_the_commands_of_the_recipes_are_commands_of_the_program() -> None:
    """What follows `goodput` in the image and in compose.yaml is understood."""
    (default,) = rest_of("CMD")
    for words in (re.findall(r'"([^"]+)"', default), re.findall(r"command: \[(\w+)\]", COMPOSE)):
        assert words
        assert parser().parse_args(words)


@pytest.mark.parametrize("name", RECIPES)
def test_every_variable_of_a_recipe_is_read_by_the_program(name: str) -> None:
    """A misspelt variable would be ignored without a word."""
    sources = "".join(p.read_text(encoding="utf-8") for p in [*ROOT.glob("app/*.py"), *ROOT.rglob("storage/*.py")])
    sources += (ROOT / "runner/load/targets.py").read_text(encoding="utf-8")
    named = set(re.findall(r"GOODPUT_[A-Z_]+", RECIPES[name]))
    assert named
    assert {variable for variable in named if f'"{variable}"' not in sources} == set()


def test_the_health_check_is_well_only_while_the_dashboard_answers() -> None:
    """Its own line is run: exit code 0 for 200, another one for 503 and for nobody."""
    (check,) = [rest for rest in rest_of("HEALTHCHECK")]
    words = re.findall(r'"((?:[^"\\]|\\.)*)"', check[check.index("CMD [") :])
    assert words[:2] == ["python", "-c"]
    program = words[2].replace('\\"', '"')

    def run(port: int) -> int:
        environ = {**os.environ, "GOODPUT_PORT": str(port), "no_proxy": "127.0.0.1"}
        done = subprocess.run([sys.executable, "-c", program], env=environ, capture_output=True, check=False)
        return done.returncode

    with socket.create_server(("127.0.0.1", 0)) as quiet:
        port = quiet.getsockname()[1]
    assert run(port) != 0
    with make_server("why", "127.0.0.1", 0) as unwell:
        threading.Thread(target=unwell.serve_forever, daemon=True).start()
        assert run(unwell.server_port) != 0
        unwell.shutdown()
    assert "/healthz" in program


def test_dashboard_and_runner_share_image_and_folder() -> None:
    """Both services are the same image on the same data, the host is reachable by name from both, and pages yield."""
    both, _, services = COMPOSE.partition("services:\n")
    assert services.count("<<: *both") == 2
    assert "- goodput:/data" in both
    assert "host.docker.internal:host-gateway" in both
    assert re.search(r"dashboard:.*cpu_shares: \d+.*depends_on: \[runner\].*  runner:", services, re.S)
    assert "healthcheck: { disable: true }" in services


def test_the_unraid_template_is_well_formed_and_agrees_with_the_image() -> None:
    """Its port and folder are the image's."""
    root = ET.fromstring(UNRAID)
    targets = {c.get("Type"): c.get("Target") for c in root.findall("Config") if c.get("Type") in ("Port", "Path")}
    assert targets == {"Port": rest_of("EXPOSE")[0], "Path": rest_of("VOLUME")[0]}
    extra = shlex.split(root.findtext("ExtraParams") or "")
    assert "--read-only" in extra
    assert "host.docker.internal:host-gateway" in extra


def test_casaos_finds_its_own_words() -> None:
    """The store's block names the service that is opened, its port, and both processors."""
    outer = CASAOS[CASAOS.index("\nx-casaos:") :]
    assert "architectures: [amd64, arm64]" in outer
    assert "main: dashboard" in outer
    assert "\n  dashboard:\n" in CASAOS
    assert 'port_map: "8501"' in outer
    for word in ("title", "tagline", "description"):
        assert re.search(rf"  {word}:\n    en_US: \S", outer)


@pytest.mark.parametrize("name", ["nginx.conf", "Caddyfile", "traefik.yaml"])
def test_every_proxy_recipe_keeps_the_path_and_leads_to_the_usual_port(name: str) -> None:
    """Goodput Lab knows its own path: a proxy that cut it off would break every link."""
    text = (NAS / name).read_text(encoding="utf-8")
    assert "127.0.0.1:8501" in text
    assert "/goodput" in text
    assert "GOODPUT_BASE_PATH=goodput" in text
    live = "\n".join(line.partition("#")[0] for line in text.splitlines())
    assert not re.search(r"rewrite|stripprefix|handle_path", live, re.I)
    assert not re.search(r"proxy_pass http://[^;]+\d/", live)


def test_the_recipes_readme_names_every_file() -> None:
    """And no file that is gone."""
    named = set(re.findall(r"^\| `([^`]+)` \|", (NAS / "README.md").read_text(encoding="utf-8"), re.M))
    assert {Path(n).name for n in named} - {"compose.yaml"} == {p.name for p in NAS.iterdir()} - {"README.md"}
    assert all((NAS / n).exists() for n in named)
