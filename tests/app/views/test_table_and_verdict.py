"""The table, its CSV, the verdict and the forum post."""

import csv
import io
import json

import pytest

from app.views.rules import RULES
from app.views.table import columns, csv_text, safe_text, shown, table_csv, table_rows, text_table
from app.views.verdict import markdown, origin_note, target_sentences, verdict, warning_rows
from app.words import NOTHING
from runner.analysis.warnings import TEXTS, MeasurementWarning
from tests.app.views.made_up import made_up_result


def test_every_cell_has_a_row_and_nulls_stay_null() -> None:
    """Failed cells are rows too; what was not measured is null, never 0."""
    rows = table_rows(made_up_result())
    assert [r["cell"] for r in rows] == [x["cell"] for x in made_up_result()["cells"]]
    assert rows[-1]["state"] == "failed: out of memory"
    assert rows[-1]["goodput_per_s"] is None
    assert shown(None, "rate") == NOTHING


@pytest.mark.parametrize("status", ["pending", "running"])
def test_a_cell_that_waits_for_a_resume_has_not_failed(status: str) -> None:
    """After Ctrl-C the rest of the plan is "not measured"; "failed" would send its owner looking for a reason."""
    result = made_up_result()
    waiting = {**result["cells"][-1], "status": status, "error_kind": None}
    assert table_rows({**result, "cells": [*result["cells"][:-1], waiting]})[-1]["state"] == "not measured"
    assert text_table({**result, "cells": [waiting]}).endswith("not measured")


def test_only_settings_that_vary_are_columns() -> None:
    """A key with one value everywhere is not repeated on each row; repeats show only when there are some."""
    keys = [x.key for x in columns(made_up_result())]
    assert keys[:3] == ["cell", "setting.max_num_seqs", "setting.max_num_batched_tokens"]
    assert "repeat" not in keys


@pytest.mark.parametrize("name", ['=HYPERLINK("http://x.test","a")', "+1+1", "-2+3", "@SUM(A1)", "\t=1+1", "\r=1"])
def test_formulas_become_text(name: str) -> None:
    """Text that a spreadsheet would run gets a leading apostrophe."""
    assert safe_text(name) == "'" + name
    assert next(csv.reader(io.StringIO(csv_text([{"m": name}], ["m"]).split("\n", 1)[1], newline=""))) == ["'" + name]


def test_numbers_and_plain_text_are_unchanged_in_csv() -> None:
    """Negative numbers stay numbers, commas and quotes are quoted, null is empty."""
    text = csv_text([{"a": -1.5, "b": 2, "c": 'normal, "quoted"', "d": None}], ["a", "b", "c", "d"])
    assert text == 'a,b,c,d\r\n-1.5,2,"normal, ""quoted""",\r\n'


def test_table_csv_reads_back() -> None:
    """The CSV has a line a cell with full precision."""
    rows = list(csv.DictReader(io.StringIO(table_csv(made_up_result()))))
    assert len(rows) == len(made_up_result()["cells"])
    assert float(rows[0]["goodput_per_s"]) == made_up_result()["cells"][0]["goodput_per_s"]


def test_text_table_is_aligned() -> None:
    """A terminal table: a head, a line a cell, no trailing blanks."""
    lines = text_table(made_up_result()).split("\n")
    assert len(lines) == 1 + len(made_up_result()["cells"])
    assert lines[0].startswith("setting")
    assert all(line == line.rstrip() for line in lines)


def test_verdict_names_setting_numbers_and_line_to_paste() -> None:
    """Setting, goodput and interval in words; the start line as it was run."""
    v = verdict(made_up_result())
    assert "max_num_seqs 32, max_num_batched_tokens 256" in v.headline
    assert v.headline.startswith("Not proven yet")  # 94 % of 300, but the interval reaches below the 90 % wanted
    assert "95 % interval" in v.detail.replace("\u00a0", " ")
    assert v.paste == "vllm serve /models/made-up-8b --max-num-seqs 32 --max-num-batched-tokens 256"
    assert v.against_raw is not None
    assert "But only" in v.against_raw


