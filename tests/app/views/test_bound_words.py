"""What bound a setting, in words: translated by parts, silent where nothing is known, once where nothing is told."""

import gettext
from typing import Any

import pytest

from app.views.batch import batch_figure, batch_rows
from app.views.bound import (
    blind_hint,
    bound_name,
    bound_sentence,
    cell_sentences,
    over_loads,
    seen_sentence,
    told_columns,
    ttft_sentence,
)
from app.views.cells import key_of
from app.words import Words
from runner.analysis.bound import Evidence, bound_of

KV = bound_of(
    Evidence(limit=256, running_max=37, waiting_max=0, kv_max=0.99, running_at_full_kv=37, preemptions=12), ()
)


def cell(number: int, rate: float, by: str, **engine: object) -> dict[str, Any]:
    return {
        "cell": number,
        "status": "ok",
        "goodput_per_s": 1.0,
        "setting": {"max_num_seqs": 4},
        "load": {"request_rate": rate},
        "bound": {"by": by, "text": f"{by}.", "parts": [{"id": by, "values": {}}]},
        "engine": {"source": "metrics", **engine},
    }


def test_the_sentence_is_put_together_from_parts_that_can_be_translated() -> None:
    """English gives the result's own text; a language with other words gives its own, numbers filled in."""
    assert bound_sentence({"bound": KV}) == KV["text"]

    class Loud(gettext.NullTranslations):
        def gettext(self, message: str) -> str:
            return message.upper() if "{" not in message else message

    loud = bound_sentence({"bound": KV}, Words("xx", Loud()))
    assert loud is not None
    assert loud.startswith("THE KV CACHE WAS THE BOUND: limit 256, never above 37;")
    assert loud.endswith("12 preemptions; THE QUEUE WAS EMPTY.")


def test_parts_of_a_newer_version_leave_the_results_own_text() -> None:
    """A page of another version is shown as it says; one of an older version says nothing."""
    newer = {"by": "network", "text": "The network was the bound.", "parts": [{"id": "network", "values": {}}]}
    assert bound_sentence({"bound": newer}) == "The network was the bound."
    assert bound_name("network") == "network"
    assert bound_sentence({}) is None
    assert cell_sentences({"engine": {}}) == []


def test_the_bound_over_the_loads_is_told_where_it_changes() -> None:
    """The load at 1 request/s, the seats from 2 on; one bound at every load is no news."""
    cells = [cell(0, 1.0, "load"), cell(1, 2.0, "seats"), cell(2, 4.0, "seats")]
    key = key_of({"max_num_seqs": 4})
    assert over_loads({"cells": cells}, key) == "Over the loads: the load from 1 req/s on, seats from 2 req/s on."
    assert over_loads({"cells": cells[1:]}, key) is None


def test_the_servers_word_stands_beside_what_is_seen_from_outside() -> None:
    """Sequences a step and time to first token, each told and seen; half of it is not half a sentence."""
    both = {"engine": {"batch_seqs_mean": 4.0, "arrivals_together_mean": 3.8}}
    assert seen_sentence(both) == (
        "Sequences a step: the server says 4.00, from outside tokens of 3.80 answers arrive together."
    )
    alone = seen_sentence({"engine": {"arrivals_together_mean": 3.8}})
    assert alone == "Seen from outside, tokens of 3.80 answers arrive together on average."
    assert seen_sentence({"engine": {"batch_seqs_mean": 4.0}}) is None
    told = ttft_sentence({"engine": {"server_ttft_mean_s": 0.41, "client_ttft_mean_s": 0.43}})
    assert str(told).replace("\u00a0", " ") == (
        "First token on average: the server says 410 ms, the client saw 430 ms."
    )
    assert ttft_sentence({"engine": {"server_ttft_mean_s": 0.41}}) is None


@pytest.mark.parametrize(("source", "hinted"), [("none", True), ("metrics", False), ("slots", True)])
def test_metrics_that_are_off_are_told_once_with_the_flag(source: str, hinted: bool) -> None:
    """How to switch them on, for this kind of server; nothing where the server did tell, nor of an unknown kind."""
    cells = [cell(0, 1.0, "unknown") | {"engine": {"source": source}}]
    hint = blind_hint({"backend": {"kind": "llama_cpp"}, "cells": cells})
    assert (hint is not None and "--metrics" in hint) is hinted
    assert (hint is not None and hint.startswith("Nothing was seen")) is (source == "none")
    assert blind_hint({"backend": {}, "cells": cells}) is None
    assert blind_hint({"backend": {"kind": "llama_cpp"}, "cells": []}) is None


def test_a_server_that_tells_nothing_has_its_streams_shown() -> None:
    """The row is there, its streams are drawn in place of what runs, and columns without a value are left out."""
    seen = cell(0, 1.0, "unknown", streams_mean=2.5, streams_max=4, arrivals_together_mean=None)
    result = {"cells": [seen | {"limit": {"max_num_seqs": 8}}]}
    (row,) = batch_rows(result)
    assert (row["limit"], row["running_max"], row["streams_only"], row["num_preemptions"]) == (8, None, 4, None)
    assert [key for key, _, _ in told_columns([row])] == ["limit", "streams_mean", "streams_max"]
    drawn = {t.name: t.x for t in batch_figure(result).data if t.name}
    assert drawn["streams, most (nothing told)"] == (4.0,)
