"""Errors of servers: one class for one thing, told by status or inside a stream."""

import json
from pathlib import Path

import pytest

from runner.protocols.errors import classify_http_error, error_in_stream

CAPTURED = json.loads((Path(__file__).parents[2] / "fixtures" / "http_errors.json").read_text(encoding="utf-8"))
CAPTURED_KINDS = {
    "err_too_long_prompt": "context_overflow",
    "err_too_long_prompt_stream": "context_overflow",
    "err_max_tokens_huge": "context_overflow",
    "err_max_tokens_huge_chat": "context_overflow",
    "err_unknown_model": "model_not_found",
    "err_unknown_endpoint": "http_error",
}


@pytest.mark.parametrize("name", CAPTURED)
def test_errors_of_real_servers_are_classed(name: str) -> None:
    """Everything else that these servers refused was a bad request."""
    answer = CAPTURED[name]
    kind, detail, _ = classify_http_error(answer["status"], {}, answer["body"].encode())
    assert kind == CAPTURED_KINDS.get(name.partition("/")[2], "bad_request")
    assert detail.startswith(f"HTTP {answer['status']}: ")


@pytest.mark.parametrize(
    ("status", "body", "kind"),
    [
        (401, '{"error":{"code":401,"message":"Invalid API Key","type":"authentication_error"}}', "unauthorized"),
        (403, "forbidden", "unauthorized"),
        (404, '{"error":"model \'x\' not found"}', "model_not_found"),
        (404, "404 page not found", "http_error"),
        (404, '{"error":{"code":"model_not_found","message":"no"}}', "model_not_found"),
        (408, "", "timeout"),
        (413, "", "bad_request"),
        (418, "", "http_error"),
        (429, '{"error":"Model is overloaded","error_type":"overloaded"}', "rate_limited"),
        (500, '{"error":{"message":"CUDA out of memory. Tried to allocate 2 GiB"}}', "out_of_memory"),
        (500, '{"error":"model requires more system memory (9 GiB) than is available (4 GiB)"}', "out_of_memory"),
        (500, "Internal Server Error", "server_error"),
        (502, "<html><body><h1>502 Bad Gateway</h1></body></html>", "server_error"),
        (503, '{"error":{"code":503,"message":"Loading model","type":"unavailable_error"}}', "overloaded"),
        (503, '{"error":"server busy, please try again.  maximum pending requests exceeded"}', "overloaded"),
        (504, "", "timeout"),
        (
            422,
            '{"error":"Input validation error: `inputs` tokens + `max_new_tokens` must be <= 4096. Given: 5000 `inputs`'
            ' tokens and 20 `max_new_tokens`","error_type":"validation"}',
            "context_overflow",
        ),
        (400, '{"error":{"code":"context_length_exceeded","message":"too many"}}', "context_overflow"),
        (400, '{"object":"error","message":"[{\'type\':\'extra_forbidden\'}]","code":400}', "bad_request"),
    ],
)
def test_words_that_name_the_cause_come_before_the_status(status: int, body: str, kind: str) -> None:
    """Memory, context and model are named by words, all else by the status."""
    assert classify_http_error(status, {}, body.encode())[0] == kind


def test_a_web_page_is_told_as_plain_text() -> None:
    """Tags and line ends are left out; what a server says is text."""
    detail = classify_http_error(502, {}, b"<html>\n<h1>502 Bad\tGateway</h1>\x00</html>")[1]
    assert detail == "HTTP 502: 502 Bad Gateway"


def test_an_empty_body_still_gives_a_detail() -> None:
    """The status is better than nothing."""
    assert classify_http_error(500, {}, b"") == ("server_error", "HTTP 500", None)


@pytest.mark.parametrize("body", [b"", b"<html>Temporary Redirect: service unavailable</html>"])
def test_a_redirect_says_where_to(body: bytes) -> None:
    """It is not followed, since the key would go along; its page is no word of the server."""
    headers = {"Location": "https://u:SECRET123@box/v1/chat/completions"}
    kind, detail, wait_s = classify_http_error(307, headers, body)
    assert (kind, wait_s) == ("http_error", None)
    assert detail.startswith("HTTP 307: the server sends elsewhere, https://***@box/v1/chat/completions;")
    assert "not followed" in classify_http_error(302, {}, body)[1]


def test_details_are_bounded_and_hold_no_secret() -> None:
    """A server that echoes the key or the whole prompt does not fill the database with it."""
    body = json.dumps({"error": {"message": "Incorrect API key provided: sk-test-SECRET123 " + "x" * 9000}}).encode()
    kind, detail, _ = classify_http_error(401, {}, body)
    assert kind == "unauthorized"
    assert "SECRET123" not in detail
    assert len(detail) <= 500


def test_a_given_secret_is_hidden_in_any_words() -> None:
    """Keys without a known look are hidden when the caller knows them."""
    assert "hunter2" not in classify_http_error(500, {}, b"who is hunter2?", secrets=["hunter2"])[1]


@pytest.mark.parametrize(
    ("headers", "wait_s"),
    [
        ({"Retry-After": "2"}, 2.0),
        ({"retry-after": " 1.5 "}, 1.5),
        ({"Retry-After": "2", "retry-after-ms": "250"}, 0.25),
        ({"Retry-After": "Sun, 29 Nov 2026 16:00:30 GMT", "Date": "Sun, 29 Nov 2026 16:00:00 GMT"}, 30.0),
        ({"Retry-After": "Sun, 29 Nov 2026 16:00:30 GMT"}, None),
        ({"Retry-After": "soon", "Date": "today"}, None),
        ({"Retry-After": "-5"}, None),
        ({}, None),
    ],
)
def test_retry_after_is_seconds_or_a_date_beside_the_answers_own(headers: dict[str, str], wait_s: float | None) -> None:
    """No clock is needed: a date is measured from the answer's Date header."""
    assert classify_http_error(429, headers, b"")[2] == wait_s


@pytest.mark.parametrize(
    ("name", "data", "kind"),
    [
        ("", '{"error":{"message":"boom","type":"InternalServerError","code":500}}', "server_error"),
        ("", '{"error":{"message":"busy now","type":"Service Unavailable","code":503}}', "overloaded"),
        ("", '{"error":{"message":"slow down","code":"429"}}', "rate_limited"),
        ("", '{"error":"an error was encountered while running the model"}', "server_error"),
        ("", '{"error":{"error":{"message":"out of memory"}}}', "out_of_memory"),
        ("", '{"object":"error","message":"bad value","type":"BadRequestError","code":400}', "bad_request"),
        ("error", '{"message":"rate limit reached"}', "rate_limited"),
        ("error", "{}", "server_error"),
        ("", '{"error":"Model is overloaded","error_type":"overloaded"}', "overloaded"),
    ],
)
def test_every_shape_of_an_error_inside_a_stream_is_known(name: str, data: str, kind: str) -> None:
    """Object, text, nested, flat, and by the event's name."""
    error = error_in_stream(name, data, json.loads(data))
    assert error is not None
    assert error[0] == kind
    assert error[1]


def test_an_error_event_may_be_plain_text() -> None:
    """Some gateways send no JSON."""
    assert error_in_stream("error", "upstream timed out", None) == ("timeout", "upstream timed out")


@pytest.mark.parametrize("data", ['{"choices":[],"error":null}', '{"choices":[],"error":""}', '{"a":1}'])
def test_a_null_error_is_none(data: str) -> None:
    """Some servers send the key in every chunk."""
    assert error_in_stream("", data, json.loads(data)) is None
