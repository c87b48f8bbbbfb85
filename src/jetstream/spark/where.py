"""`where=`: simple predicates turned into options, so that only the needed ranges leave the server.

Spark 4.3's own filter pushdown for Python sources gives wrong results when a DataFrame is reused,
so we read the predicate ourselves. Terms on seq, time and subject joined by AND are pushed;
everything else is left to Spark. The whole predicate is applied as a filter in any case: pushing
may only leave out what the filter would drop anyway.
"""

import re

_SEQ = re.compile(r"seq\s*(<=|>=|<|>|=)\s*(\d+)", re.IGNORECASE)
_SEQ_BETWEEN = re.compile(r"seq\s+between\s+(\d+)\s+and\s+(\d+)", re.IGNORECASE)
_TIME = re.compile(r"time\s*(<=|>=|<|>|=)\s*(?:timestamp\s*)?'([^']+)'", re.IGNORECASE)
_SUBJECT = re.compile(r"subject\s*=\s*'([^']+)'", re.IGNORECASE)
_SUBJECT_IN = re.compile(r"subject\s+in\s*\(([^()]*)\)", re.IGNORECASE)
_SUBJECT_LIKE = re.compile(r"subject\s+like\s+'([^']+)'", re.IGNORECASE)
_LITERAL = re.compile(r"\s*'([^']*)'\s*")


def pushed(where: str, streaming: bool = False) -> dict[str, str]:
    """The options a predicate allows. A stream has no end, so only its start is pushed there."""
    low, high = 1, 0
    after, before = "", ""
    subjects: list[str] | None = None
    for term in terms(where):
        found = _of_seq(term)
        if found is not None:
            low, high = (
                max(low, found[0]),
                min(high or found[1], found[1] or high) if found[1] else high,
            )
        elif match := _TIME.fullmatch(term):
            moment = _moment(match[2])
            if moment and match[1] in (">", ">=", "="):
                after = max(after, moment)
            if moment and match[1] == "<":
                before = min(before or moment, moment)
        elif (names := _of_subject(term)) is not None and subjects is None:
            subjects = names
    options: dict[str, str] = {}
    if low > 1:
        options["startingOffsets"] = str(low)
        # The predicate asks for a range, not for a promise that it still exists.
        options["failOnDataLoss"] = "false"
    if after and low <= 1:
        options["startingTimestamp"] = after
    if high and not streaming:
        options["endingOffsets"] = str(high)
    if before and not streaming:
        options["endingTimestamp"] = before
    if subjects:
        options["filterSubjects"] = ",".join(subjects)
    return options


def terms(where: str) -> list[str]:
    """The parts joined by AND at the top; none when an OR stands there."""
    parts: list[str] = [""]
    depth = 0
    words = re.findall(
        r"'(?:[^']|'')*'|[()]|\band\b|\bor\b|\bbetween\b|.", where, re.IGNORECASE | re.DOTALL
    )
    between = False
    for word in words:
        low = word.lower()
        depth += (word == "(") - (word == ")")
        if low == "between":
            between = True
        if low == "or" and depth == 0:
            return []
        if low == "and" and depth == 0 and not between:
            parts.append("")
            continue
        if low == "and":
            between = False
        parts[-1] += word
    return [_bare(part) for part in parts]


def _bare(term: str) -> str:
    term = term.strip()
    while term.startswith("(") and term.endswith(")") and term.count("(") == 1:
        term = term[1:-1].strip()
    return term


def _of_seq(term: str) -> tuple[int, int] | None:
    """(first, last) of a term on seq; last 0 means open."""
    if match := _SEQ_BETWEEN.fullmatch(term):
        return int(match[1]), int(match[2])
    match = _SEQ.fullmatch(term)
    if not match:
        return None
    value = int(match[2])
    return {
        "=": (value, value),
        ">": (value + 1, 0),
        ">=": (value, 0),
        "<": (1, max(value - 1, 1)),
        "<=": (1, max(value, 1)),
    }[match[1]]


def _of_subject(term: str) -> list[str] | None:
    if match := _SUBJECT.fullmatch(term):
        return [match[1]] if _plain(match[1]) else None
    if match := _SUBJECT_IN.fullmatch(term):
        names = [m[1] for part in match[1].split(",") if (m := _LITERAL.fullmatch(part))]
        whole = len(names) == len(match[1].split(",")) and all(map(_plain, names))
        return names if whole else None
    if match := _SUBJECT_LIKE.fullmatch(term):
        # 'a.b.%' and 'a.b%' both begin with the tokens before the last dot of their fixed part.
        fixed = re.split(r"[%_]", match[1])[0]
        front = fixed.rpartition(".")[0]
        return [f"{front}.>"] if front and _plain(front) else None
    return None


def _plain(subject: str) -> bool:
    return bool(subject) and not re.search(r"[\s*>,%]", subject)


def _moment(text: str) -> str:
    """A time literal as RFC 3339 in UTC; '' when it has a form only Spark knows."""
    match = re.fullmatch(
        r"(\d{4}-\d\d-\d\d)(?:[T ](\d\d:\d\d:\d\d(?:\.\d{1,9})?)(Z?))?", text.strip()
    )
    return f"{match[1]}T{match[2] or '00:00:00'}Z" if match else ""
