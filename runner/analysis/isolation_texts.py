"""What an isolation experiment says: the verdict, and why of an arm nothing is known."""

# id -> template; `costs` is a template of its own
TEXTS = {
    "nothing_needed": (
        "Nothing is needed: with {background} as it is, {share} of the {chats} requests meet their targets (95 % "
        "interval {low} to {high}), and {target} are wanted{costs}."
    ),
    "arm": "{arm}: {chats} share {share} instead of {was} (95 % interval {low} to {high}){costs}.",
    "arm_noise": (
        "{arm}: {chats} share {share} instead of {was} (95 % interval {low} to {high}){costs}; the difference may be "
        "noise, measure longer to be sure."
    ),
    "window": (
        "No cap and no priority keeps {target} for sure: give {background} a time window of its own; then the {chats} "
        "share is {share} instead of {was} (95 % interval {low} to {high}){costs}."
    ),
    "alone_misses": (
        "Keeping {background} away does not help enough: even alone the {chats} share is only {alone}, and {target} "
        "are wanted; lower the load or change the server's settings. As it is: {was}{costs}."
    ),
    "unsure": (
        "With {n} {chats} requests each, no arm is proven to keep {target}. {arm} comes nearest: {chats} share {share} "
        "instead of {was} (95 % interval {low} to {high}){costs}. Measure longer."
    ),
    "noise": (
        "The difference is noise: the {chats} share is {was} with {background} as it is, and no arm differs from that "
        "by more than its 95 % interval; {target} are wanted. Measure longer."
    ),
    "none_helps": (
        "No arm keeps {target}. {arm} comes nearest: {chats} share {share} instead of {was} (95 % interval {low} to "
        "{high}){costs}."
    ),
    "costs_nothing": "",
    "takes": ", {background} takes {now} instead of {before} {unit}",
    "takes_this": ", {background} takes {now} {unit}",
    "works": ", {background} writes {now} instead of {before} tok/s",
    "works_this": ", {background} writes {now} tok/s",
    "never_ends": ", {background} does not end in the time measured",
    "only_as_is": (
        "With {background} as it is the {chats} share is {share} (95 % interval {low} to {high}), and {target} are "
        "wanted{costs}; no way of keeping it apart was measured, because {why}. Measure again."
    ),
    "no_as_is_arm": (
        "With {background} as it is nothing can be said, because {why}. {arm} keeps {target} for sure: {chats} share "
        "{share} (95 % interval {low} to {high}){costs}."
    ),
    "no_as_is_alone_misses": (
        "With {background} as it is nothing can be said, because {why}. Even alone the {chats} share is only {alone}, "
        "and {target} are wanted: lower the load or change the server's settings."
    ),
    "no_as_is_nearest": (
        "With {background} as it is nothing can be said, because {why}. {arm} comes nearest to {target} without a "
        "proof: {chats} share {share} (95 % interval {low} to {high}){costs}. Measure again."
    ),
    "no_as_is_alone": (
        "With {background} as it is nothing can be said, because {why}. Only {chats} alone were measured: share "
        "{share} (95 % interval {low} to {high}), and {target} are wanted. Measure again."
    ),
}
# what became of an arm of which nothing is known; a failed one is told by runner.analysis.choice.WHY where it can be
WHY_NOT = {
    "failed": "its cell failed",
    "skipped": "its cell was skipped",
    "pending": "the sweep ended before it was measured",
    "empty": "nobody who waits sent a request in the time that was measured",
}
