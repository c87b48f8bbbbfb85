"""Consumer configurations from flags and questions."""

import time
from typing import Any

import click

from jetstream.cli.app import Decorator, options
from jetstream.cli.problems import Failure
from jetstream.cli.prompts import ask, choose, confirm, whole_number
from jetstream.cli.values import (
    BYTES,
    DURATION,
    PAIR,
    parse_duration,
    parse_moment,
    parse_start,
    split_subjects,
)
from jetstream.schema.times import rfc3339

Json = dict[str, Any]
MINUTE = 60 * 1_000_000_000
ACKS = ("none", "all", "explicit", "flow_control")

_PLAIN = {
    "description": "description",
    "ack": "ack_policy",
    "wait": "ack_wait",
    "max_deliver": "max_deliver",
    "max_pending": "max_ack_pending",
    "max_waiting": "max_waiting",
    "max_pull_batch": "max_batch",
    "max_pull_expire": "max_expires",
    "max_pull_bytes": "max_bytes",
    "replay": "replay_policy",
    "inactive_threshold": "inactive_threshold",
    "replicas": "num_replicas",
    "heartbeat": "idle_heartbeat",
    "deliver_group": "deliver_group",
    "bps": "rate_limit_bps",
    "target": "deliver_subject",
    "flow_control": "flow_control",
    "headers_only": "headers_only",
    "memory": "mem_storage",
}


def config_options(edit: bool = False) -> Decorator:
    """The flags of a consumer configuration; those that cannot change are left out of `edit`."""
    made: list[Decorator] = [
        click.option("--target", help="push to this subject"),
        click.option("--wait", type=DURATION, help="time for an acknowledgement"),
        click.option("--max-deliver", type=int, help="give up after this many deliveries"),
        click.option(
            "--max-pending", "--max-outstanding", type=int, help="most unacknowledged messages"
        ),
        click.option("--max-pull-batch", type=int, help="largest pull request"),
        click.option("--max-pull-expire", type=DURATION, help="longest pull request"),
        click.option("--max-pull-bytes", type=BYTES, help="most bytes of a pull request"),
        click.option("--filter", multiple=True, help="only these subjects (repeat, or commas)"),
        click.option("--backoff", type=click.Choice(["none", "linear"]), help="retry delays"),
        click.option("--backoff-steps", type=int, default=10, help="how many delays"),
        click.option("--backoff-min", type=DURATION, default="1m", help="first delay"),
        click.option("--backoff-max", type=DURATION, default="20m", help="last delay"),
        click.option("--headers-only/--no-headers-only", default=None, help="without bodies"),
        click.option("--sample", help="percentage of acknowledgements to sample"),
        click.option("--description", help="what the consumer is for"),
        click.option("--metadata", type=PAIR, multiple=True, help="key:value (repeat)"),
        click.option("--inactive-threshold", type=DURATION, help="remove when idle this long"),
        click.option("--replicas", type=int, help="copies in a cluster"),
    ]
    if not edit:
        made += [
            click.option("--pull", is_flag=True, help="messages are fetched, not pushed"),
            click.option("--deliver", help="all, new, last, subject, a sequence, a duration ago"),
            click.option("--ack", type=click.Choice(ACKS), help="acknowledgement policy"),
            click.option("--max-waiting", type=int, help="most waiting pull requests"),
            click.option("--replay", type=click.Choice(["instant", "original"])),
            click.option("--ephemeral", is_flag=True, help="gone when unused"),
            click.option("--memory/--no-memory", default=None, help="state only in memory"),
            click.option("--deliver-group", help="share pushes in this queue group"),
            click.option("--heartbeat", type=DURATION, help="idle heartbeats (push)"),
            click.option("--flow-control/--no-flow-control", default=None, help="(push)"),
            click.option("--bps", type=int, help="most bits per second (push)"),
            click.option("--pause", help="start paused until a time, or for a duration"),
            click.option("--pinned-groups", multiple=True, help="groups with a pinned client"),
            click.option("--pinned-ttl", type=DURATION, help="how long a client stays pinned"),
            click.option("--overflow-groups", multiple=True, help="groups that overflow"),
            click.option("--prioritized-groups", multiple=True, help="prioritized groups"),
        ]
    return options(*made)


def apply_flags(config: Json, flags: Json, now_ns: int | None = None) -> Json:
    """The configuration with everything the flags say."""
    now_ns = time.time_ns() if now_ns is None else now_ns
    made = dict(config)
    for flag, field in _PLAIN.items():
        if flags.get(flag) is not None:
            made[field] = flags[flag]
    if flags.get("filter"):
        _set_filter(made, split_subjects(flags["filter"]))
    if flags.get("sample"):
        made["sample_freq"] = f"{str(flags['sample']).rstrip('%')}%"
    if flags.get("deliver"):
        try:
            start = parse_start(flags["deliver"], now_ns)
        except ValueError as error:
            raise Failure(str(error), None, 2) from error
        made |= start.fields()
    if flags.get("pause"):
        made["pause_until"] = rfc3339(parse_moment(flags["pause"], now_ns))
    if flags.get("metadata"):
        made["metadata"] = {**made.get("metadata", {}), **dict(flags["metadata"])}
    if flags.get("backoff"):
        _set_backoff(made, flags)
    _set_groups(made, flags)
    return made


def _set_filter(made: Json, subjects: list[str]) -> None:
    made.pop("filter_subject", None)
    made.pop("filter_subjects", None)
    if len(subjects) == 1:
        made["filter_subject"] = subjects[0]
    elif subjects:
        made["filter_subjects"] = subjects


