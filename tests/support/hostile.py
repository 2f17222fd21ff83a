"""A data folder in which every word of a server, a file or a stranger is hostile, and one word is very long."""

import json
import re
from pathlib import Path

from app.data import report_html
from app.export.shared_page import json_text, read_page
from app.imports import add_files
from storage.data_folder import open_data_folder
from storage.tables import SweepTables
from tests.app.views.made_up import made_up_tables
from tests.support.finished_sweeps import finished_sweep

HOSTILE = (
    "</script><script>alert(1)</script><img src=//evil.test/a onerror=alert(2)> [x](http://evil.test) "
    "![y](//evil.test/i.png) <a href='javascript:alert(3)'>z</a> :material/home: $\\href{http://evil.test}{q}$ =1+1 "
    "\u202etxet desrever\u202c \u0645\u0631\u062d\u0628\u0627 " + "W" * 150
)
NAME = "<img src=//evil.test/a onerror=alert(4)>" + "W" * 20  # where there is room for a name only


def hostile_sweep(data_dir: Path, sweep_id: str = "hostile") -> Path:
    """A finished sweep whose every word from a server, a file or a user is hostile."""
    t = made_up_tables((2, 8), (256,), (1.0, 2.0))
    config = {**t.meta["config"], "name": HOSTILE[:200]}
    config["backend"] = {**config["backend"], "model": HOSTILE}
    meta = {
        **t.meta,
        "name": HOSTILE,
        "config": config,
        "backend": {**t.meta["backend"], "model": HOSTILE, "models": [HOSTILE], "version": HOSTILE},
        "environment": {"cpu": HOSTILE, "gpu": HOSTILE, "engine_version": HOSTILE, "os": HOSTILE},
    }
    cells = t.cells.assign(start_line=HOSTILE, log_tail=HOSTILE, error_detail=HOSTILE)
    requests = t.requests.assign(error_detail=HOSTILE)
    return finished_sweep(data_dir, SweepTables(meta, cells, requests, t.engine, t.client), sweep_id)


def hostile_folder(folder: Path) -> tuple[Path, str]:
    """(data folder, id of an import): a sweep, a stranger's page with a hostile class, a saved server, a profile."""
    data_dir = open_data_folder(folder)
    page = report_html(hostile_sweep(data_dir))
    data = json_text(read_page(page)).replace('"chat"', json_text(NAME))
    block = '<script type="application/json" id="goodput-data">'
    page = re.sub(f"{block}.*?</script>", lambda _: f"{block}{data}</script>", page, flags=re.S)
    (import_id,) = add_files(data_dir, [(f"{NAME}.html", page.encode())])
    server = {"kind": "llama_cpp", "url": "http://127.0.0.1:9", "model": HOSTILE}
    lines = [f"{key} = {json.dumps(value)}" for key, value in server.items()]
    (data_dir / "backends.toml").write_text("\n".join([f"[{json.dumps(NAME)}]", *lines, ""]), encoding="utf-8")
    profile = "kv_tokens = 8192\n[cost]\na = 10.0\nb = 0.1\n"
    (data_dir / f"{NAME.replace('/', '')}.toml").write_text(profile, encoding="utf-8")
    return data_dir, import_id
