"""The method page's sentences: definitions and sources, the choice, the limits of what can be known. PURE."""

from app.words import Words

Entry = tuple[str, str]  # a term and what it means


def metrics(w: Words) -> list[Entry]:
    """What is measured, exactly."""
    return [
        (
            w.text("TTFT, first token"),
            w.text(
                "Time to the first piece of generated text. With arrivals by the clock it counts from the moment the "
                "request was due, not from when it was sent: a client that falls behind would otherwise hide the queue "
                "(coordinated omission). With a fixed number of users it counts from sending. Role-only and empty "
                "chunks do not count."
            ),
        ),
        (
            w.text("answer TTFT"),
            w.text("The same for the first text of the answer itself, where a model thinks first."),
        ),
        (
            w.text("gap, ITL"),
            w.text(
                "Time between two chunks of text of one answer. Several tokens in one chunk are one gap; a run in "
                "which that happens says so."
            ),
        ),
        (
            w.text("TPOT"),
            w.text("From first to last chunk, divided by output tokens less one. Nothing for a single token."),
        ),
        (w.text("E2E"), w.text("From the moment the request was due to its last chunk.")),
        (
            w.text("output tok/s"),
            w.text("Tokens that arrived inside the measured window, per second of it. Prompt tokens are kept apart."),
        ),
        (
            w.text("token counts"),
            w.text(
                "What the server says in usage, else in its timings; only where it says nothing chunks are counted, "
                "and marked as an estimate. Never the length that was asked for."
            ),
        ),
        (
            w.text("cell numbers"),
            w.text(
                "A cell is one setting at one load, in one repeat. Pages count cells and repeats from 1; the keys of "
                "files, JSON and CSV count from 0."
            ),
        ),
        (
            w.text("clock"),
            w.text("On Linux each read carries the time at which the kernel received it; elsewhere the program's own."),
        ),
        (
            w.text("batch, seen from outside"),
            w.text(
                "A server that batches sends one token of every running answer at the end of a step, so tokens arrive "
                "in bursts. Where bursts and the pauses between them clearly part, the answers in a burst are counted: "
                "sequences a step, whether the server tells it or not. Steps that send nothing can't be seen."
            ),
        ),
        (
            w.text("bound by"),
            w.text(
                "What held a setting back at a load, by the first rule that has its evidence: the client did not make "
                "the load; the KV cache was full while requests waited, or threw some out; the limit of sequences was "
                "reached for a fifth of the time with others waiting; steps were full of tokens, most prompts were "
                "longer than the token budget, or requests queued though seats and cache were free; else only the "
                "load. Where the server tells too little, it says so."
            ),
        ),
    ]


def goodput(w: Words) -> list[Entry]:
    """What counts as kept, and why not the mean."""
    return [
        (
            w.text("inside targets"),
            w.text(
                "The request ended well, its first token came in time, and at least 99 % of its own gaps were in time "
                "(with up to 99 gaps: every gap). Failed, rejected and timed-out requests are misses. A request cut by "
                "our own end of run is left out, unless its first token was late already."
            ),
        ),
        (w.text("goodput"), w.text("Requests per second inside their targets, over all classes that have some.")),
        (
            w.text("other rules"),
            w.text(
                "mean_tpot looks at the mean time per token, as vLLM's --goodput, DistServe and guidellm do; "
                "every_gap allows no late gap; deadline gives each token its own moment; fluidity asks for a share of "
                "those deadlines. All are always worked out; a choice that depends on the rule is warned of."
            ),
        ),
        (
            w.text("why not the mean"),
            w.text(
                "A mean cannot see a freeze. With three token budgets the mean rule gave 95, 95 and 96 % inside "
                "targets where the default rule gave 95, 53 and 65 %: a third of the chats stood still for over a "
                "quarter of a second."
            ),
        ),
    ]


