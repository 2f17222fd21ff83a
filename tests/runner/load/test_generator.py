"""Load generator: driven by a virtual clock, so every moment is exact."""

import asyncio
import time
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from runner.config import RequestClass
from runner.load.generator import FAILED_PAUSE_NS, LoadOutcome, run_load, unsent_record
from runner.load.workload import ClosedLoop, RequestSpec, Trace, build_trace
from storage.records import RequestRecord
from tests.support.virtual_load import MS, ORIGIN, S, Server, VirtualClock, drive


def stall(clock: VirtualClock, ms: float) -> int:
    """The whole process stands still inside a send; the answer then takes 1 ms."""
    clock.now += round(ms * MS)
    return MS


def specs_at(*offsets_ms: int, name: str = "chat") -> tuple[RequestSpec, ...]:
    return tuple(RequestSpec(i, name, 0, ms * MS, 10, 10, i, i) for i, ms in enumerate(offsets_ms))


def closed(workers: int, think_ms: int = 0, names: tuple[str, ...] = ("chat",)) -> ClosedLoop:
    classes = tuple(
        RequestClass.model_validate({"name": n, "weight": 1, "prompt_tokens": 5, "output_tokens": 5}) for n in names
    )
    return ClosedLoop(classes, workers, think_ms * MS, seed=1, salt=0, first_request=0, step=1)


def test_open_loop_never_waits_for_answers():
    """Requests leave at their scheduled moments although the first answer takes 4 s."""
    run = drive(Trace(specs_at(0, 500, 501, 2000)), 4 * S)
    assert [at - ORIGIN for at, _, _ in run.server.sent] == [0, 500 * MS, 501 * MS, 2000 * MS]
    assert [scheduled - ORIGIN for _, _, scheduled in run.server.sent] == [0, 500 * MS, 501 * MS, 2000 * MS]
    assert run.outcome == LoadOutcome(4, 4, 4, 0, 0, False, ORIGIN + 10 * S)


def test_the_window_lasts_to_its_end_and_the_drain_only_as_long_as_needed():
    """The run ends with the window when nothing runs, else with the last answer, else with the drain."""
    assert drive(Trace(specs_at(0)), 1 * S).clock.now == ORIGIN + 10 * S
    assert drive(Trace(specs_at(9000)), 3 * S).clock.now == ORIGIN + 12 * S
    assert drive(Trace(specs_at(9000)), 60 * S).clock.now == ORIGIN + 15 * S


def test_arrivals_at_or_after_the_end_are_not_part_of_the_run():
    """A spec at the very end or beyond it is neither sent nor recorded."""
    run = drive(Trace(specs_at(9_999, 10_000, 12_000)), MS)
    assert [r.request for r in run.records] == [0]


