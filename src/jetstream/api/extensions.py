"""`$JSX.API.…`: what our server answers beyond the reference.

    CONSUMER.EXPLAIN.<stream>.<consumer>      why it delivers nothing, in one sentence
    CONSUMER.LIFE.<stream>.<consumer>         {"seq": n}: what happened to one message
    DEAD.LIST.<letters>                       dead letters, page by page, by reason, subject, time
    DEAD.SHOW.<letters>                       {"seq": n}: one letter with headers and body
    DEAD.REDRIVE.<letters>                    put letters back into their streams
    DEAD.DROP.<letters>                       forget letters
    DLQ.LIST|REDRIVE|DROP.<stream>.<consumer> the same for the letters of one consumer

Requests and answers are JSON like those of `$JS.API`, under a prefix of their own: strict clients
never meet a field they do not know.
"""

from array import array
from collections.abc import Callable, Iterator, Sequence
from typing import Any, Final

from msgspec import Struct, field

from jetstream.api.route import ApiRequest
from jetstream.consumer.explain import explain
from jetstream.consumer.recorder import Event
from jetstream.engine import consumers, letters
from jetstream.engine.account import JetStreamAccount, StreamAsset
from jetstream.engine.letters import Letter
from jetstream.errors import ApiError
from jetstream.schema.api_errors import BAD_REQUEST, NO_MESSAGE_FOUND
from jetstream.schema.decoding import decode
from jetstream.schema.encoding import always, to_json
from jetstream.schema.requests import error_detail
from jetstream.schema.stream import ApiErrorDetail
from jetstream.schema.times import parse_rfc3339, rfc3339

PREFIX: Final = "$JSX.API."
TYPE: Final = "io.jetstream.x.v1."
PAGE: Final = 256
REDRIVE_MAX: Final = 10_000


class _Answer(Struct, omit_defaults=True, kw_only=True):
    type: str = always("")
    error: ApiErrorDetail | None = None


class Explained(_Answer, omit_defaults=True, kw_only=True):
    """Why a consumer delivers nothing, and the numbers behind it."""

    sentence: str = always("")
    num_pending: int = always(0)
    num_ack_pending: int = always(0)
    num_waiting: int = always(0)
    num_due: int = always(0)
    num_parked: int = always(0)
    num_held: int = 0


class LifeRequest(Struct):
    seq: int = 0


class LifeEvent(Struct, omit_defaults=True, kw_only=True):
    time: str
    what: str
    to: str = ""
    detail: str = ""


class Life(_Answer, omit_defaults=True, kw_only=True):
    """What happened to one message, oldest first."""

    seq: int = always(0)
    state: str = ""
    subject: str = ""
    events: list[LifeEvent] = field(default_factory=lambda: [])  # noqa: PIE807 - always printed


class Selection(Struct):
    """Which letters: all that meet every condition given."""

    seqs: list[int] = field(default_factory=list)
    reason: str = ""
    stream: str = ""
    consumer: str = ""
    subject: str = ""
    since: str = ""
    until: str = ""
    offset: int = 0
    limit: int = 0


class LetterList(_Answer, omit_defaults=True, kw_only=True):
    total: int = always(0)
    offset: int = always(0)
    limit: int = always(0)
    letters: list[Letter] = field(default_factory=lambda: [])  # noqa: PIE807 - always printed


class ShownLetter(_Answer, omit_defaults=True, kw_only=True):
    letter: Letter | None = None
    hdrs: bytes = b""
    data: bytes = b""


class Done(_Answer, omit_defaults=True, kw_only=True):
    count: int = always(0)


def answer(js: JetStreamAccount, subject: str, payload: bytes, now: int) -> bytes | None:
    """The JSON answer to a request below `$JSX.API.`; None: there is no such endpoint."""
    tokens = subject.removeprefix(PREFIX).split(".")
    handler = _HANDLERS.get((".".join(tokens[:2]), len(tokens) - 2))
    if handler is None:
        return None
    kind = TYPE + ".".join(tokens[:2]).lower().replace(".", "_") + "_response"
    try:
        made = handler(js, tokens[2:], payload or b"{}", now)
        made.type = kind
        return to_json(made)
    except ApiError as error:
        return to_json(_Answer(type=kind, error=error_detail(error)))


def reply(engine: Any, account: Any, js: JetStreamAccount | None, request: ApiRequest) -> bool:
    """Answer a request from the wire; False: nobody is there."""
    made = answer(js, request.subject, request.payload, request.now) if js is not None else None
    if made is not None and request.reply:
        engine.send(account, request.reply, made)
    return made is not None


def _explain(js: JetStreamAccount, names: Sequence[str], payload: bytes, now: int) -> Explained:
    found = consumers.find(js.stream(names[0]), names[1]).consumer
    return Explained(
        sentence=explain(found, now),
        num_pending=found.num_pending(),
        num_ack_pending=len(found.pending),
        num_waiting=len(found.pulls),
        num_due=len(found.pending.again),
        num_parked=found.pending.table.delayed,
        num_held=len(found.lanes.held) if found.lanes is not None else 0,
    )