def test_verdict_says_met_and_missed() -> None:
    """A met target keeps its promises; one missed by the share itself is said to be missed."""
    result = made_up_result()
    met = {**result, "choice": {**result["choice"], "target_met": True}}
    missed = {**result, "choice": {**result["choice"], "share": 0.5}}
    assert "keeps its promises at 2.82" in verdict(met).headline
    assert verdict(missed).headline.startswith("Target missed everywhere")


def test_points_met_but_not_measured_cleanly_are_no_missed_target() -> None:
    """A busy load generator says nothing about the server: measure again, instead of "missed everywhere"."""
    held = {"status": "ok", "load": {"request_rate": 1.0}, "goodput_per_s": 1.0, "share": 1.0, "share_low": 0.95}
    late = {**held, "cell": 0, "setting": {"max_num_seqs": 4}, "flags": ["send_lag"]}
    missed = {**held, "cell": 1, "setting": {"max_num_seqs": 8}, "flags": [], "share": 0.4, "share_low": 0.3}
    choice = {"setting": {"max_num_seqs": 8}, "cells": [1], "target_met": False, "share": 0.4}
    result = {"cells": [late, missed], "choice": choice, "share_target": 0.9}
    assert verdict(result).headline.startswith("Measure again")
    alone = verdict({**result, "cells": [late], "choice": {**choice, "cells": [0], "setting": late["setting"]}})
    assert alone.headline.startswith("Not to be relied on")
    overloaded = {**late, "flags": ["overload", "send_lag"]}
    assert verdict({**result, "cells": [overloaded, missed]}).headline.startswith("Target missed everywhere")


def test_a_point_with_more_goodput_than_the_pick_is_explained() -> None:
    """At a higher load more requests are good, but too few of all: the reader sees why the star is not on top."""
    held = {"status": "ok", "setting": {"max_num_seqs": 1}, "flags": []}
    pick = {**held, "cell": 0, "load": {"request_rate": 0.7}, "goodput_per_s": 0.64, "share": 1.0}
    above = {**held, "cell": 1, "load": {"request_rate": 1.2}, "goodput_per_s": 0.78, "share": 0.65}
    raw = {**held, "cell": 2, "load": {"request_rate": 2.0}, "goodput_per_s": 0.1, "share": 0.1}
    choice = {"setting": {"max_num_seqs": 1}, "cells": [0], "target_met": True, "raw_throughput_cells": [2]}
    result = {"cells": [pick, above, raw], "choice": choice, "share_target": 0.9}
    said = (verdict(result).against_raw or "").replace("\u00a0", " ")
    assert said.endswith(
        "max_num_seqs 1 at 1.2 req/s has more good requests, 0.78 req/s, but only 65 % stay inside; 90 % are wanted."
    )
    assert "more good requests" not in str(verdict({**result, "cells": [pick, raw]}).against_raw)


def test_verdict_where_only_the_load_varied() -> None:
    """Without server settings the answer is how many the server can take: 88 tok/s for 4 people are 22 each."""
    cell = {"cell": 0, "status": "ok", "setting": {}, "load": {"max_concurrency": 4}, "goodput_per_s": 1.0}
    cell |= {"output_tok_per_s": 88.0, "ttft_ms": {"p50": 800.0}}
    choice = {"setting": {}, "cells": [0], "target_met": True}
    headline = verdict({"cells": [cell], "choice": choice}).headline.replace("\u00a0", " ")
    assert headline == "4 people can chat at once: first words in 800 ms, 22.0 tok/s each."
    by_rate = {**cell, "load": {"request_rate": 1.0}}
    assert verdict({"cells": [by_rate], "choice": choice}).headline.startswith("The server as it is keeps its promises")


def test_verdict_without_any_measurement() -> None:
    """A sweep in which everything failed has a verdict too."""
    cells = [{"cell": 0, "setting": {"max_num_seqs": 4}, "status": "failed", "error_kind": "connect"}]
    assert verdict({"cells": cells, "choice": None}).headline == "No setting could be chosen."


def test_without_a_start_line_the_setting_is_written_for_its_kind_of_server() -> None:
    """A server that was set by hand: flags of its kind. A kind that is not known: key and value lines."""
    result = made_up_result()
    bare = {**result, "cells": [{**x, "start_line": None} for x in result["cells"]]}
    bare["choice"] = {**result["choice"], "start_line": None}
    assert verdict(bare).paste == ("vllm serve made-up-8b --port 8000 --max-num-seqs 32 --max-num-batched-tokens 256")
    strange = {**bare, "backend": {"kind": "someone else's"}}
    assert verdict(strange).paste == "max_num_seqs = 32\nmax_num_batched_tokens = 256"


