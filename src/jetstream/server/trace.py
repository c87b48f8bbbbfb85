"""`-V`: every protocol line that comes in (`<<-`) and goes out (`->>`), without secrets."""

import logging
import re
from typing import TYPE_CHECKING

import msgspec

from jetstream.server.log import TRACE
from jetstream.wire._parser import Batch
from jetstream.wire.operations import Kind

if TYPE_CHECKING:
    from jetstream.server.connection import Connection

_SECRETS = re.compile(rb'("(?:pass|auth_token|sig|jwt)"\s*:\s*)"(?:[^"\\]|\\.)*"')
_NAMES = {Kind.PUB: "PUB", Kind.HPUB: "HPUB", Kind.SUB: "SUB", Kind.UNSUB: "UNSUB"}


def redacted(connect: bytes) -> str:
    """CONNECT's text with its secrets blotted out."""
    return _SECRETS.sub(rb'\1"[REDACTED]"', connect).decode("utf-8", "replace")


def incoming(connection: "Connection", batch: Batch) -> None:
    """Log the operations of a batch that was just read."""
    server = connection.server
    if _is_hidden(connection):
        return
    for i in range(len(batch)):
        kind = batch.kind(i)
        if kind in (Kind.PUB, Kind.HPUB):
            words = [_NAMES[Kind(kind)], _text(batch.subject(i))]
            if batch.reply(i):
                words.append(_text(batch.reply(i)))
            if kind == Kind.HPUB:
                words.append(str(batch.header_size(i)))
            words.append(str(batch.size(i)))
            _line(connection, "<<-", " ".join(words))
            body = batch.headers(i) + batch.payload(i)
            _payload(connection, "<<-", body, server.options.max_traced_msg_len)
        elif kind == Kind.SUB:
            words = ["SUB", _text(batch.subject(i)), _text(batch.reply(i)), _text(batch.payload(i))]
            _line(connection, "<<-", " ".join(word for word in words if word))
        elif kind == Kind.UNSUB:
            limit = batch.sid(i)
            more = f" {limit}" if limit > 0 else ""
            _line(connection, "<<-", f"UNSUB {_text(batch.payload(i))}{more}")
        elif kind == Kind.CONNECT:
            _line(connection, "<<-", f"CONNECT {redacted(batch.payload(i))}")
        else:
            _line(connection, "<<-", Kind(kind).name)


def outgoing(connection: "Connection", data: bytes) -> None:
    """Log the lines in bytes that are about to leave."""
    if _is_hidden(connection):
        return
    at = 0
    while at < len(data):
        end = data.find(b"\r\n", at)
        if end < 0:
            end = len(data)
        line = _text(data[at:end])
        at = end + 2
        if line.startswith("INFO"):
            continue
        if line.startswith("-ERR"):
            line = line.replace("'", "")
        _line(connection, "->>", line)
        if line.startswith(("MSG ", "HMSG ")):
            size = int(line.rsplit(" ", 1)[1])
            body = bytes(data[at : at + size])
            _payload(connection, "->>", body, connection.server.options.max_traced_msg_len)
            at += size + 2


def _is_hidden(connection: "Connection") -> bool:
    """The system account's own talk is shown only on demand (`-VV`)."""
    server = connection.server
    if not server.log.isEnabledFor(TRACE):
        return True
    return connection.account is server.accounts.system and not server.options.trace_verbose


def _line(connection: "Connection", arrow: str, text: str) -> None:
    log: logging.Logger = connection.server.log
    log.log(TRACE, "%s - %s [%s]", connection, arrow, text)


def _payload(connection: "Connection", arrow: str, body: bytes, most: int) -> None:
    shown = _text(body[:most] if 0 < most < len(body) else body)
    quoted = msgspec.json.encode(shown).decode()
    if 0 < most < len(body):
        quoted = quoted[:-1] + '..."'
    connection.server.log.log(TRACE, "%s - %s MSG_PAYLOAD: [%s]", connection, arrow, quoted)


def _text(data: bytes) -> str:
    return data.decode("utf-8", "replace")
