"""The subjects of the 2019 and 2020 previews, answered from today's endpoints.

The documents this project grew from use `$JS.STREAM.<s>.INFO` and friends. Each old subject is one
line of the table: the endpoint it maps to and how the answer is told in the old words, `+OK`,
`-ERR <reason>` or indented JSON.
"""

from collections.abc import Callable
from typing import Any, Final

import msgspec

from jetstream.api.route import ApiRequest
from jetstream.errors import ApiError
from jetstream.schema.times import ZERO_TIME

Body = dict[str, Any]
Shown = Callable[[Body], bytes]


def _ok(body: Body) -> bytes:
    return b"+OK"


def _json(value: Any) -> bytes:
    return msgspec.json.format(msgspec.json.encode(value), indent=2)


def _names(field: str) -> Shown:
    return lambda body: _json(body.get(field) or [])


def _account(body: Body) -> bytes:
    limits = ("max_memory", "max_storage", "max_streams", "max_consumers")
    return _json(
        {
            **{name: body[name] for name in ("memory", "storage", "streams")},
            "limits": {name: body["limits"][name] for name in limits},
        }
    )


def _stream(body: Body) -> bytes:
    state = ("messages", "bytes", "first_seq", "last_seq", "consumer_count")
    return _json({"config": body["config"], "state": {name: body["state"][name] for name in state}})


def _consumer(body: Body) -> bytes:
    return _json({k: v for k, v in body.items() if k not in ("type", "ts")})


def _created(body: Body) -> bytes:
    return b"+OK " + str(body["name"]).encode()


# old subject (after `$JS.`; s and c stand for names) → endpoint, answer, how the body is rewritten
TABLE: Final[dict[str, tuple[str, Shown]]] = {
    "INFO": ("INFO", _account),
    "STREAM.LIST": ("STREAM.NAMES", _names("streams")),
    "STREAM.s.CREATE": ("STREAM.CREATE.s", _ok),
    "STREAM.s.UPDATE": ("STREAM.UPDATE.s", _ok),
    "STREAM.s.INFO": ("STREAM.INFO.s", _stream),
    "STREAM.s.DELETE": ("STREAM.DELETE.s", _ok),
    "STREAM.s.PURGE": ("STREAM.PURGE.s", _ok),
    "STREAM.s.MSG.DELETE": ("STREAM.MSG.DELETE.s", _ok),
    "STREAM.s.CONSUMERS": ("CONSUMER.NAMES.s", _names("consumers")),
    "STREAM.s.CONSUMER.c.CREATE": ("CONSUMER.DURABLE.CREATE.s.c", _ok),
    "STREAM.s.CONSUMER.c.INFO": ("CONSUMER.INFO.s.c", _consumer),
    "STREAM.s.CONSUMER.c.DELETE": ("CONSUMER.DELETE.s.c", _ok),
    "STREAM.s.EPHEMERAL.CONSUMER.CREATE": ("CONSUMER.CREATE.s", _created),
}


def answer(engine: Any, account: Any, js: Any, request: ApiRequest) -> object:
    """Answer an old request; False when nobody is there."""
    subject = request.subject
    if js is None:
        return False
    if subject == "$JS.ENABLED":
        return _send(engine, account, request, b"+OK")
    found = _find(subject)
    if found is None:
        return False
    endpoint, shown = found
    try:
        text = shown(_ask(js, request, endpoint))
    except ApiError as error:
        text = b"-ERR " + error.description.encode()
    return _send(engine, account, request, text)


def _send(engine: Any, account: Any, request: ApiRequest, text: bytes) -> bool:
    if request.reply:
        engine.send(account, request.reply, text)
    return True


def _find(subject: str) -> tuple[str, Shown] | None:
    if not subject.startswith("$JS."):
        return None
    tokens = subject.split(".")[1:]
    for pattern, (endpoint, shown) in TABLE.items():
        words = pattern.split(".")
        names: dict[str, str] = {}
        if len(words) != len(tokens):
            continue
        for word, token in zip(words, tokens, strict=True):
            if word.islower():
                names[word] = token
            elif word != token:
                break
        else:
            return ".".join(names.get(word, word) for word in endpoint.split(".")), shown
    return None


def _ask(js: Any, request: ApiRequest, endpoint: str) -> Body:
    """Today's answer to the same question."""
    from jetstream.api import routes

    found = routes.find(routes.API + endpoint)
    assert found is not None
    route, names = found
    payload = request.payload
    if route.body == "E":
        payload = b""
    elif endpoint.startswith("STREAM.MSG.DELETE"):
        payload = _sequence(payload)
    elif "CONSUMER" in endpoint and "CREATE" in endpoint:
        payload = _consumer_config(payload, names)
    asked = msgspec.structs.replace(request, payload=payload, headers=b"")
    made = routes._handle(js, route, names, asked)
    body: Body = msgspec.json.decode(made) if made else {}
    return body


def _sequence(payload: bytes) -> bytes:
    text = payload.strip()
    return b'{"seq":%s}' % text if text.isdigit() else payload


def _consumer_config(payload: bytes, names: list[str]) -> bytes:
    """The old consumer request in today's words."""
    try:
        request = msgspec.json.decode(payload, type=dict[str, Any])
    except msgspec.MsgspecError:
        return payload
    config: dict[str, Any] = dict(request.get("config") or {})
    if "delivery_subject" in config:
        config["deliver_subject"] = config.pop("delivery_subject")
    start_time = config.pop("start_time", None)
    start_seq = config.pop("stream_seq", 0) or config.pop("start_seq", 0)
    deliver_all = config.pop("deliver_all", False)
    deliver_last = config.pop("deliver_last", False)
    config.pop("start_seq", None)
    if "deliver_policy" not in config:
        config["deliver_policy"] = "new"
        if deliver_all:
            config["deliver_policy"] = "all"
        elif deliver_last:
            config["deliver_policy"] = "last"
        elif start_seq:
            config["deliver_policy"] = "by_start_sequence"
            config["opt_start_seq"] = start_seq
        elif start_time and start_time != ZERO_TIME:
            config["deliver_policy"] = "by_start_time"
            config["opt_start_time"] = start_time
    if len(names) > 1:
        config.setdefault("durable_name", names[1])
    known = _consumer_fields()
    config = {key: value for key, value in config.items() if key in known}
    return msgspec.json.encode({"stream_name": names[0], "config": config})


def _consumer_fields() -> frozenset[str]:
    from jetstream.schema.consumer import ConsumerConfig

    return frozenset(ConsumerConfig.__struct_fields__)