def choice(w: Words) -> list[Entry]:
    """How the pick is made, and when a number is not shown."""
    return [
        (
            w.text("the pick"),
            w.text(
                "Among settings where the lower end of the 95 % interval of every class's share reaches the share "
                "wanted, and whose queue does not grow: the most goodput, then the most background work. If none "
                "qualifies, the most goodput, and it says so. Raw tokens per second are shown, never chosen by."
            ),
        ),
        (w.text("frontier"), w.text("The points that no other point beats in both raw output and goodput.")),
        (
            w.text("same arrivals"),
            w.text(
                "Every setting sees the same arrivals and lengths, drawn once from the seed and stretched to the rate, "
                "so that settings are compared and not draws."
            ),
        ),
        (
            w.text("intervals"),
            w.text(
                "95 %, Wilson, at the effective number of requests: neighbours in a queue share their fate, so near "
                "the limit a plain interval is several times too narrow."
            ),
        ),
        (
            w.text("percentiles"),
            w.text(
                "Values that really happened. Shown only where the sample allows an interval: 36 for p90, 72 for p95, "
                "368 for p99. Beside work without targets, tiles and figures show the slowest class with targets; the "
                "table of every number counts all requests."
            ),
        ),
        (
            w.text("warm-up"),
            w.text(
                "The larger of 30 s and a tenth is dropped, by scheduled arrival; a quarter in short runs, which are "
                "then called indicative."
            ),
        ),
        (
            w.text("invalid points"),
            w.text(
                "A point is hollow and can't be chosen when something else than the server was measured: the load "
                "generator was the limit, requests left late, the rate was not reached, a prefix cache answered, the "
                "model was loaded meanwhile, a proxy buffered the stream, there was no steady state, or the queue only "
                "grew."
            ),
        ),
    ]


def searches(w: Words) -> list[Entry]:
    """What the quick check, the searches and the comparisons say, and how sure that is."""
    return [
        (
            w.text("quick check"),
            w.text(
                "1, 2, 4 and 8 people chat in short turns, 15 s each, with the server as it is. It tells the most "
                "people of whom 90 % of the answers seen kept 1 s and 150 ms. So few answers prove nothing: no "
                "interval is given, and a sweep may find less."
            ),
        ),
        (
            w.text("largest load"),
            w.text(
                "For each setting the load is raised and lowered until the share wanted is crossed, each time with "
                "other arrivals; a curve through all of them gives the load and its interval. Where the share falls "
                "slowly there is no sharp limit, and it says so."
            ),
        ),
        (
            w.text("best setting within a time"),
            w.text(
                "All settings are looked at shortly, the worse half is dropped, the rest is measured longer; at last "
                "the winner is held against the present setting. A short time gives an indication."
            ),
        ),
        (
            w.text("comparison"),
            w.text(
                "Where both sides saw the same arrivals, request by request; else by their intervals. With several "
                "settings the threshold is made stricter (Holm). A difference that may be chance is called noise."
            ),
        ),
    ]


def other_tools(w: Words) -> list[Entry]:
    """How other tools define what they call by the same names; an imported result carries this as a badge."""
    return [
        (w.text("all of them"), w.text("TTFT counts from sending, so a client that falls behind hides the queue.")),
        (
            "vLLM, SGLang",
            w.text(
                "TPOT is (E2E - TTFT) / (tokens - 1). vLLM takes a chunk that only names the role for the first token."
            ),
        ),
        ("guidellm", w.text("TPOT is E2E by all tokens: it includes TTFT.")),
        ("aiperf", w.text("Its ITL is vLLM's TPOT; its inter-chunk latency is vLLM's ITL.")),
        ("llmperf", w.text("Its ITL includes TTFT.")),
    ]


def limits(w: Words) -> list[Entry]:
    """What this tool cannot know."""
    return [
        (
            w.text("your users"),
            w.text("Arrivals and lengths are a model of them. A result holds for the workload that was described."),
        ),
        (
            w.text("quality"),
            w.text("Prompts are made of words without sense. Whether answers are good is not looked at."),
        ),
        (
            w.text("inside the server"),
            w.text(
                "Queue, batch and cache are what the server tells about itself. Without its metrics only what a client "
                "sees is known; queue and prefill of a single request can't be told apart."
            ),
        ),
        (
            w.text("the built-in engine"),
            w.text(
                "It follows published schedulers and a cost model of public benchmark tables. It shows how settings "
                "act, not how fast your card is."
            ),
        ),
        (
            w.text("short runs"),
            w.text("A cell of seconds has seen few requests. Before you act on a result, measure longer."),
        ),
    ]


def sources(w: Words) -> list[Entry]:
    """Where definitions and defaults come from."""
    return [
        ("DistServe (OSDI 2024)", w.text("goodput as requests inside TTFT and TPOT targets; per-application targets")),
        ("Sarathi-Serve (OSDI 2024)", w.text("chunked prefill, stalls of running answers, targets on token gaps")),
        ("Etalon (2024)", w.text("token deadlines and the fluidity index")),
        ("MLPerf Inference", w.text("targets of Llama chat scenarios")),
        ("Splitwise (ISCA 2024)", w.text("the public traces of Azure: arrivals and lengths of chats and of code")),
        ("Orca (OSDI 2022), vLLM (SOSP 2023)", w.text("iteration-level batching, paged KV cache")),
    ]
