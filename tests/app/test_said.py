"""What runner and storage say in English is read in Korean and Polish: known again by its template, values and all."""

import ast
import re
import shutil
import time
from pathlib import Path

import pytest
from pydantic_core import _pydantic_core

from app import start_failure, ui
from app.data import report_html
from app.export.redact import scrub
from app.extract_said import (
    ERRORS,
    PARTS,
    PYDANTIC,
    ROOT,
    error_arguments,
    is_sentence,
    said_templates,
    spoken,
    templates_in,
)
from app.said import MOST_CHARS, template_of
from app.views.cells import error_text
from app.words import ENGLISH, load_words
from runner.config import parse_sweep
from runner.errors import ConfigError
from storage.side_files import write_state
from storage.tables import SweepTables
from tests.app.views.made_up import made_up_tables
from tests.support.finished_sweeps import finished_sweep
from tests.support.pages import Open, data_dir, opened, shown, started

__all__ = ["data_dir", "opened", "started"]  # fixtures

PORT = "port 8080 is taken by llama-server, process 12; end it or give the server another port"
MEMORY = (
    "not tried again, its setting failed before: the server ran out of memory while starting (exit code 1); "
    "lower the context or the batch limits of this setting"
)
ENDED = "stopped after 2 failed cells in a row as asked ({}): 1 of 4 cells are done; goodput resume made-up goes on"
UNKNOWN_KEY = "nas: backend.warp is not a known key; remove it or check its spelling"
TOLD = {
    "ko": {
        PORT: "포트 8080을(를) 다른 프로그램이 쓰고 있습니다(llama-server, 프로세스 12). 그것을 끝내거나 서버에 다른 "
        "포트를 주십시오",
        MEMORY: "이 설정은 앞에서 실패해 다시 시도하지 않음: 시작하는 동안 서버의 메모리가 부족해졌습니다(종료 코드 "
        "1). 이 설정의 컨텍스트나 batch 한도를 낮추십시오",
        ENDED: "요청한 대로 셀이 2개 연속 실패하여 중지됨({}). 셀 4개 중 1개가 끝났습니다. goodput resume "
        "made-up(으)로 이어서 진행합니다",
        UNKNOWN_KEY: "nas: backend.warp은(는) 알 수 없는 키입니다. 지우거나 철자를 확인하십시오",
    },
    "pl": {
        PORT: "port 8080 jest zajęty (llama-server, proces 12); zakończ ten program albo daj serwerowi inny port",
        MEMORY: "nie próbowano ponownie, to ustawienie już się nie powiodło: serwerowi zabrakło pamięci podczas "
        "uruchamiania (kod wyjścia 1); zmniejsz kontekst albo limity batcha w tym ustawieniu",
        ENDED: "zatrzymano zgodnie z życzeniem, nieudane komórki z rzędu: 2 ({}): ukończone komórki: 1 z 4; goodput "
        "resume made-up wznawia przebieg",
        UNKNOWN_KEY: "nas: backend.warp nie jest znanym kluczem; usuń go albo sprawdź pisownię",
    },
}


