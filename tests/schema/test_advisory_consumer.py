"""Consumer events carry the reference's fields in the reference's order."""

from jetstream.schema.advisory_consumer import (
    AckMetric,
    ConsumerAction,
    GroupUnpinned,
    MaxDeliver,
    MessageTerminated,
    stamped,
)


def test_the_subject_names_stream_and_consumer() -> None:
    assert ConsumerAction(stream="S", consumer="c", action="create").subject() == (
        b"$JS.EVENT.ADVISORY.CONSUMER.CREATED.S.c"
    )
    assert AckMetric(stream="S", consumer="c").subject() == b"$JS.EVENT.METRIC.CONSUMER.ACK.S.c"


def test_a_stamped_event_is_what_the_reference_sends() -> None:
    event = MaxDeliver(stream="T", consumer="C", stream_seq=1, deliveries=2)
    assert stamped(event, "aR4", "2026-11-15T18:38:20.3Z") == (
        b'{"type":"io.nats.jetstream.advisory.v1.max_deliver","id":"aR4",'
        b'"timestamp":"2026-11-15T18:38:20.3Z","stream":"T","consumer":"C","stream_seq":1,'
        b'"deliveries":2}'
    )


def test_the_domain_is_told_when_there_is_one() -> None:
    event = GroupUnpinned(stream="T", consumer="C", group="A", reason="admin")
    assert b'"domain":"hub"' in stamped(event, "x", "t", "hub")
    assert b"reason" not in stamped(MessageTerminated(stream="T", consumer="C"), "x", "t")
