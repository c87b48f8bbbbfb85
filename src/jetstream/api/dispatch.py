"""Which room answers a request below `$JS.`: the front desk of JetStream.

Pulls, acknowledgements, flow control and direct gets go straight to their consumer or stream; the
rest is request and response (`routes.handle`).
"""

from array import array
from typing import Any

from jetstream.api import direct, routes
from jetstream.broker._broker import Account, Client
from jetstream.consumer.values import PullRequest
from jetstream.engine._direct import answer_row
from jetstream.wire.headers import get_header

NEXT = b"$JS.API.CONSUMER.MSG.NEXT."
DIRECT = b"$JS.API.DIRECT.GET."
FLOW = b"$JS.FC."
SNAPSHOT = b"$JS.SNAPSHOT."
OLD_NEXT = b"$JS.RN."
OLD_ACK = b"$JS.A."
LEVEL = b"Nats-Required-Api-Level"
# What a domain's prefix leads to; the rest of it is nobody's subject.
IN_DOMAIN = (b"INFO", b"STREAM", b"CONSUMER", b"DIRECT", b"META", b"SERVER", b"ACCOUNT")


def dispatch(
    engine: Any,
    account: Account,
    js: Any,
    client: Client | None,
    subject: bytes,
    reply: bytes,
    headers: bytes,
    payload: bytes,
) -> object:
    """Handle one request; False says that nobody is there to answer it."""
    if engine.domain and subject.startswith(f"$JS.{engine.domain}.API.".encode()):
        subject = b"$JS.API." + subject[len(engine.domain) + 9 :]
        if subject.startswith(b"$JS.API.$"):
            return engine.broker.publish(account, subject[8:], payload, reply, headers, client) > 0
        if subject[8:].partition(b".")[0] not in IN_DOMAIN:
            return False
    if subject.startswith(NEXT):
        return _pull(engine, js, subject[len(NEXT) :], reply, headers, payload)
    if subject.startswith(DIRECT):
        return _direct(engine, account, js, subject, reply, headers, payload)
    if subject.startswith(OLD_NEXT):
        return _pull(engine, js, subject[len(OLD_NEXT) :], reply, headers, payload)
    if subject.startswith(OLD_ACK):
        return engine.ack(account, subject, payload, reply)
    if subject.startswith(FLOW):
        tokens = subject.decode("utf-8", "replace").split(".")
        return len(tokens) >= 5 and engine.deliveries.flow_control(
            js, tokens[2], tokens[3], subject
        )
    request = routes.ApiRequest(
        subject=subject.decode("utf-8", "replace"),
        reply=reply,
        headers=headers,
        payload=payload,
        client=client,
        now=engine.now(),
    )
    return routes.answer(engine, account, js, request)


def _pull(engine: Any, js: Any, name: bytes, reply: bytes, headers: bytes, payload: bytes) -> bool:
    stream, _, consumer = name.decode("utf-8", "replace").partition(".")
    request = PullRequest(
        reply=reply,
        payload=payload,
        received_ns=engine.now(),
        required_level=get_header(headers, LEVEL) if headers else None,
    )
    return bool(engine.deliveries.pull(js, stream, consumer, request))


def _direct(
    engine: Any,
    account: Account,
    js: Any,
    subject: bytes,
    reply: bytes,
    headers: bytes,
    payload: bytes,
) -> bool:
    stream, _, key = subject[len(DIRECT) :].partition(b".")
    asset = js.direct(stream.decode("utf-8", "replace")) if js is not None else None
    if asset is None:
        return False
    name = asset.config.name.encode()

    def send_row(seqs: "array[int]", pending: int, room: int) -> tuple[int, int, int]:
        return answer_row(engine.broker, account, asset.store, seqs, pending, room, reply, name)

    for block, body in direct.answer(asset, key, headers, payload, send_row):
        engine.broker.publish(account, reply, body, b"", block)
    return True
