"""`$JS.API.…`, `$JS.ACK.…` and their relatives, built and taken apart only here.

Everything above speaks of assets; the subjects they are reached on are made in this module, so a
prefix or a domain is one argument and not a search through the house.
"""

from typing import Final, NamedTuple

API_PREFIX: Final = "$JS.API"
ACK_PREFIX: Final = "$JS.ACK"
FLOW_CONTROL_PREFIX: Final = "$JS.FC"
ADVISORY_PREFIX: Final = "$JS.EVENT.ADVISORY"
METRIC_PREFIX: Final = "$JS.EVENT.METRIC"
SNAPSHOT_ACK_PREFIX: Final = "$JS.SNAPSHOT.ACK"
RESTORE_PREFIX: Final = "$JS.SNAPSHOT.RESTORE"
FAST_INGEST_TOKEN: Final = "$FI"
DIRECT_GET_QUEUE: Final = "_sys_"


def domain_prefix(domain: str) -> str:
    """The API prefix that reaches a JetStream domain."""
    return f"$JS.{domain}.API" if domain else API_PREFIX


def api(*tokens: str, prefix: str = API_PREFIX) -> str:
    """`api("STREAM", "INFO", "ORDERS")` is `$JS.API.STREAM.INFO.ORDERS`."""
    return ".".join((prefix, *tokens))


def direct_get(stream: str, subject: str = "", prefix: str = API_PREFIX) -> str:
    base = f"{prefix}.DIRECT.GET.{stream}"
    return f"{base}.{subject}" if subject else base


def consumer_create(
    stream: str, name: str = "", filter_subject: str = "", prefix: str = API_PREFIX
) -> str:
    parts = [prefix, "CONSUMER.CREATE", stream]
    if name:
        parts.append(name)
        if filter_subject:
            parts.append(filter_subject)
    return ".".join(parts)


def consumer_next(stream: str, consumer: str, prefix: str = API_PREFIX) -> str:
    return f"{prefix}.CONSUMER.MSG.NEXT.{stream}.{consumer}"


class AckAddress(NamedTuple):
    """What a delivery's reply subject tells: `$JS.ACK.[domain.hash.]stream.consumer.…`."""

    stream: str
    consumer: str
    deliveries: int
    stream_seq: int
    consumer_seq: int
    time_ns: int
    pending: int
    domain: str = ""
    account_hash: str = ""
    token: str = ""


def ack(address: AckAddress) -> str:
    """The reply subject of a delivery, in the nine-token form servers send today."""
    a = address
    return (
        f"{ACK_PREFIX}.{a.stream}.{a.consumer}.{a.deliveries}.{a.stream_seq}."
        f"{a.consumer_seq}.{a.time_ns}.{a.pending}"
    )


def parse_ack(subject: str) -> AckAddress | None:
    """Take a delivery's reply apart: nine tokens, or eleven and more with domain and account."""
    parts = subject.split(".")
    if len(parts) < 9 or parts[0] != "$JS" or parts[1] != "ACK" or len(parts) == 10:
        return None
    domain = account_hash = token = ""
    if len(parts) >= 11:
        domain = "" if parts[2] == "_" else parts[2]
        account_hash = parts[3]
        token = parts[11] if len(parts) > 11 else ""
        fields = parts[4:11]
    else:
        fields = parts[2:9]
    stream, consumer, *numbers = fields
    try:
        deliveries, stream_seq, consumer_seq, time_ns, pending = map(int, numbers)
    except ValueError:
        return None
    return AckAddress(
        stream,
        consumer,
        deliveries,
        stream_seq,
        consumer_seq,
        time_ns,
        pending,
        domain,
        account_hash,
        token,
    )


def advisory(*tokens: str) -> str:
    return ".".join((ADVISORY_PREFIX, *tokens))


def metric(*tokens: str) -> str:
    return ".".join((METRIC_PREFIX, *tokens))


def kv_stream(bucket: str) -> str:
    return f"KV_{bucket}"


def kv_key(bucket: str, key: str = ">") -> str:
    return f"$KV.{bucket}.{key}"


def object_stream(bucket: str) -> str:
    return f"OBJ_{bucket}"


def object_chunks(bucket: str, nuid: str = ">") -> str:
    return f"$O.{bucket}.C.{nuid}"


def object_meta(bucket: str, encoded_name: str = ">") -> str:
    return f"$O.{bucket}.M.{encoded_name}"