def _set_backoff(made: Json, flags: Json) -> None:
    if flags["backoff"] == "none":
        made.pop("backoff", None)
        return
    made["backoff"] = linear(flags["backoff_min"], flags["backoff_max"], flags["backoff_steps"])
    made.pop("ack_wait", None)
    if made.get("max_deliver", -1) <= 0 or made["max_deliver"] <= len(made["backoff"]):
        made["max_deliver"] = len(made["backoff"]) + 1


def linear(first_ns: int, last_ns: int, steps: int) -> list[int]:
    """Delays that grow by the same amount.

    >>> linear(1, 10, 4)
    [1, 4, 7, 10]
    """
    if steps <= 1:
        return [last_ns]
    if first_ns > last_ns:
        raise Failure("--backoff-min is above --backoff-max", None, 2)
    return [first_ns + (last_ns - first_ns) * i // (steps - 1) for i in range(steps)]


def _set_groups(made: Json, flags: Json) -> None:
    kinds = {
        "pinned_groups": "pinned_client",
        "overflow_groups": "overflow",
        "prioritized_groups": "prioritized",
    }
    for flag, policy in kinds.items():
        if flags.get(flag):
            made["priority_groups"] = split_subjects(flags[flag])
            made["priority_policy"] = policy
    if flags.get("pinned_ttl"):
        made["priority_timeout"] = flags["pinned_ttl"]


def finish(config: Json, ephemeral: bool = False) -> Json:
    """Defaults that depend on the kind of consumer."""
    made = dict(config)
    push = bool(made.get("deliver_subject"))
    made.setdefault("deliver_policy", "all")
    made.setdefault("ack_policy", "none" if push else "explicit")
    made.setdefault("replay_policy", "instant")
    made.setdefault("max_deliver", -1)
    if not push:
        for field in ("deliver_subject", "deliver_group", "idle_heartbeat", "flow_control"):
            made.pop(field, None)
    name = made.get("durable_name") or made.get("name")
    if name:
        check_name(name)
        made["name"] = name
        if not ephemeral:
            made["durable_name"] = name
        else:
            made.pop("durable_name", None)
    return made


def check_name(name: str) -> str:
    if any(c in name for c in ".*> \t\\/"):
        raise Failure(
            f"invalid consumer name {name!r}", "names have no dots, blanks, slashes, `*` or `>`", 2
        )
    return name


async def ask_missing(config: Json, flags: Json) -> Json:
    """Walk through everything the flags did not say, in natscli's order."""
    made = dict(config)

    def open_(flag: str) -> bool:
        return flags.get(flag) in (None, (), "", False)

    if open_("pull") and open_("target"):
        target = await ask(
            "Delivery target (empty for Pull Consumers)",
            flag="--target or --pull",
            help="A subject messages are pushed to; empty makes a consumer to pull from.",
        )
        if target:
            made["deliver_subject"] = target
    push = bool(made.get("deliver_subject"))
    if push and open_("deliver_group"):
        made["deliver_group"] = await ask("Delivery Queue Group", flag="--deliver-group")
    if open_("deliver"):
        start = await ask(
            "Start policy (all, new, last, subject, 1h, msg sequence)",
            flag="--deliver",
            default="all",
            check=lambda text: parse_start(text, time.time_ns()),
        )
        made |= start.fields()
    if open_("ack"):
        default = "none" if push else "explicit"
        made["ack_policy"] = await choose(
            "Acknowledgment policy", ["explicit", "all", "none"], flag="--ack", default=default
        )
    if open_("replay"):
        made["replay_policy"] = await choose(
            "Replay policy", ["instant", "original"], flag="--replay", default="instant"
        )
    if open_("filter"):
        subjects = split_subjects(
            await ask("Filter Stream by subjects (blank for all)", flag="--filter")
        )
        if subjects:
            _set_filter(made, subjects)
    await _ask_numbers(made, open_, push)
    return made


async def _ask_numbers(made: Json, open_: Any, push: bool) -> None:
    if made.get("ack_policy") != "none":
        if open_("max_deliver"):
            made["max_deliver"] = await ask(
                "Maximum Allowed Deliveries", flag="--max-deliver", default="-1", check=whole_number
            )
        if open_("max_pending"):
            pending = await ask(
                "Maximum Acknowledgments Pending",
                flag="--max-pending",
                default="0",
                check=whole_number,
            )
            if pending:
                made["max_ack_pending"] = pending
    if push and open_("heartbeat"):
        beat = await ask("Idle Heartbeat", flag="--heartbeat", default="0s", check=parse_duration)
        if beat:
            made["idle_heartbeat"] = beat
    if push and made.get("idle_heartbeat") and open_("flow_control"):
        made["flow_control"] = await confirm("Enable Flow Control", flag="--flow-control")
    if open_("headers_only") and await confirm("Deliver headers only without bodies"):
        made["headers_only"] = True
    if (
        open_("backoff")
        and made.get("ack_policy") == "explicit"
        and await confirm("Add a Retry Backoff Policy", flag="--backoff")
    ):
        first = await ask(
            "Minimum retry time", flag="--backoff-min", default="1m", check=parse_duration
        )
        last = await ask(
            "Maximum retry time", flag="--backoff-max", default="10m", check=parse_duration
        )
        steps = await ask(
            "Number of steps", flag="--backoff-steps", default="20", check=whole_number
        )
        _set_backoff(
            made,
            {
                "backoff": "linear",
                "backoff_min": first,
                "backoff_max": last,
                "backoff_steps": steps,
            },
        )
