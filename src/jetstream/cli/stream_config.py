"""Stream configurations from flags, files and questions.

A configuration is the JSON object that travels; flags and answers change fields of it. What can be
decided without a server is decided here, without one.
"""

from collections.abc import Callable
from typing import Any

import click

from jetstream.cli import human
from jetstream.cli.app import Decorator, options
from jetstream.cli.problems import Failure
from jetstream.cli.prompts import ask, choose, confirm, whole_number
from jetstream.cli.values import (
    BYTES,
    DURATION,
    PAIR,
    parse_bytes,
    parse_duration,
    split_subjects,
)

Json = dict[str, Any]
RESERVED_METADATA = "_nats."
RETENTIONS = {
    "limits": "limits",
    "interest": "interest",
    "work": "workqueue",
    "workq": "workqueue",
    "workqueue": "workqueue",
}
STORAGES = {"file": "file", "f": "file", "memory": "memory", "m": "memory"}
REQUIRED_SIZE = 256 << 20

# flag name → field, for those that are copied as they are
_PLAIN = {
    "description": "description",
    "compression": "compression",
    "replicas": "num_replicas",
    "discard": "discard",
    "discard_per_subject": "discard_new_per_subject",
    "max_msgs": "max_msgs",
    "max_msgs_per_subject": "max_msgs_per_subject",
    "max_bytes": "max_bytes",
    "max_msg_size": "max_msg_size",
    "max_consumers": "max_consumers",
    "dupe_window": "duplicate_window",
    "allow_rollup": "allow_rollup_hdrs",
    "deny_delete": "deny_delete",
    "deny_purge": "deny_purge",
    "allow_direct": "allow_direct",
    "allow_mirror_direct": "mirror_direct",
    "allow_msg_ttl": "allow_msg_ttl",
    "subject_del_markers_ttl": "subject_delete_marker_ttl",
    "allow_batch": "allow_atomic",
    "allow_fast": "allow_batched",
    "allow_counter": "allow_msg_counter",
    "allow_schedules": "allow_msg_schedules",
    "first_sequence": "first_seq",
    "persist_mode": "persist_mode",
}


def _choice(*words: str) -> click.Choice[str]:
    return click.Choice(words, case_sensitive=False)


def config_options(edit: bool = False) -> Decorator:
    """The flags of a stream configuration; those that cannot change are left out of `edit`."""
    made: list[Decorator] = [
        click.option("--subjects", multiple=True, help="subjects to capture (repeat, or commas)"),
        click.option("--description", help="what the stream is for"),
        click.option("--compression", type=_choice("none", "s2"), help="compression in the store"),
        click.option("--replicas", type=int, help="copies in a cluster"),
        click.option("--retention", type=_choice(*RETENTIONS), help="when messages may leave"),
        click.option("--discard", type=_choice("new", "old"), help="what goes when it is full"),
        click.option("--discard-per-subject/--no-discard-per-subject", default=None),
        click.option("--max-msgs", type=int, help="most messages (-1: unlimited)"),
        click.option("--max-msgs-per-subject", type=int, help="most messages of one subject"),
        click.option("--max-bytes", type=BYTES, help="most bytes, for example 10GB"),
        click.option("--max-age", type=DURATION, help="longest stay, for example 7d"),
        click.option("--max-msg-size", type=BYTES, help="largest message"),
        click.option("--max-consumers", type=int, help="most consumers"),
        click.option("--dupe-window", type=DURATION, help="how long message ids are remembered"),
        click.option("--ack/--no-ack", default=None, help="acknowledge publishes"),
        click.option("--allow-rollup/--no-allow-rollup", default=None, help="allow roll-ups"),
        click.option("--deny-delete/--no-deny-delete", default=None, help="refuse deletes"),
        click.option("--deny-purge/--no-deny-purge", default=None, help="refuse purges"),
        click.option("--allow-direct/--no-allow-direct", default=None, help="direct reads"),
        click.option("--allow-mirror-direct/--no-allow-mirror-direct", default=None),
        click.option("--allow-msg-ttl/--no-allow-msg-ttl", default=None, help="TTL per message"),
        click.option("--subject-del-markers-ttl", type=DURATION, help="life of delete markers"),
        click.option("--allow-batch/--no-allow-batch", default=None, help="atomic batches"),
        click.option("--allow-fast/--no-allow-fast", default=None, help="fast batches"),
        click.option("--allow-counter/--no-allow-counter", default=None, help="counters"),
        click.option("--allow-schedules/--no-allow-schedules", default=None, help="schedules"),
        click.option("--transform-source", help="subjects to rewrite"),
        click.option("--transform-destination", help="what they become"),
        click.option("--no-transform", is_flag=True, help="drop the subject transform"),
        click.option("--republish-source", help="subjects to publish again"),
        click.option("--republish-destination", help="under which subject"),
        click.option("--republish-headers", is_flag=True, help="only their headers"),
        click.option("--no-republish", is_flag=True, help="stop publishing again"),
        click.option("--metadata", type=PAIR, multiple=True, help="key:value (repeat)"),
        click.option("--tag", multiple=True, help="placement tags"),
        click.option("--cluster", help="placement cluster"),
        click.option("--limit-consumer-inactive", type=DURATION, help="consumers' idle limit"),
        click.option("--limit-consumer-max-pending", type=int, help="consumers' pending limit"),
    ]
    if edit:
        made.append(click.option("--no-mirror", is_flag=True, help="drop the mirror"))
    else:
        made += [
            click.option("--storage", type=_choice(*STORAGES), help="file or memory"),
            click.option("--mirror", help="stream to mirror (a name, or JSON)"),
            click.option("--source", multiple=True, help="stream to take from (name or JSON)"),
            click.option("--first-sequence", type=int, help="number of the first message"),
            click.option("--persist-mode", type=_choice("default", "async")),
        ]
    return options(*made)


