"""What a person could try next, by error number.

The server's text says what is wrong; a hint says what usually helps. Keyed by `err_code`, a few by
a piece of the text where one number covers many causes.
"""

HINTS: dict[int, str] = {
    10002: "the account's storage or memory limit is used up; see js.account_info().limits",
    10013: "another consumer of that name has a different kind; delete it or choose another name",
    10014: "list what exists with `async for name in stream.consumer_names()`",
    10023: "the server is out of store or memory; purge something or raise its limits",
    10026: "the stream's or account's max_consumers is reached; delete unused consumers",
    10027: "the account may hold no more streams; see js.account_info().limits.max_streams",
    10028: "max_bytes reserves memory at creation; lower it or the server's other streams",
    10037: "the message may have been deleted, or expired by a limit of the stream",
    10039: "JetStream is off for this account; enable it in the server's configuration",
    10047: "max_bytes reserves disk at creation; lower it or raise the server's max_file_store",
    10052: "",
    10054: "the stream's max_msg_size is smaller than this message with its headers",
    10058: "use update_stream() or create_or_update_stream() to change an existing stream",
    10059: "list what exists with `async for name in js.stream_names()`",
    10060: "the subject is captured by another stream than the one you expected",
    10065: "two streams cannot capture one subject; js.stream_name_by_subject() tells which does",
    10070: "somebody published in between; read the last message and decide again",
    10071: "somebody published in between; read the current sequence and try again",
    10074: "a single server keeps one copy: use num_replicas=1, or connect to a cluster",
    10077: "the stream is full and refuses new messages; purge, raise a limit or use discard='old'",
    10084: "on a work queue every message must be acknowledged: ack_policy='explicit'",
    10099: "a work queue takes one unfiltered consumer, or several with separate filters",
    10100: "filters of consumers on a work queue must not overlap",
    10108: "push consumers with flow control need idle_heartbeat=",
    10109: "a sealed stream never changes again; it can only be read or deleted",
    10110: "the stream was created with deny_purge",
    10111: "create the stream with allow_rollup_hdrs=True",
    10121: "lower max_ack_pending, or raise the stream's consumer_limits",
    10131: "the filter in the request subject and in the config differ",
    10148: "use update_consumer() or create_or_update_consumer() to change it",
    10149: "create it first, or use create_or_update_consumer()",
    10165: "a TTL is at least one second; whole seconds are kept",
    10166: "create the stream with allow_msg_ttl=True",
    10168: "create the stream with allow_msg_counter=True",
    10174: "create the stream with allow_atomic=True",
    10176: "the batch timed out (10 s idle) or a message was lost; start a new one",
    10185: "this server is too old for that feature",
    10188: "create the stream with allow_msg_schedules=True",
    10199: "split the batch: 1000 messages is the most a server takes at once",
}

_BY_TEXT: list[tuple[int, str, str]] = [
    (10052, "no-ack", "narrow the subjects, or set no_ack=True"),
    (10052, "overlaps", "subjects of one stream must not overlap each other"),
    (10052, "max age", "max_age is in seconds here, at least 0.1"),
    (10052, "duplicates window", "duplicate_window is in seconds here and at most max_age"),
    (10052, "can not change", "some settings are fixed at creation; make a new stream"),
    (10052, "invalid subject", "subjects have no blanks, no empty tokens, and `>` only at the end"),
    (
        10012,
        "can not be updated",
        "that field is fixed at creation; delete and create the consumer",
    ),
    (10003, "", "the request was empty or contradictory"),
    (10025, "unknown field", "this server does not know that field; is it older than 2.15?"),
]


def hint_for(err_code: int, description: str = "") -> str | None:
    """A sentence that helps, or None."""
    for code, piece, hint in _BY_TEXT:
        if code == err_code and piece in description:
            return hint
    return HINTS.get(err_code) or None