def _life(js: JetStreamAccount, names: Sequence[str], payload: bytes, now: int) -> Life:
    found = consumers.find(js.stream(names[0]), names[1]).consumer
    seq = decode(payload, LifeRequest).seq
    message = found.view.get(seq)
    events: list[Event] = found.recorder.life_of(seq) if found.recorder is not None else []
    told = [LifeEvent(time=rfc3339(e.at), what=e.what, to=e.to, detail=e.detail) for e in events]
    if message is not None:
        told.insert(0, LifeEvent(time=rfc3339(message.time_ns), what="published"))
    subject = message.subject.decode("utf-8", "replace") if message is not None else ""
    return Life(seq=seq, state=_state_of(found, seq), subject=subject, events=told)


def _state_of(found: Any, seq: int) -> str:
    entry = found.pending.table.get(seq)
    if entry is not None:
        if found.pending.table.is_queued(seq):
            return f"due for delivery {entry[2] + 1}"
        return f"delivered {entry[2]} times, waits for its ack until {rfc3339(entry[3])}"
    if seq in found.pending.given_up:
        return f"given up after {found.pending.given_up[seq]} deliveries"
    if seq > found.cursor.stream_seq:
        return "not delivered yet"
    if found.lanes is not None and seq in found.lanes.held:
        return "held back by its lane"
    return "settled, or never wanted"


# --- dead letters -----------------------------------------------------------------------------


def _selected(asset: StreamAsset, wanted: Selection) -> Iterator[Letter]:
    """The letters that meet every condition, oldest first."""
    since = _time(wanted.since)
    until = _time(wanted.until)
    seqs = array("Q", sorted(wanted.seqs)) if wanted.seqs else None
    if seqs is None:
        seqs = asset.store.next_seqs(asset.store.first_seq, asset.store.msgs)
    for seq in seqs:
        message = asset.store.get(seq)
        letter = letters.read_letter(message) if message is not None else None
        if letter is None or message is None:
            continue
        if (
            (wanted.reason and letter.reason != wanted.reason)
            or (wanted.stream and letter.stream != wanted.stream)
            or (wanted.consumer and letter.consumer != wanted.consumer)
            or (wanted.subject and not letters.is_about(letter, wanted.subject))
            or (since and message.time_ns < since)
            or (until and message.time_ns > until)
        ):
            continue
        yield letter


def _time(text: str) -> int:
    try:
        return parse_rfc3339(text) if text else 0
    except ValueError as error:
        raise ApiError(BAD_REQUEST) from error


def _asked(
    js: JetStreamAccount, names: Sequence[str], payload: bytes
) -> tuple[StreamAsset, Selection]:
    """The stream of letters and the conditions; with two names those of one consumer."""
    wanted = decode(payload, Selection)
    if len(names) == 1:
        return js.stream(names[0]), wanted
    found = consumers.find(js.stream(names[0]), names[1]).consumer
    if not found.options.dead_letter_stream:
        raise ApiError(NO_MESSAGE_FOUND)
    wanted.stream, wanted.consumer = names[0], names[1]
    return js.stream(found.options.dead_letter_stream), wanted


def _dead_list(js: JetStreamAccount, names: Sequence[str], payload: bytes, now: int) -> LetterList:
    asset, wanted = _asked(js, names, payload)
    found = list(_selected(asset, wanted))
    limit = min(wanted.limit or PAGE, PAGE)
    offset = min(max(wanted.offset, 0), len(found))
    page = found[offset : offset + limit]
    return LetterList(total=len(found), offset=offset, limit=limit, letters=page)


def _dead_show(js: JetStreamAccount, names: Sequence[str], payload: bytes, now: int) -> ShownLetter:
    asset = js.stream(names[0])
    message = asset.store.get(decode(payload, LifeRequest).seq)
    letter = letters.read_letter(message) if message is not None else None
    if message is None or letter is None:
        raise ApiError(NO_MESSAGE_FOUND)
    hdrs = letters.original_headers(message.headers)
    return ShownLetter(letter=letter, hdrs=hdrs, data=message.payload)


def _dead_redrive(js: JetStreamAccount, names: Sequence[str], payload: bytes, now: int) -> Done:
    asset, wanted = _asked(js, names, payload)
    chosen = list(_selected(asset, wanted))[: wanted.limit or REDRIVE_MAX]
    return Done(count=letters.redrive(js, asset, chosen, now))


def _dead_drop(js: JetStreamAccount, names: Sequence[str], payload: bytes, now: int) -> Done:
    asset, wanted = _asked(js, names, payload)
    chosen = array("Q", [letter.seq for letter in _selected(asset, wanted)])
    if wanted.limit:
        chosen = chosen[: wanted.limit]
    count = asset.store.remove_many(chosen) if chosen else 0
    js.host.wake(asset)
    return Done(count=count)


_Handler = Callable[[JetStreamAccount, Sequence[str], bytes, int], _Answer]
_HANDLERS: Final[dict[tuple[str, int], _Handler]] = {
    ("CONSUMER.EXPLAIN", 2): _explain,
    ("CONSUMER.LIFE", 2): _life,
    ("DEAD.LIST", 1): _dead_list,
    ("DEAD.SHOW", 1): _dead_show,
    ("DEAD.REDRIVE", 1): _dead_redrive,
    ("DEAD.DROP", 1): _dead_drop,
    ("DLQ.LIST", 2): _dead_list,
    ("DLQ.REDRIVE", 2): _dead_redrive,
    ("DLQ.DROP", 2): _dead_drop,
}
