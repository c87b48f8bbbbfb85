"""Bytes to operations, said plainly: the readable twin of `_parser.pyx` and its oracle in tests.

    control line   OP arguments CR LF        (a bare LF will do)
    payload        exactly as many bytes as the line says, then CR LF, nothing else

One call of `next_batch()` gives every operation that is complete. What is wrong is remembered in
`fault`; everything before it still counts. CONNECT ends a batch, because what follows is read
differently once the client has said who it is.

`JETSTREAM_PURE=1` makes `jetstream.wire` offer this parser instead of the compiled one. (The
broker's own loop reads the kernel's arrays and keeps using the kernel.)
"""

from msgspec import Struct

from jetstream.wire.operations import Fault, Kind, Role

PAYLOAD_MAX = 1024 * 1024
CONTROL_LINE_MAX = 4096
INFO_LINE_MAX = 4 * 1024 * 1024  # of a server, which may say much in INFO
BLANKS_MAX = 65536  # blanks before the arguments are free, up to here
BATCH_MAX = 8192
SIZE_DIGITS_MAX = 9
SID_DIGITS_MAX = 18

_BLANKS = b" \t"

# word: (kind, needs a blank behind it)
_FROM_CLIENTS: dict[bytes, tuple[Kind, bool]] = {
    b"PUB": (Kind.PUB, True),
    b"HPUB": (Kind.HPUB, True),
    b"SUB": (Kind.SUB, True),
    b"UNSUB": (Kind.UNSUB, True),
    b"PING": (Kind.PING, False),
    b"PONG": (Kind.PONG, False),
    b"CONNECT": (Kind.CONNECT, False),
    b"INFO": (Kind.INFO, False),
    b"+OK": (Kind.OK, False),
    b"-ERR": (Kind.ERR, True),
}
_FROM_SERVERS: dict[bytes, tuple[Kind, bool]] = {
    b"MSG": (Kind.MSG, True),
    b"HMSG": (Kind.HMSG, True),
    b"PING": (Kind.PING, False),
    b"PONG": (Kind.PONG, False),
    b"+OK": (Kind.OK, False),
    b"-ERR": (Kind.ERR, False),
    b"INFO": (Kind.INFO, True),
}


class Operation(Struct, frozen=True):
    """One operation; the fields mean what the methods of `Batch` say."""

    kind: Kind
    subject: bytes = b""
    reply: bytes = b""
    headers: bytes = b""
    payload: bytes = b""
    number: int = 0


class Batch:
    """The operations of one read, with the kernel's face."""

    def __init__(self, operations: list[Operation]) -> None:
        self.operations = operations

    @staticmethod
    def of(messages: list[tuple[bytes, bytes, bytes, bytes]]) -> "Batch":
        return Batch(
            [
                Operation(Kind.HPUB if headers else Kind.PUB, subject, reply, headers, payload)
                for subject, reply, headers, payload in messages
            ]
        )

    def __len__(self) -> int:
        return len(self.operations)

    def kind(self, i: int) -> int:
        return self.operations[i].kind

    def subject(self, i: int) -> bytes:
        return self.operations[i].subject

    def reply(self, i: int) -> bytes:
        """The reply subject; of a SUB its queue group."""
        return self.operations[i].reply

    def headers(self, i: int) -> bytes:
        return self.operations[i].headers

    def payload(self, i: int) -> bytes:
        """The payload; of CONNECT, INFO and -ERR the text, of SUB and UNSUB the sid."""
        return self.operations[i].payload

    def sid(self, i: int) -> int:
        """The subscription number of a MSG; the maximum of an UNSUB (0 if none)."""
        return self.operations[i].number

    def size(self, i: int) -> int:
        return len(self.operations[i].headers) + len(self.operations[i].payload)

    def header_size(self, i: int) -> int:
        return len(self.operations[i].headers)


class _Wrong(Exception):
    def __init__(self, fault: Fault) -> None:
        self.fault = fault


class _Unfinished(Exception):
    """The rest of this operation has not arrived."""


def number(text: bytes, digits_max: int = SIZE_DIGITS_MAX) -> int:
    """Decimal digits only; -1 for anything else."""
    if 0 < len(text) <= digits_max and all(48 <= byte <= 57 for byte in text):
        return int(text)
    return -1


