"""Text of JSON files: laid out for readers, and parsed with limits and without surprises."""

import json
import re
from collections import Counter
from math import isfinite
from typing import Any

import numpy as np

# Longest text, deepest nesting, and longest integer that are read.
MOST_CHARACTERS, DEEPEST, MOST_DIGITS = 1 << 29, 64, 300

# Also one that does not end, so that none is read more than once.
_STRING = re.compile(r'"(?:[^"\\]|\\.)*(?:"|\\?\Z)', re.DOTALL)


def laid_out(value: Any, indent: str = "") -> str:
    """JSON with one line for each member of an object and for each array, or row of one."""
    more = indent + "  "
    if isinstance(value, dict) and value:
        members = [f"{json.dumps(name)}: {laid_out(x, more)}" for name, x in value.items()]
        return _lines("{}", members, indent)
    if isinstance(value, list) and any(isinstance(x, dict | list) for x in value):
        return _lines("[]", [laid_out(x, more) for x in value], indent)
    return json.dumps(value, allow_nan=False)


def _lines(brackets: str, members: list[str], indent: str) -> str:
    inside = f",\n{indent}  ".join(members)
    return f"{brackets[0]}\n{indent}  {inside}\n{indent}{brackets[1]}"


def parsed(text: str) -> Any:
    """The value of a text in JSON, whose numbers are finite and whose names differ."""
    if len(text) > MOST_CHARACTERS:
        raise ValueError(
            f"The text must have at most {MOST_CHARACTERS:,} characters, got {len(text):,}. Save "
            "larger calibrators with skops."
        )
    depth = _depth(text)
    if depth > DEEPEST:
        raise ValueError(
            f"The text must be nested at most {DEEPEST} deep, got {depth}. Save calibrators inside "
            "so many others with skops."
        )
    try:
        return json.loads(
            text,
            object_pairs_hook=_members,
            parse_float=_float,
            parse_int=_integer,
            parse_constant=_constant,
        )
    except json.JSONDecodeError as error:
        raise ValueError(
            f"The text must be JSON, got what ends or breaks off in line {error.lineno}, column "
            f"{error.colno}: {error.msg}. Pass the text that to_json returned, not the name of a "
            "file."
        ) from error


def _depth(text: str) -> int:
    """How deep brackets are nested, outside of strings."""
    letters = np.frombuffer(_STRING.sub("", text).encode("utf-8", "replace"), np.uint8)
    opening = np.isin(letters, np.frombuffer(b"[{", np.uint8))
    closing = np.isin(letters, np.frombuffer(b"]}", np.uint8))
    steps = opening[opening | closing].astype(np.int64) * 2 - 1
    return int(np.cumsum(steps).max(initial=0))


def _members(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):
        twice, _ = Counter(name for name, _ in pairs).most_common(1)[0]
        raise ValueError(f"The text must name each member once, got {twice!r:.100} twice.")
    return found


def _float(text: str) -> float:
    value = float(text)
    if not isfinite(value):
        raise ValueError(f"The text must hold numbers of double precision, got {text:.100}.")
    return value


def _integer(text: str) -> int:
    if len(text) > MOST_DIGITS:
        raise ValueError(f"The text must hold numbers of double precision, got {text:.20}....")
    return int(text)


def _constant(text: str) -> float:
    raise ValueError(f"The text must be JSON, got {text}. Numbers that are not finite are strings.")