def apply_flags(config: Json, flags: Json) -> Json:
    """The configuration with everything the flags say; flags not given change nothing."""
    made = dict(config)
    for flag, field in _PLAIN.items():
        if flags.get(flag) is not None:
            made[field] = flags[flag]
    if flags.get("subjects"):
        made["subjects"] = split_subjects(flags["subjects"])
    if flags.get("retention"):
        made["retention"] = RETENTIONS[flags["retention"].lower()]
    if flags.get("storage"):
        made["storage"] = STORAGES[flags["storage"].lower()]
    if flags.get("max_age") is not None:
        made["max_age"] = max(flags["max_age"], 0)
    if flags.get("ack") is not None:
        made["no_ack"] = not flags["ack"]
    if flags.get("metadata"):
        made["metadata"] = {**made.get("metadata", {}), **dict(flags["metadata"])}
    _apply_rewrites(made, flags)
    _apply_placement(made, flags)
    _apply_sources(made, flags)
    return made


def _apply_rewrites(made: Json, flags: Json) -> None:
    source, target = flags.get("transform_source"), flags.get("transform_destination")
    if (source is None) != (target is None):
        raise Failure(
            "a subject transform needs both ends",
            "give --transform-source and --transform-destination",
            2,
        )
    if target is not None:
        made["subject_transform"] = {"src": source, "dest": target}
    if flags.get("no_transform"):
        made.pop("subject_transform", None)
    source, target = flags.get("republish_source"), flags.get("republish_destination")
    if (source is None) != (target is None):
        raise Failure(
            "republishing needs both ends",
            "give --republish-source and --republish-destination",
            2,
        )
    if target is not None:
        made["republish"] = {"src": source, "dest": target}
        if flags.get("republish_headers"):
            made["republish"]["headers_only"] = True
    if flags.get("no_republish"):
        made.pop("republish", None)


def _apply_placement(made: Json, flags: Json) -> None:
    placement = dict(made.get("placement") or {})
    if flags.get("tag"):
        placement["tags"] = [tag for tag in flags["tag"] if tag]
    if flags.get("cluster") is not None:
        placement["cluster"] = flags["cluster"]
    placement = {key: value for key, value in placement.items() if value}
    if placement:
        made["placement"] = placement
    else:
        made.pop("placement", None)
    limits = dict(made.get("consumer_limits") or {})
    if flags.get("limit_consumer_inactive") is not None:
        limits["inactive_threshold"] = flags["limit_consumer_inactive"]
    if flags.get("limit_consumer_max_pending") is not None:
        limits["max_ack_pending"] = flags["limit_consumer_max_pending"]
    if limits:
        made["consumer_limits"] = limits


def _apply_sources(made: Json, flags: Json) -> None:
    if flags.get("mirror"):
        made["mirror"] = source_of(flags["mirror"])
        made.pop("subjects", None)
        if flags.get("allow_mirror_direct") is None:
            made["mirror_direct"] = bool(made.get("mirror_direct", False))
    if flags.get("source"):
        made["sources"] = [source_of(text) for text in flags["source"]]
    if flags.get("no_mirror"):
        made.pop("mirror", None)


def source_of(text: str) -> Json:
    """A mirror or source given as a name or as JSON."""
    import json

    if not text.lstrip().startswith("{"):
        return {"name": text}
    try:
        return dict(json.loads(text))
    except ValueError as error:
        raise Failure(f"the source is not valid JSON: {error}", None, 2) from error