class Parser:
    """Turns what arrives on one connection into batches; the kernel's twin."""

    def __init__(self, role: int = 0) -> None:
        self.role = role
        self.fault = 0
        server = role == Role.SERVER
        self.headers_agreed = not server
        self.payload_max = PAYLOAD_MAX if server else 0xFFFFFFFF
        self.control_line_max = CONTROL_LINE_MAX if server else INFO_LINE_MAX
        self._words = _FROM_CLIENTS if server else _FROM_SERVERS
        self._data = bytearray()

    def feed(self, data: bytes) -> None:
        self._data += data

    @property
    def unparsed(self) -> int:
        """Bytes that wait for the rest of their operation."""
        return len(self._data)

    def stash(self) -> None:
        """Nothing to do: what is unfinished is always kept."""

    @staticmethod
    def done(batch: Batch) -> None:
        """Nothing to give back."""

    def next_batch(self) -> Batch | None:
        """The next operations, or None when there is no further whole one."""
        found: list[Operation] = []
        while self._data and not self.fault and len(found) < BATCH_MAX:
            try:
                operation, size = self._operation()
            except _Unfinished:
                break
            except _Wrong as wrong:
                self.fault = wrong.fault
                break
            del self._data[:size]
            if operation.kind == Kind.OK and self.role == Role.SERVER:
                continue  # clients may say +OK, nobody minds
            found.append(operation)
            if operation.kind == Kind.CONNECT:
                break
        return Batch(found) if found else None

    def _operation(self) -> tuple[Operation, int]:
        """The operation at the front and its size in bytes."""
        end = self._data.find(b"\n")
        if end < 0:
            self._check_unfinished(bytes(self._data))
            raise _Unfinished
        line = bytes(self._data[:end]).removesuffix(b"\r")
        kind, text = self._word(line)
        text = text.lstrip(_BLANKS)
        if len(text) > self.control_line_max:
            raise _Wrong(Fault.CONTROL_LINE)
        if kind in (Kind.PING, Kind.PONG, Kind.OK):
            return Operation(kind), end + 1
        if kind in (Kind.CONNECT, Kind.INFO, Kind.ERR):
            return Operation(kind, payload=text), end + 1
        arguments = text.replace(b"\t", b" ").split(b" ")
        arguments = [argument for argument in arguments if argument]
        if kind == Kind.SUB:
            return self._sub(arguments), end + 1
        if kind == Kind.UNSUB:
            return self._unsub(arguments), end + 1
        return self._message(kind, arguments, end + 1)

    def _word(self, line: bytes) -> tuple[Kind, bytes]:
        for word, (kind, needs_blank) in self._words.items():
            if line[: len(word)].upper() == word:
                rest = line[len(word) :]
                if not needs_blank or rest[:1] in (b" ", b"\t"):
                    return kind, rest
        raise _Wrong(Fault.UNKNOWN_OPERATION)

    def _check_unfinished(self, line: bytes) -> None:
        """A line that can no longer become anything is refused before its end arrives."""
        if not any(self._may_become(line, *word) for word in self._words.items()):
            raise _Wrong(Fault.UNKNOWN_OPERATION)
        start = 0
        while start < len(line) and line[start] not in _BLANKS:
            start += 1
        text = line[start:].lstrip(_BLANKS).removesuffix(b"\r")
        if len(text) > self.control_line_max or len(line) > self.control_line_max + BLANKS_MAX:
            raise _Wrong(Fault.CONTROL_LINE)

    @staticmethod
    def _may_become(line: bytes, word: bytes, meaning: tuple[Kind, bool]) -> bool:
        if len(line) <= len(word):
            return word.startswith(line.upper())
        return line[: len(word)].upper() == word and (not meaning[1] or line[len(word)] in _BLANKS)

    @staticmethod
    def _sub(arguments: list[bytes]) -> Operation:
        if len(arguments) == 2:
            return Operation(Kind.SUB, subject=arguments[0], payload=arguments[1])
        if len(arguments) == 3:
            subject, queue, sid = arguments
            return Operation(Kind.SUB, subject=subject, reply=queue, payload=sid)
        raise _Wrong(Fault.ARGUMENTS)

    @staticmethod
    def _unsub(arguments: list[bytes]) -> Operation:
        if len(arguments) not in (1, 2):
            raise _Wrong(Fault.ARGUMENTS)
        limit = number(arguments[1]) if len(arguments) == 2 else 0
        return Operation(Kind.UNSUB, payload=arguments[0], number=max(limit, 0))

    def _message(self, kind: Kind, arguments: list[bytes], body_at: int) -> tuple[Operation, int]:
        """PUB subject [reply] size · HPUB subject [reply] headers size · MSG, HMSG with a sid."""
        sid = 0
        if kind in (Kind.MSG, Kind.HMSG):
            if len(arguments) < 3:
                raise _Wrong(Fault.ARGUMENTS)
            sid = number(arguments.pop(1), SID_DIGITS_MAX)
        sizes = 2 if kind in (Kind.HPUB, Kind.HMSG) else 1
        if len(arguments) not in (1 + sizes, 2 + sizes):
            raise _Wrong(Fault.ARGUMENTS)
        if sizes == 2 and not self.headers_agreed:
            raise _Wrong(Fault.HEADERS)
        reply = arguments[1] if len(arguments) == 2 + sizes else b""
        header_size = number(arguments[-2]) if sizes == 2 else 0
        total = number(arguments[-1])
        if header_size < 0 or total < header_size:
            raise _Wrong(Fault.ARGUMENTS)
        if total > self.payload_max:
            raise _Wrong(Fault.PAYLOAD)
        end = body_at + total
        trailer = bytes(self._data[end : end + 2])
        if not b"\r\n".startswith(trailer):
            raise _Wrong(Fault.UNKNOWN_OPERATION)
        if len(trailer) < 2:
            raise _Unfinished
        body = bytes(self._data[body_at:end])
        headers, payload = body[:header_size], body[header_size:]
        return Operation(kind, arguments[0], reply, headers, payload, sid), end + 2