@pytest.fixture(params=["ko", "pl"])
def lang(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture(scope="module")
def made_once(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A sweep with a failed cell whose reason has another one in it."""
    t = made_up_tables((2, 8), (2048,), (1.0, 3.0))
    cells = t.cells.assign(error_detail=[MEMORY if s == "failed" else None for s in t.cells["status"]])
    tables = SweepTables(t.meta, cells, t.requests, t.engine, t.client)
    return finished_sweep(tmp_path_factory.mktemp("once"), tables, "made-up")


@pytest.fixture
def made(made_once: Path, data_dir: Path) -> Path:
    return Path(shutil.copytree(made_once, data_dir / "sweeps" / "made-up"))


def test_a_template_has_literals_and_holes() -> None:
    """Doubled braces are single ones; without a hole they mean themselves."""
    assert template_of("{a}: no {b} {{c}}").literals == ("", ": no ", " {c}")
    assert template_of("{a}: no {b} {{c}}").names == ("a", "b")
    assert template_of("closed = { x }").readings("closed = { x }") == [{}]
    assert template_of("share {n:.2f}").readings("share 0.90") == [{"n": "0.90"}] * 2


def test_holes_are_read_from_both_ends() -> None:
    """Which of two is meant depends on where the other sentence stands; whole words are held to be such."""
    found = template_of("{why}: {n} left").readings("a: b: 3 left")
    assert found == [{"why": "a", "n": "b: 3"}, {"why": "a: b", "n": "3"}]
    assert template_of("{a_word} to {b_word}").readings("kv to 8") == [{"a_word": "kv", "b_word": "8"}] * 2
    assert template_of("{a_word} to {b_word}").readings("all to them all") == []


@pytest.mark.parametrize("sentence", [PORT, MEMORY, UNKNOWN_KEY])
def test_a_sentence_is_told_with_the_sentences_in_it(sentence: str, lang: str) -> None:
    """The reason in a reason and the words in its holes too; in English everything stays as it was said."""
    words, told = load_words(lang), TOLD[lang]
    assert words.said(sentence) == told[sentence]
    assert words.said(ENDED.format(sentence)) == told[ENDED].format(told[sentence])
    assert words.said(f"sweep.toml: {sentence}") == f"sweep.toml: {told[sentence]}"
    assert load_words("en").said(sentence) == ENGLISH.said(sentence) == sentence


def test_what_a_server_wrote_stays_as_it_is(lang: str) -> None:
    """Its words, braces and markup in the holes are no sentences of ours."""
    words = load_words(lang)
    for evil in ("{0} {evil} {{", "<b>kein Speicher</b>", "%s %(x)d \\"):
        assert evil in words.said(f"the server refused a test request: HTTP 500: {evil}")
        assert words.said(evil) == evil


def test_a_kind_of_error_has_a_name(lang: str) -> None:
    """That of the lists of errors; a kind that nobody knows stays as it is."""
    words = load_words(lang)
    for kind in ("timeout", "rate_limited"):
        told = words.said(f"no request was answered: 3 of 4 ended as {kind}")
        assert error_text(kind, words) in told
        assert kind not in told
    assert "odd_kind" in words.said("no request was answered: 3 of 4 ended as odd_kind")


def test_numbers_are_written_as_the_language_writes_them() -> None:
    """Amounts and thousands; what may be a version or an address is left alone."""
    words = load_words("pl")
    assert "12\u00a0000" in words.said("this sweep has 12,000 cells, and one result holds at most 9; split [grid]")
    assert " 0,5 s" in words.said("the server was silent for 0.5 s")
    assert "10.0 " in words.said("10.0 does not answer (no answer); start the server or mend backend.url")


@pytest.mark.parametrize("piece", [": ", "; ", " (", " to ", ", not ", "a: b; ", "is missing; add it", " and 1 to 2, "])
def test_a_hostile_text_takes_no_time(piece: str, lang: str) -> None:
    """Nothing is searched again and again, however many places look like the beginning of a sentence of ours."""
    words = load_words(lang)
    for text in ((piece * MOST_CHARS)[:MOST_CHARS], f"x: {(piece * MOST_CHARS)[: MOST_CHARS - 9]}; y", piece * 10_000):
        began = time.process_time()
        words.said(text)
        assert time.process_time() - began < 5  # of this process alone; a search that tries all ways takes hours
    assert words.said(piece * 10_000) == piece * 10_000


def test_strings_that_read_like_sentences_are_found() -> None:
    """Wherever they stand in runner and storage; in app those that errors are made with."""
    source = ast.parse('''
"""No docstring of it."""
def f(a, key):
    """Nor this one."""
    if key == "not a sentence here":
        print("nothing for a page")
    why = f"the {a.name!r} is {len(key):,} long" if key else "there is none"
    raise ConfigError(f"{a.path}: {why}; " "mend it or leave it " f"{{{key}}} alone") from None
''')
    whole = "{path}: {why}; mend it or leave it {{{key}}} alone"
    assert templates_in(source, "runner/x.py") == {whole, "the {name} is {key} long", "there is none"}
    assert templates_in(source, "app/x.py") == {whole, "the {name} is {key} long", "there is none"}
    internal = ast.parse('raise ValueError("this is for us alone")\nbanner = "a word of app"')
    assert templates_in(internal, "app/x.py") == set()
    assert templates_in(internal, "runner/x.py") == {"a word of app"}


def test_every_error_of_ours_is_looked_at() -> None:
    """A new class of errors for people must be named, or its sentences would be found nowhere."""
    classes = [n for tree in spoken().values() for n in ast.walk(tree) if isinstance(n, ast.ClassDef)]
    ours = {c.name for c in classes if {ast.unparse(b) for b in c.bases} & set(ERRORS)}
    assert ours <= set(ERRORS)
    assert set(ERRORS) <= {c.name for c in classes}


def test_every_error_is_told_in_the_reader_s_language(lang: str) -> None:
    """As it is said, with a value in each hole: one that is not known again would be shown in English."""
    words = load_words(lang)
    lost = []
    for name, tree in spoken().items():
        for argument in error_arguments(tree):
            said = _as_said(argument)
            if said is not None and is_sentence(said.replace("7", " ")) and words.said(said) == said:
                lost.append(f"{name}: {said}")
    assert lost == []


def _as_said(argument: ast.expr) -> str | None:
    """The sentence of an error with a 7 in each hole; None where it is made elsewhere."""
    match argument:
        case ast.Constant(value=str(text)):
            return text
        case ast.JoinedStr(values=parts):
            return "".join(str(p.value) if isinstance(p, ast.Constant) else "7" for p in parts)
    return None


def test_no_part_of_a_sentence_is_dead() -> None:
    """What is listed by hand, since it is too short to be found by itself, stands in the source somewhere."""
    paths = [path for folder in ("runner", "storage") for path in (ROOT / folder).rglob("*.py")]
    source = "".join(path.read_text(encoding="utf-8") for path in paths)
    dead = {part for part in PARTS for literal in template_of(part).literals if literal not in source}
    assert dead == set()


def test_why_a_cell_failed_is_known_without_its_addresses() -> None:
    """In a shared page hosts, addresses and folders are taken out of the values; the words around have none."""
    reasons = ("runner/engines/", "runner/load/", "runner/cell.py", "runner/loop.py", "runner/simulated_sweep.py")
    told = {t for t, files in said_templates().items() if any(f.startswith(reasons) for f in files)}
    changed = {t for t in told if any(scrub(literal) != literal for literal in template_of(t).literals)}
    assert {t for t in changed if said_templates()[t] != {"runner/engines/check.py"}} == set()  # before the first cell
    away = (
        "cannot connect to 127.0.0.1:8080: [Errno 111] Connect call failed ('127.0.0.1', 8080); inside a container "
        "that is the container itself: a server on its host is host.docker.internal"
    )
    assert load_words("pl").said(scrub(away)) == (
        "nie można połączyć się z ‹address›: [Errno 111] połączenie się nie powiodło ('‹address›', 8080); w kontenerze "
        "oznacza to sam kontener: serwer na jego hoście to ‹host›"
    )


def test_words_of_pydantic_are_as_it_says_them() -> None:
    """They are its own, so a later version may say them in another way."""
    theirs = [e["message_template_python"] for e in _pydantic_core.list_all_errors()]
    plural = [t.replace("{expected_plural}", end) for t in theirs for end in ("", "s")]
    known = {re.sub(r"\{\w+\}", "{}", t[0].lower() + t[1:]) for t in plural}
    ours = {re.sub(r"\{\w+\}", "{}", t) for t in PYDANTIC if "give a number" not in t and "a list, such as" not in t}
    assert ours - known == set()


WRONG: dict[str, dict[str, object]] = {
    "repeats": {"run": {"repeats": 0}}, "half": {"run": {"repeats": 1.5}}, "no number": {"run": {"repeats": "x"}},
    "true": {"run": {"repeats": True}}, "float": {"run": {"duration_s": "x"}}, "long": {"run": {"duration_s": 1e9}},
    "infinite": {"run": {"duration_s": float("inf")}}, "share": {"run": {"share_target": 1}}, "table": {"run": 3},
    "kind": {"backend": {"kind": "x"}}, "bool": {"run": {"find_rate": 3}}, "empty": {"name": ""},
    "name": {"name": "n" * 300}, "no text": {"name": 3}, "key": {"backend": {"kind": "openai", "api_key_env": "a b"}},
    "command": {"control": {"mode": "process", "command": "x"}}, "grid": {"grid": {"request_rate": [{}]}},
    "list": {"grid": {"request_rate": 1}}, "missing": {"classes": [{}]}, "class": {"classes": [{"name": "A b"}]},
    "two": {"grid": {"kv_tokens": [1, 1]}}, "hour": {"run": {"stop_by": "noon"}}, "unsaved": {"backend": "nas"},
}  # fmt: skip


@pytest.mark.parametrize("wrong", WRONG.values(), ids=WRONG)
def test_what_is_wrong_in_a_sweep_file_is_told(wrong: dict[str, object], lang: str) -> None:
    """All of it: what the library that reads it says too, with the place before and the value behind."""
    chat = {"name": "chat", "weight": 1, "prompt_tokens": 9, "output_tokens": 9}
    right = {"name": "n", "backend": {"kind": "simulated"}, "grid": {"request_rate": [1]}, "classes": [chat]}
    with pytest.raises(ConfigError) as found:
        parse_sweep({**right, **wrong}, "sweep.toml")
    told = load_words(lang).said(found.value)
    assert told.startswith("sweep.toml: ")
    for english in ("input", "should", "must", "string", " not ", " and ", " is ", "give", "write"):
        assert english not in told


def test_an_unknown_key_is_told_on_the_page(opened: Open, data_dir: Path, lang: str) -> None:
    """On the card of the saved server that has it."""
    (data_dir / "backends.toml").write_text('[nas]\nkind = "openai"\nurl = "http://127.0.0.1:1"\nwarp = 9\n')
    assert TOLD[lang][UNKNOWN_KEY] in shown(opened(ui.BACKENDS, lang=lang))


def test_why_a_cell_failed_is_told_on_the_page(opened: Open, made: Path, lang: str) -> None:
    """With the reason in it, and the kind of error in the list's own words."""
    page = shown(opened(ui.RESULTS, "made-up", lang=lang))
    assert TOLD[lang][MEMORY] in page
    assert "out of memory" not in page


def test_why_a_sweep_ended_is_told_on_the_page(opened: Open, made: Path, lang: str) -> None:
    """On the live page and in the list, from the state that was written in English."""
    write_state(made, {"status": "failed", "cells_done": 1, "cells_total": 4, "message": ENDED.format(PORT)})
    told = TOLD[lang][ENDED].format(TOLD[lang][PORT])
    assert told in shown(opened(ui.LIVE, "made-up", lang=lang))
    assert told in shown(opened(ui.START, lang=lang))


def test_why_a_cell_failed_is_told_in_the_shared_page(made_once: Path, lang: str) -> None:
    """Whoever gets the page reads it in the language in which it was saved."""
    assert TOLD[lang][MEMORY] in report_html(made_once, words=load_words(lang))


def test_what_to_change_by_hand_is_told(lang: str) -> None:
    """The settings with their values, and what is still wrong."""
    task = (
        "Set max_num_seqs to 4, kv_tokens to 256 and kind to a on the server at http://h:1 and restart it with -np 4."
    )
    told = load_words(lang).said(
        f"Not yet: http://h:1 does not answer (no answer); start the server or mend backend.url. {task}"
    )
    for word in ("Not yet", " to ", "restart", "answer", "mend"):
        assert word not in told
    assert "max_num_seqs = 4, kv_tokens = 256" in told


def test_the_page_of_a_failed_start_speaks_the_browser_s_language(lang: str) -> None:
    """The reason and the lines around it; an unknown language is English."""
    page = start_failure.page_of(f"/data: {UNKNOWN_KEY} <b>", f"{lang}-XX,en;q=0.5").decode()
    assert f'lang="{lang}"' in page
    assert "cannot start" not in page
    assert "&lt;b&gt;" in page
    assert start_failure.page_of(PORT, lang).decode().count(TOLD[lang][PORT]) == 1
    assert PORT in start_failure.page_of(PORT, "xx").decode()
