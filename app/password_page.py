"""The page that asks for the password: one field, no script, nothing loaded from anywhere."""

from html import escape

from starlette.datastructures import Headers
from starlette.types import Scope

from app.words import Words, load_words

STYLE = """
:root { color-scheme: light dark; --ink: #1f2328; --paper: #fff; --line: #c9ced6; --soft: #57606a; --main: #0072B2;
  --bad: #b3261e }
@media (prefers-color-scheme: dark) { :root { --ink: #e6e8eb; --paper: #0e1117; --line: #3d444d; --soft: #9aa4b2;
  --main: #2F86C6; --bad: #ff8a80 } }
* { box-sizing: border-box }
body { margin: 0; min-height: 100vh; display: grid; place-items: center; background: var(--paper); color: var(--ink);
  font: 1rem/1.5 system-ui, -apple-system, 'Segoe UI', Roboto, 'Noto Sans', sans-serif }
form { width: min(22rem, calc(100vw - 3rem)); padding: 2rem; border: 1px solid var(--line); border-radius: .75rem }
h1 { margin: 0 0 .25rem; font-size: 1.5rem } p { margin: 0 0 1.25rem; color: var(--soft) }
p[role=alert] { color: var(--bad) } label { display: block; font-weight: 600; margin-bottom: .35rem }
input, button { width: 100%; font: inherit; padding: .6rem .75rem; border-radius: .5rem; border: 1px solid var(--line) }
input { background: transparent; color: inherit; margin-bottom: 1rem }
button { background: var(--main); border-color: var(--main); color: #fff; font-weight: 600; cursor: pointer }
:focus-visible { outline: 3px solid var(--main); outline-offset: 2px }
"""


def login_page(w: Words, said: str | None = None) -> str:
    """HTML whose form is sent to the address at which it was shown. `said`: why it is shown again."""
    told = f'<p role="alert">{escape(said)}</p>' if said else f"<p>{escape(w.text('This dashboard is locked.'))}</p>"
    return f"""<!doctype html>
<html lang="{escape(w.lang)}">
<head><meta charset="utf-8"><meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="robots" content="noindex"><title>Goodput Lab</title><style>{STYLE}</style></head>
<body><form method="post">
<h1>Goodput Lab</h1>
{told}
<label for="password">{escape(w.text("Password"))}</label>
<input id="password" name="password" type="password" autocomplete="current-password" required autofocus>
<button>{escape(w.text("Open"))}</button>
</form></body></html>
"""


def page_words(scope: Scope) -> Words:
    """The words of the first language that the browser asks for; English where we have no catalogue."""
    wanted = Headers(scope=scope).get("accept-language", "en")[:2].lower()
    return load_words(wanted if wanted.isalpha() and wanted.isascii() else "en")