def test_targets_in_words() -> None:
    """Each class's promise is one sentence."""
    first = target_sentences(made_up_result())[0].replace("\u00a0", " ")
    assert first == "chat: first token within 1.00 s, 99 % of its own gaps within 150 ms"


def test_equal_warnings_are_one_row() -> None:
    """One text, one row, with the cells it is about."""
    rows = warning_rows(made_up_result())
    assert len({(r["title"], r["remedy"]) for r in rows}) == len(rows)
    assert all(r["remedy"] for r in rows)
    assert any("," in r["where"] for r in rows)


def test_a_plain_flag_is_a_warning_too() -> None:
    """Warnings of other tools' files are bare words."""
    assert warning_rows({"cells": [], "warnings": ["low_n"]}) == [
        {"title": "too few requests", "remedy": "", "where": ""}
    ]


def test_markdown_is_text_in_a_forum() -> None:
    """Names can't make tables, links or code; the verdict, the table and the environment are there."""
    result = made_up_result()
    post = markdown({**result, "name": "a|b [x](http://y) `c`"})
    assert post.startswith("### a\\|b \\[x\\](http://y) \\`c\\`\n")
    assert "| setting | load |" in post
    assert "made-up GPU 24 GB" in post


def test_result_is_strict_json() -> None:
    """The fixture itself holds what the interface promises: no NaN."""
    json.dumps(made_up_result(), allow_nan=False)


def test_a_result_without_a_real_server_says_so() -> None:
    """Modelled hardware and virtual time are named; a measured server needs no note."""
    assert "modelled" in (origin_note({"backend": {"kind": "simulated"}, "simulated": False}) or "")
    assert "Simulated: nothing was measured" in (
        origin_note({"backend": {"kind": "simulated"}, "simulated": True}) or ""
    )
    assert origin_note({"backend": {"kind": "llama_cpp"}, "simulated": False}) is None


def test_people_count_cells_from_one_and_files_from_zero() -> None:
    """The first cell is number 1 in the table and beside its warnings, and 0 in the CSV, as in JSON."""
    assert shown(0, "number") == "1"
    result = made_up_result()
    assert {x.key: x.kind for x in columns(result)}["cell"] == "number"
    assert next(csv.DictReader(io.StringIO(table_csv(result), newline="")))["cell"] == "0"
    only = {"type": "low_n", "cell": 0, "template": "too few", "remedy_template": "more"}
    assert warning_rows({"cells": [{"cell": 0, "warnings": [only]}]})[0]["where"] == "1"


def test_warnings_name_gap_rules_in_words() -> None:
    """A reader is told what another rule asks for, not its name in the files; the object keeps the names."""
    warning = MeasurementWarning("rule_sensitive", None, {"rules": "mean_tpot, deadline"}).as_dict()
    row = warning_rows({"cells": [], "warnings": [warning]})[0]
    assert "“mean time per token in time”, “every token by its deadline” would choose" in row["title"]
    assert warning["values"]["rules"] == "mean_tpot, deadline"
    ids = [rule for rule in RULES for text in TEXTS.values() if rule in " ".join(text)]
    assert ids == []


def test_what_came_from_the_prefix_cache_stands_beside_what_was_meant() -> None:
    """Both shares are columns as soon as one cell has either; so are cold model loads; else none of them takes room."""
    cell = {"cell": 0, "status": "ok", "setting": {}, "goodput_per_s": 1.0}
    cached = {**cell, "prefix_cache_hit_share": 0.64, "prefix_cache_hit_share_intended": 0.667, "cold_loads": 2}
    extra = ["prefix_cache_hit_share", "prefix_cache_hit_share_intended", "cold_loads"]
    assert [x.key for x in columns({"cells": [cell, cached]})][-3:] == extra
    assert not {x.key for x in columns({"cells": [{**cell, "prefix_cache_hit_share": 0.0}]})} & set(extra)
