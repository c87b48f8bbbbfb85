"""How a stream looks on the screen: its information page and its state."""

from typing import Any

from jetstream.cli import human
from jetstream.cli.output import Page
from jetstream.cli.stream_config import own_metadata

Json = dict[str, Any]
_STORAGE = {"file": "File", "memory": "Memory"}
_RETENTION = {"limits": "Limits", "interest": "Interest", "workqueue": "WorkQueue"}


def info_page(info: Json) -> str:
    config, state = info["config"], info["state"]
    page = Page(
        f"Information for Stream {config['name']} created {human.local_time(info.get('created'))}"
    )
    _basics(page, config)
    _options(page, config)
    _limits(page, config)
    if metadata := own_metadata(config.get("metadata") or {}):
        page.section("Metadata")
        for key, value in sorted(metadata.items()):
            page.row(key, value)
    _replication(page, config, info)
    _cluster(page, info.get("cluster"))
    page.section("State")
    state_rows(page, state, info)
    return page.render()


def state_page(info: Json) -> str:
    name = info["config"]["name"]
    page = Page(f"State for Stream {name} created {human.local_time(info.get('created'))}")
    state_rows(page, info["state"], info)
    return page.render()


def _basics(page: Page, config: Json) -> None:
    page.row("Description", config.get("description", ""))
    page.row("Subjects", ", ".join(config.get("subjects") or []))
    page.row("Replicas", config.get("num_replicas", 1))
    page.row("Sealed", "true", config.get("sealed"))
    page.row("Storage", _STORAGE.get(config.get("storage", ""), config.get("storage")))
    page.row("Compression", config.get("compression"), config.get("compression") != "none")
    page.row("First Sequence", config.get("first_seq", 0), config.get("first_seq"))
    placement = config.get("placement") or {}
    page.row("Placement Cluster", placement.get("cluster", ""))
    page.row("Placement Tags", ", ".join(placement.get("tags") or []))


def _options(page: Page, config: Json) -> None:
    page.section("Options")
    if transform := config.get("subject_transform"):
        page.row("Subject Transform", f"{transform.get('src') or '>'} to {transform.get('dest')}")
    if again := config.get("republish"):
        only = " (headers only)" if again.get("headers_only") else ""
        page.row("Republishing", f"{again.get('src') or '>'} to {again.get('dest')}{only}")
    page.row("Retention", _RETENTION.get(config.get("retention", ""), config.get("retention")))
    page.row("Acknowledgments", not config.get("no_ack", False))
    discard = str(config.get("discard", "old")).capitalize()
    page.row(
        "Discard Policy",
        f"{discard} Per Subject" if config.get("discard_new_per_subject") else discard,
    )
    page.row("Duplicate Window", human.duration(config.get("duplicate_window", 0)))
    page.row("Direct Get", config.get("allow_direct", False))
    page.row("Mirror Direct Get", config.get("mirror_direct", False), config.get("mirror"))
    page.row("Allows Atomic Batch Publish", config.get("allow_atomic", False))
    page.row("Allows Fast Batch Publish", config.get("allow_batched", False))
    page.row("Allows Counters", config.get("allow_msg_counter", False))
    page.row("Allows Msg Delete", not config.get("deny_delete", False))
    page.row("Allows Per-Message TTL", config.get("allow_msg_ttl", False))
    page.row("Allows Purge", not config.get("deny_purge", False))
    page.row("Allows Schedules", config.get("allow_msg_schedules", False))
    marker = config.get("subject_delete_marker_ttl", 0)
    page.row("Subject Delete Markers TTL", human.duration(marker), marker)
    page.row("Allows Rollups", config.get("allow_rollup_hdrs", False))


