"""Why connections end, in the words that monitoring shows."""

from msgspec import Struct


class Reason:
    CLIENT_CLOSED = "Client Closed"
    AUTHENTICATION_TIMEOUT = "Authentication Timeout"
    AUTHENTICATION_FAILURE = "Authentication Failure"
    AUTHENTICATION_EXPIRED = "Authentication Expired"
    TLS_HANDSHAKE = "TLS Handshake Failure"
    SLOW_PENDING = "Slow Consumer (Pending Bytes)"
    SLOW_DEADLINE = "Slow Consumer (Write Deadline)"
    WRITE_ERROR = "Write Error"
    READ_ERROR = "Read Error"
    PARSE_ERROR = "Parse Error"
    STALE = "Stale Connection"
    PROTOCOL_VIOLATION = "Protocol Violation"
    BAD_CLIENT_PROTOCOL = "Bad Client Protocol Version"
    MAX_CONNECTIONS = "Maximum Connections Exceeded"
    MAX_ACCOUNT_CONNECTIONS = "Maximum Account Connections Exceeded"
    PAYLOAD = "Maximum Message Payload Exceeded"
    CONTROL_LINE = "Maximum Control Line Exceeded"
    SUBSCRIPTIONS = "Maximum Subscriptions Exceeded"
    SHUTDOWN = "Server Shutdown"
    MISSING_ACCOUNT = "Missing Account"
    REVOKED = "Credentials Revoked"
    HEADER_VIOLATION = "Message Header Violation"
    NO_RESPONDERS_HEADERS = "No Responders Requires Headers"
    KICKED = "Kicked"


class ClosedConnection(Struct, frozen=True):
    """What is remembered of a connection that ended."""

    cid: int
    kind: str
    host: str
    port: int
    started_ns: int
    stopped_ns: int
    last_activity_ns: int
    reason: str
    rtt_ns: int
    in_msgs: int
    out_msgs: int
    in_bytes: int
    out_bytes: int
    subscriptions: tuple[tuple[bytes, bytes, bytes], ...]
    name: str = ""
    lang: str = ""
    version: str = ""
    user: str = ""
    account: str = ""
    stalls: int = 0