def defaults() -> Json:
    """What a stream gets when nobody says otherwise, as natscli does it."""
    return {
        "retention": "limits",
        "max_consumers": -1,
        "max_msgs": -1,
        "max_bytes": -1,
        "max_age": 0,
        "max_msgs_per_subject": -1,
        "max_msg_size": -1,
        "discard": "old",
        "storage": "file",
        "num_replicas": 1,
        "allow_direct": True,
    }


def finish(config: Json) -> Json:
    """The last touches before it is sent: the duplicate window, reserved metadata dropped."""
    made = dict(config)
    age = made.get("max_age") or 0
    if "duplicate_window" not in made and not made.get("mirror"):
        window = 120 * 1_000_000_000
        made["duplicate_window"] = min(window, age) if age > 0 else window
    if made.get("metadata"):
        made["metadata"] = own_metadata(made["metadata"])
    if ">" in made.get("subjects", []) and not made.get("no_ack"):
        raise Failure(
            "a stream on `>` would capture its own acknowledgements",
            "name narrower subjects, or add --no-ack",
            2,
        )
    return made


def own_metadata(metadata: dict[str, str]) -> dict[str, str]:
    """Without what the server keeps there for itself."""
    return {k: v for k, v in metadata.items() if not k.startswith(RESERVED_METADATA)}


async def ask_missing(config: Json, flags: Json) -> Json:
    """Walk through everything the flags did not say, in natscli's order."""
    made = dict(config)

    def open_(flag: str) -> bool:
        return flags.get(flag) in (None, ())

    if not made.get("subjects") and not made.get("mirror") and not made.get("sources"):
        made["subjects"] = await ask(
            "Subjects",
            flag="--subjects",
            help="Subjects this stream captures, between blanks or commas; wildcards are fine.",
            check=_subjects,
        )
    if open_("storage"):
        made["storage"] = await choose(
            "Storage", ["file", "memory"], flag="--storage", default="file"
        )
    if open_("replicas"):
        made["num_replicas"] = await ask(
            "Replication",
            flag="--replicas",
            default="1",
            check=whole_number,
            help="Copies in a cluster.",
        )
    if open_("retention"):
        words = {"Limits": "limits", "Interest": "interest", "Work Queue": "workqueue"}
        chosen = await choose("Retention Policy", list(words), flag="--retention")
        made["retention"] = words[chosen]
    if open_("discard"):
        chosen = await choose("Discard Policy", ["Old", "New"], flag="--discard", default="Old")
        made["discard"] = chosen.lower()
    await _ask_limits(made, open_)
    if open_("allow_rollup"):
        made["allow_rollup_hdrs"] = await confirm("Allow message Roll-ups", flag="--allow-rollup")
    if open_("deny_delete"):
        made["deny_delete"] = not await confirm(
            "Allow message deletion", default=True, flag="--deny-delete"
        )
    if open_("deny_purge"):
        made["deny_purge"] = not await confirm(
            "Allow purging subjects or the entire stream", default=True, flag="--deny-purge"
        )
    return made


async def _ask_limits(made: Json, open_: Callable[[str], bool]) -> None:
    questions: list[tuple[str, str, str, Callable[[str], int], str]] = [
        ("max_msgs", "max_msgs", "Stream Messages Limit", whole_number, "-1"),
        (
            "max_msgs_per_subject",
            "max_msgs_per_subject",
            "Per Subject Messages Limit",
            whole_number,
            "-1",
        ),
        ("max_bytes", "max_bytes", "Total Stream Size", parse_bytes, "-1"),
        ("max_age", "max_age", "Message TTL", parse_duration, "-1"),
        ("max_msg_size", "max_msg_size", "Max Message Size", parse_bytes, "-1"),
    ]
    for flag, field, question, parse, default in questions:
        if open_(flag):
            value = await ask(
                question,
                flag="--" + flag.replace("_", "-"),
                default=default,
                check=parse,
                help="-1 means unlimited.",
            )
            made[field] = max(value, 0) if field == "max_age" else value
    if open_("dupe_window") and not made.get("mirror"):
        age = made.get("max_age") or 0
        window = min(120 * 10**9, age) if age > 0 else 120 * 10**9
        made["duplicate_window"] = await ask(
            "Duplicate tracking time window",
            flag="--dupe-window",
            default=human.duration(window).replace("0s", "") if window >= 60 * 10**9 else "1s",
            check=parse_duration,
            help="How long the server remembers message ids.",
        )


def _subjects(text: str) -> list[str]:
    found = split_subjects(text)
    if not found:
        raise ValueError("at least one subject is needed")
    return found