def _limits(page: Page, config: Json) -> None:
    page.section("Limits")
    page.row("Maximum Messages", human.limit(config.get("max_msgs", -1)))
    page.row("Maximum Per Subject", human.limit(config.get("max_msgs_per_subject", -1)))
    page.row("Maximum Bytes", human.limit_size(config.get("max_bytes", -1)))
    page.row("Maximum Age", human.limit_duration(config.get("max_age", 0)))
    page.row("Maximum Message Size", human.limit_size(config.get("max_msg_size", -1)))
    page.row("Maximum Consumers", human.limit(config.get("max_consumers", -1)))
    limits = config.get("consumer_limits") or {}
    idle = limits.get("inactive_threshold", 0)
    page.row("Consumer Inactive Threshold", human.duration(idle), idle)
    pending = limits.get("max_ack_pending", 0)
    page.row("Consumer Max Ack Pending", pending, pending)


def source_text(source: Json) -> str:
    """A mirror or source in one line."""
    text = str(source.get("name"))
    if external := source.get("external"):
        text += f", API Prefix: {external.get('api')}, Delivery Prefix: {external.get('deliver')}"
    if source.get("filter_subject"):
        text += f", Filter: {source['filter_subject']}"
    for transform in source.get("subject_transforms") or []:
        text += f", {transform.get('src') or '>'} to {transform.get('dest')}"
    if source.get("opt_start_seq"):
        text += f", Start Sequence: {source['opt_start_seq']}"
    if source.get("opt_start_time"):
        text += f", Start Time: {human.local_time(source['opt_start_time'])}"
    return text


def _replication(page: Page, config: Json, info: Json) -> None:
    if config.get("mirror") or config.get("sources"):
        page.section("Replication")
        if config.get("mirror"):
            page.row("Mirror", source_text(config["mirror"]))
        page.rows("Sources", [source_text(each) for each in config.get("sources") or []])
    if mirror := info.get("mirror"):
        page.section("Mirror Information")
        _source_info(page, mirror)
    for source in info.get("sources") or []:
        page.section("Source Information")
        _source_info(page, source)


def _source_info(page: Page, source: Json) -> None:
    page.row("Stream Name", source.get("name"))
    page.row("Lag", source.get("lag", 0))
    active = source.get("active", -1)
    page.row("Last Seen", "never" if active < 0 else human.duration(active))
    if error := source.get("error"):
        page.row("Error", f"{error.get('description')} ({error.get('code')})")


def _cluster(page: Page, cluster: Json | None) -> None:
    if not cluster:
        return
    page.section("Cluster Information")
    page.row("Name", cluster.get("name", ""))
    page.row("Leader", cluster.get("leader", ""))
    page.rows(
        "Replica",
        [
            f"{peer.get('name')}, {'current' if peer.get('current') else 'outdated'}"
            f"{', OFFLINE' if peer.get('offline') else ''}, "
            f"seen {human.duration(peer.get('active', 0))} ago"
            + (f", {peer['lag']:,} operations behind" if peer.get("lag") else "")
            for peer in cluster.get("replicas") or []
        ],
    )


def state_rows(page: Page, state: Json, info: Json) -> None:
    page.row("Messages", state.get("messages", 0))
    page.row("Bytes", human.size(state.get("bytes", 0)))
    if lost := state.get("lost"):
        page.row("Lost Messages", f"{len(lost.get('msgs') or []):,} ({human.size(lost['bytes'])})")
    page.row("First Sequence", _sequence(state, "first"))
    page.row("Last Sequence", _sequence(state, "last"))
    deleted = state.get("num_deleted", 0)
    page.row("Deleted Messages", deleted, deleted)
    page.row("Active Consumers", state.get("consumer_count", 0))
    subjects = state.get("num_subjects", 0)
    page.row("Number of Subjects", subjects, subjects)
    page.rows(
        "Alternates",
        [f"{each.get('name')} in {each.get('cluster')}" for each in info.get("alternates") or []],
    )


def _sequence(state: Json, which: str) -> str:
    sequence, at = state.get(f"{which}_seq", 0), state.get(f"{which}_ts")
    if human.is_zero_time(at):
        return human.number(sequence)
    return f"{human.number(sequence)} @ {human.local_time(at)}"
