"""What is wrong in a sweep file, as one plain sentence. PURE."""

import reprlib

from pydantic import ValidationError

MOST_KEY_CHARS = 120
_short = reprlib.Repr()  # what stands in a file may be of any length and depth
_short.maxstring = _short.maxother = 80


def plain_error(error: ValidationError) -> str:
    """The first problem as one sentence: key, what is wrong, how to mend."""
    first = error.errors(include_url=False)[0]
    key = one_line(".".join(str(p) for p in first["loc"]))
    if first["loc"][0:1] == ("grid",) and len(first["loc"]) > 3:  # one error for each type a value may have
        return f"grid.{first['loc'][1]} lists {_short.repr(first['input'])}: give numbers, words or true and false"
    where = f"{key}: " if key else ""
    example = '["start.sh", "{max_num_seqs}"]' if first["loc"][0:1] == ("control",) else "[1, 2]"
    message = first["msg"].removeprefix("Value error, ").replace("valid tuple", f"list, such as {example}")
    if first["loc"][-1:] == ("api_key_env",):  # it may well be the key: never repeated
        return f"{key} is not the name of an environment variable; write the name there, never the key itself"
    if first["type"] == "truth_for_number":
        return f"{key}{'.' if key else ''}{first['msg']}"
    if first["type"] == "extra_forbidden":
        return f"{key} is not a known key; remove it or check its spelling"
    if first["type"] in ("model_type", "dict_type"):
        return f"{key or 'the file'} is {_short.repr(first['input'])}, where a table of keys must be"
    if first["type"] == "missing":
        return f"{key} is missing; add it"
    more = f" (and {error.error_count() - 1} more)" if error.error_count() > 1 else ""
    if key == "name" and first["type"] == "string_pattern_mismatch":
        return f"name is {_short.repr(first['input'])}; write it as one line of words"
    got = "" if first["type"] == "value_error" else f", not {_short.repr(first['input'])}"
    return f"{where}{message[0].lower() + message[1:]}{got}{more}"


def one_line(key: str) -> str:
    plain = "".join(c if c.isprintable() else "\N{REPLACEMENT CHARACTER}" for c in key)
    return plain if len(plain) <= MOST_KEY_CHARS else plain[:MOST_KEY_CHARS] + "…"
