"""Why a consumer delivers nothing, in one sentence."""

from jetstream.consumer.consumer import Consumer
from jetstream.schema.times import go_duration, rfc3339


def explain(consumer: Consumer, now: int) -> str:
    """The first thing that stands in the way, most final first."""
    if consumer.paused_until > now:
        return f"Paused until {rfc3339(consumer.paused_until)}."
    listener = _nobody_listens(consumer)
    due = len(consumer.pending.again)
    if due:
        return listener or f"{due} redeliveries are due and go out with the next turn."
    left = consumer.num_pending()
    if not left:
        return _nothing_left(consumer, now)
    if listener:
        return listener
    config = consumer.config
    if consumer.room() <= 0:
        return (
            f"max_ack_pending is reached: {len(consumer.pending)} of {config.max_ack_pending} "
            f"deliveries wait for their acks{_oldest(consumer, now)}."
        )
    if consumer.push is not None and consumer.push.stalled:
        return (
            "Flow control: the window is full and the client has not answered "
            f"{consumer.push.stalled.decode('utf-8', 'replace')}."
        )
    if consumer.push is not None and consumer.push.rate_at > now:
        return f"The rate limit lets the next message out at {rfc3339(consumer.push.rate_at)}."
    if consumer.groups is not None and consumer.groups.pin:
        return "Only the pinned client is served, and it has no request waiting."
    if consumer.lanes is not None and consumer.lanes.held:
        return (
            f"{consumer.lanes.busy()} lanes are busy and hold {len(consumer.lanes.held)} messages "
            "back until theirs are acknowledged."
        )
    if consumer.groups is not None:
        return "No waiting request meets the condition of its priority group."
    return f"Nothing stands in the way: {left} messages are about to be delivered."


def _nobody_listens(consumer: Consumer) -> str:
    if consumer.push is not None:
        if consumer.push.bound:
            return ""
        group = consumer.config.deliver_group
        whom = (
            f"queue group {group} of {consumer.config.deliver_subject}"
            if group
            else (consumer.config.deliver_subject)
        )
        return f"Nobody listens on {whom}."
    return "" if consumer.pulls.queue else "No pull request is waiting."


def _nothing_left(consumer: Consumer, now: int) -> str:
    table = consumer.pending.table
    if table.delayed and table.delayed == len(table):
        until = rfc3339(consumer.pending.again.next_deadline())
        return f"All {table.delayed} unfinished messages are parked; the first until {until}."
    if len(table):
        return (
            f"Everything was delivered; {len(table)} wait for their acks{_oldest(consumer, now)}."
        )
    if consumer.view.msgs and not consumer.consumer_seq and consumer.config.filters:
        filters = ", ".join(consumer.config.filters)
        return f"No stored message matches the filter {filters}."
    if not consumer.view.msgs:
        return "The stream is empty."
    return "Everything was delivered and acknowledged."


def _oldest(consumer: Consumer, now: int) -> str:
    seq, _ = consumer.pending.table.first()
    found = consumer.pending.table.get(seq) if seq else None
    if found is None:
        return ""
    return f", the oldest (sequence {seq}) for {go_duration(max(now - found[1], 0))}"