def test_a_late_request_keeps_its_scheduled_moment():
    """When the loop was busy for 300 ms, what came due meanwhile is sent at once and stays scheduled when it was."""
    clock = VirtualClock()
    run = drive(Trace(specs_at(0, 100, 200, 250, 900)), lambda s: stall(clock, 300 * (s.request == 1)), clock=clock)
    assert [(at - ORIGIN) // MS for at, _, _ in run.server.sent] == [0, 100, 400, 400, 900]
    assert [r.scheduled_ns // MS for r in sorted(run.records, key=lambda r: r.request)] == [0, 100, 200, 250, 900]


def test_a_stall_over_the_end_still_sends_what_was_due_before_it():
    """Arrivals due before the end are sent although the loop only gets to them after it."""
    clock = VirtualClock()
    run = drive(Trace(specs_at(0, 9_990, 9_995)), lambda s: stall(clock, 50 * (s.request == 1)), clock=clock)
    assert [(at - ORIGIN) // MS for at, _, _ in run.server.sent] == [0, 9_990, 10_040]
    assert run.outcome.completed == 3


def test_after_the_end_nothing_leaves_the_queue_of_a_cap_and_nothing_jumps_it():
    """A stall over the end: the held request stays unsent, and a later one of its class doesn't go in its place."""
    chat = specs_at(0, 10, 9_996)
    bulk = (replace(chat[0], request=9, class_name="bulk", offset_ns=9_990 * MS),)
    clock = VirtualClock()
    run = drive(
        Trace((*chat[:2], *bulk, chat[2])),
        lambda s: 9_995 * MS if s.request == 0 else stall(clock, 50),
        caps={"chat": 1},
        clock=clock,
    )
    assert [s.request for _, s, _ in run.server.sent] == [0, 9]
    assert {r.request: r.outcome for r in run.records} == {0: "ok", 9: "ok", 1: "cancelled", 2: "cancelled"}


def test_a_stop_holds_from_the_very_turn_it_is_set():
    """Of 50 requests due at one moment none leaves after the stop that the first one sets; all are recorded."""
    stop = asyncio.Event()
    run = drive(Trace(specs_at(*[5] * 50)), lambda _: stop.set() or 0, stop=stop)
    assert len(run.server.sent) <= 2  # the second was handed over in the turn in which the first one ran
    assert len(run.records) == 50


def test_a_stop_holds_the_queue_of_a_cap_too():
    """A capped request that ends in the turn of the stop doesn't let the next one out."""
    stop = asyncio.Event()
    run = drive(
        Trace(specs_at(0, 1, 1, 1)),
        lambda s: 10 * MS if s.request == 0 else stop.set() or 0,
        caps={"chat": 1},
        stop=stop,
    )
    assert [s.request for _, s, _ in run.server.sent] == [0, 1]
    assert [r.outcome for r in sorted(run.records, key=lambda r: r.request)] == ["ok", "ok", "cancelled", "cancelled"]


def test_cap_holds_requests_on_our_side_and_their_wait_counts():
    """With a cap of 2 the third request waits here, first come first served, and stays scheduled at its arrival."""
    run = drive(Trace(specs_at(0, 10, 20, 30)), 1 * S, caps={"chat": 2})
    assert [(at - ORIGIN) // MS for at, _, _ in run.server.sent] == [0, 10, 1000, 1010]
    assert [s.request for _, s, _ in run.server.sent] == [0, 1, 2, 3]
    third = next(r for r in run.records if r.request == 2)
    assert (third.scheduled_ns, third.sent_ns) == (20 * MS, 1000 * MS)


def test_a_cap_of_one_class_does_not_hold_another():
    """Caps are per class: background waits, chat goes through."""
    chat = tuple(replace(s, request=10 + s.request) for s in specs_at(5, 15))
    run = drive(
        Trace(tuple(sorted((*specs_at(0, 1, name="bulk"), *chat), key=lambda s: s.offset_ns))), S, caps={"bulk": 1}
    )
    assert [(s.class_name, (at - ORIGIN) // MS) for at, s, _ in run.server.sent] == [
        ("bulk", 0), ("chat", 5), ("chat", 15), ("bulk", 1000),
    ]  # fmt: skip


def test_what_the_cap_held_to_the_end_is_cancelled_unsent():
    """At the end of the window nothing new is sent: what still waits becomes a cancelled record without sent_ns."""
    run = drive(Trace(specs_at(0, 10, 20)), 9_995 * MS, caps={"chat": 1}, drain_s=10)
    by_request = {r.request: r for r in run.records}
    assert (by_request[1].outcome, by_request[1].sent_ns) == ("ok", 9_995 * MS)
    assert (by_request[2].outcome, by_request[2].sent_ns, by_request[2].scheduled_ns) == ("cancelled", None, 20 * MS)
    assert by_request[2].error_kind == "cancelled"
    assert (run.outcome.scheduled, run.outcome.sent) == (3, 2)


@pytest.mark.parametrize("answers_cancel", [True, False])
def test_running_requests_are_cut_after_the_drain(answers_cancel: bool):
    """What still runs after the drain is cut; send's own record with its partial answer is kept when it gives one."""
    run = drive(Trace(specs_at(0, 9000)), lambda s: 60 * S, answers_cancel=answers_cancel)
    assert run.clock.now == ORIGIN + 15 * S
    assert [r.outcome for r in run.records] == ["cancelled"] * 2
    assert {r.token_events for r in run.records} == ({3} if answers_cancel else {0})
    assert [r.scheduled_ns for r in sorted(run.records, key=lambda r: r.request)] == [0, 9000 * MS]


def test_stop_ends_sending_and_cuts_at_once():
    """At a stop nothing more is sent, the running are cut, and the rest of the window is recorded as cancelled."""
    run = drive(Trace(specs_at(0, 1000, 2000, 3000, 11_000)), 1_500 * MS, stop_at_s=2.0)
    assert run.clock.now == ORIGIN + 2 * S
    assert run.outcome.stopped
    assert {r.request: (r.outcome, r.sent_ns) for r in run.records} == {
        0: ("ok", 0), 1: ("cancelled", 1000 * MS), 2: ("cancelled", None), 3: ("cancelled", None),
    }  # fmt: skip


def test_stop_ends_the_drain():
    """A stop during the drain cuts what runs at once."""
    assert drive(Trace(specs_at(9000)), 60 * S, stop_at_s=11.0).clock.now == ORIGIN + 11 * S


def test_closed_loop_sends_when_the_worker_is_free_and_has_thought():
    """One worker, 2 s answers, 1 s think time: sends at 0, 3, 6, 9 s, each scheduled at that moment."""
    run = drive(Trace((), (closed(1, think_ms=1000),)), 2 * S)
    assert [(at - ORIGIN) // S for at, _, _ in run.server.sent] == [0, 3, 6, 9]
    assert all(at == scheduled for at, _, scheduled in run.server.sent)
    assert [r.scheduled_ns // S for r in run.records] == [0, 3, 6, 9]
    assert run.outcome.cancelled == 0  # the last one ends in the drain


@pytest.mark.parametrize(("case", "workers"), [("B01", 128), ("1,024 streams", 1024)])
def test_closed_loop_keeps_every_worker_busy(case: str, workers: int):
    """B01: 128 workers are 128 requests at the server at once, all sent at the origin; so are 1,024."""
    run = drive(Trace((), (closed(workers),)), 100 * S, end_s=1.0)
    assert run.server.most_running["chat"] == workers
    assert {at for at, _, _ in run.server.sent} == {ORIGIN}
    assert len(run.records) == workers


@pytest.mark.parametrize("stopped", [False, True])
def test_a_user_goes_on_while_the_last_answer_is_still_to_be_read(stopped: bool):
    """A `send` that gives a future frees its user at once; the record is booked when it comes, also after the end."""
    clock = VirtualClock()
    stop = asyncio.Event()
    sent: list[int] = []
    records: list[tuple[int, int]] = []

    async def read(record: asyncio.Future[RequestRecord], spec: RequestSpec, scheduled_ns: int) -> None:
        await clock.sleep_until(clock.now + 4 * S)
        record.set_result(replace(unsent_record(spec, scheduled_ns - ORIGIN, 0, ""), outcome="ok", error_kind=None))

    async def main() -> LoadOutcome:
        readers = set()

        async def send(spec: RequestSpec, scheduled_ns: int) -> asyncio.Future[RequestRecord]:
            sent.append(clock.now - ORIGIN)
            await clock.sleep_until(clock.now + S)
            record = asyncio.get_running_loop().create_future()
            readers.add(asyncio.create_task(read(record, spec, scheduled_ns)))
            if stopped and len(sent) == 3:
                stop.set()
            return record

        return await run_load(
            Trace((), (closed(1),)), send, origin_ns=ORIGIN, end_ns=ORIGIN + 3 * S, drain_ns=10 * S,
            now_ns=lambda: clock.now, on_record=lambda r: records.append((r.request, clock.now - ORIGIN)), stop=stop,
            max_in_flight={}, sleep_until=clock.sleep_until,
        )  # fmt: skip

    outcome = clock.run(main())
    assert sent == [0, S, 2 * S]
    assert records == [(0, 5 * S), (1, 6 * S), (2, 7 * S)]
    assert (outcome.scheduled, outcome.completed, outcome.end_ns) == (3, 3, ORIGIN + 7 * S)


def test_pool_of_mixed_classes_shares_its_workers():
    """Classes mixed in one pool never run more than the pool's workers together, and each request is taken once."""
    run = drive(Trace((), (closed(3, names=("a", "b")),)), 400 * MS)
    numbers = [s.request for _, s, _ in run.server.sent]
    assert numbers == list(range(75))  # 3 workers x 10 s / 0.4 s
    assert {s.class_name for _, s, _ in run.server.sent} == {"a", "b"}


def test_a_dead_server_is_not_hammered_by_closed_workers():
    """A worker whose request failed at once waits a second before the next; open loop arrivals don't change."""
    run = drive(Trace((), (closed(2),)), 0, outcome="error")
    assert FAILED_PAUSE_NS == S
    assert run.outcome.failed == len(run.server.sent) == 20
    open_run = drive(Trace(specs_at(0, 1, 2, 3)), 0, outcome="error")
    assert [(at - ORIGIN) // MS for at, _, _ in open_run.server.sent] == [0, 1, 2, 3]


def test_cap_on_a_closed_class_limits_its_workers():
    """A cap below the number of workers holds the others' requests here; they go out as the first end."""
    run = drive(Trace((), (closed(4),)), S, caps={"chat": 2}, end_s=2.5)
    assert run.server.most_running["chat"] == 2
    assert [(at - ORIGIN) // S for at, _, _ in run.server.sent] == [0, 0, 1, 1, 2, 2]
    assert run.outcome.cancelled == 2  # scheduled, still behind the cap at the end


def test_cap_of_none_sends_none_of_its_class():
    """A class with a cap of 0 stays here to the end, in open loop and with users; each request is one record."""
    run = drive(Trace(specs_at(0, 1, 2)), S, caps={"chat": 0}, end_s=4)
    assert run.server.sent == []
    assert (run.outcome.scheduled, run.outcome.cancelled) == (3, 3)
    users = drive(Trace((), (closed(4),)), S, caps={"chat": 0}, end_s=4)
    assert users.server.sent == []
    assert (users.outcome.scheduled, users.outcome.cancelled) == (4, 4)


@pytest.mark.parametrize("where", ["send", "on_record"])
def test_a_fault_of_ours_is_raised_not_counted(where: str):
    """An exception from send or on_record is a bug or a full disk: the load ends at once and raises it."""
    clock = VirtualClock()
    server = Server(clock, lambda _: MS)
    fault = OSError("disk full")

    async def bad_send(spec: RequestSpec, scheduled_ns: int) -> RequestRecord:
        raise fault

    def bad_record(_: RequestRecord) -> None:
        raise fault

    run = run_load(
        Trace(specs_at(1000, 2000)), bad_send if where == "send" else server.send, origin_ns=ORIGIN,
        end_ns=ORIGIN + 10 * S, drain_ns=S, now_ns=lambda: clock.now,
        on_record=bad_record if where == "on_record" else lambda _: None,
        stop=asyncio.Event(), max_in_flight={}, sleep_until=clock.sleep_until,
    )  # fmt: skip
    with pytest.raises(OSError, match="disk full"):
        clock.run(run)
    assert clock.now < ORIGIN + 1100 * MS


def test_cancelling_the_run_leaves_no_request_behind():
    """When the run itself is cancelled, every running request is cut and recorded before it ends."""
    clock = VirtualClock()
    server = Server(clock, lambda _: 60 * S)
    records: list[RequestRecord] = []

    async def main() -> int:
        task = asyncio.create_task(
            run_load(
                Trace(specs_at(0, 1), (closed(2),)), server.send, origin_ns=ORIGIN, end_ns=ORIGIN + 10 * S,
                drain_ns=S, now_ns=lambda: clock.now, on_record=records.append, stop=asyncio.Event(),
                max_in_flight={}, sleep_until=clock.sleep_until,
            )
        )  # fmt: skip
        await clock.sleep_until(ORIGIN + S)
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        return len(asyncio.all_tasks())

    assert clock.run(main()) == 1
    assert [r.outcome for r in records] == ["cancelled"] * 4
    assert sum(server.now_running.values()) == 0


requests = st.lists(
    st.tuples(st.integers(0, 120), st.sampled_from(["chat", "rag", "bulk"]), st.integers(0, 60)), max_size=40
)


@settings(max_examples=150)
@given(
    requests=requests,
    caps=st.dictionaries(st.sampled_from(["chat", "rag", "bulk"]), st.integers(1, 4)),
    drain=st.integers(0, 30),
    stop_at=st.none() | st.integers(0, 150),
    answers_cancel=st.booleans(),
)
def test_conservation_order_and_caps(
    requests: list[tuple[int, str, int]],
    caps: dict[str, int],
    drain: int,
    stop_at: int | None,
    answers_cancel: bool,
):
    """Whatever comes: one record each, caps are kept, each class goes out in order, nobody leaves before its time."""
    requests.sort(key=lambda r: r[0])
    trace = Trace(tuple(RequestSpec(i, name, 0, at * MS, 1, 1, i, i) for i, (at, name, _) in enumerate(requests)))
    run = drive(
        trace, lambda s: requests[s.request][2] * MS, end_s=0.1, drain_s=drain / 1000, caps=caps,
        stop_at_s=None if stop_at is None else stop_at / 1000, answers_cancel=answers_cancel,
    )  # fmt: skip
    due = [i for i, (at, _, _) in enumerate(requests) if at < 100]
    assert sorted(r.request for r in run.records) == due
    o = run.outcome
    assert o.scheduled == len(due) == o.completed + o.failed + o.cancelled
    assert o.sent == len(run.server.sent) >= o.completed
    assert all(run.server.most_running[name] <= cap for name, cap in caps.items())
    for name in ("chat", "rag", "bulk"):
        order = [s.request for _, s, _ in run.server.sent if s.class_name == name]
        assert order == sorted(order)
    assert all(at >= scheduled == ORIGIN + (s.offset_ns or 0) for at, s, scheduled in run.server.sent)
    assert all(r.scheduled_ns == requests[r.request][0] * MS for r in run.records)
    assert run.clock.now <= ORIGIN + 100 * MS + drain * MS


def test_real_clock_run_keeps_its_schedule():
    """On the real clock 500 req/s for 0.6 s all leave, none early, in order, with the lag a small part of the run."""
    c = RequestClass.model_validate(
        {"name": "chat", "rate": 500, "arrival": "constant", "prompt_tokens": 5, "output_tokens": 5}
    )
    lags: list[int] = []

    async def send(spec: RequestSpec, scheduled_ns: int) -> RequestRecord:
        lags.append(time.monotonic_ns() - scheduled_ns)
        await asyncio.sleep(0.05)
        return replace(unsent_record(spec, spec.offset_ns or 0, 0, ""), outcome="ok")

    async def main() -> LoadOutcome:
        origin = time.monotonic_ns() + 20 * MS
        return await run_load(
            build_trace([c], {}, 0.6, 1), send, origin_ns=origin, end_ns=origin + 600 * MS, drain_ns=5 * S,
            now_ns=time.monotonic_ns, on_record=lambda _: None, stop=asyncio.Event(), max_in_flight={},
        )  # fmt: skip

    assert asyncio.run(main()).completed == 300
    assert min(lags) >= 0
    assert sorted(lags)[150] < 20 * MS
