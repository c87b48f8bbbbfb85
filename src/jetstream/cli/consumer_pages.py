"""How a consumer looks on the screen, and what its numbers say about it."""

from typing import Any

from jetstream.cli import human
from jetstream.cli.output import Page
from jetstream.cli.stream_config import own_metadata

Json = dict[str, Any]
_WORDS = {
    "all": "All",
    "last": "Last",
    "new": "New",
    "last_per_subject": "Last Per Subject",
    "none": "None",
    "explicit": "Explicit",
    "flow_control": "Flow Control",
    "instant": "Instant",
    "original": "Original",
}


def info_page(info: Json) -> str:
    config = info["config"]
    page = Page(
        f"Information for Consumer {info['stream_name']} > {info['name']} "
        f"created {human.local_time(info.get('created'))}"
    )
    page.section("Configuration")
    _identity(page, info, config)
    _delivery(page, config)
    _limits(page, config)
    if metadata := own_metadata(config.get("metadata") or {}):
        page.section("Metadata")
        for key, value in sorted(metadata.items()):
            page.row(key, value)
    page.section("State")
    state_rows(page, info)
    return page.render()


def state_page(info: Json) -> str:
    page = Page(f"State for Consumer {info['stream_name']} > {info['name']}")
    state_rows(page, info)
    return page.render()


def filters(config: Json) -> list[str]:
    if config.get("filter_subject"):
        return [config["filter_subject"]]
    return list(config.get("filter_subjects") or [])


def start_text(config: Json) -> str:
    policy = str(config.get("deliver_policy", "all"))
    if policy == "by_start_sequence":
        return f"From Sequence {config.get('opt_start_seq', 0):,}"
    if policy == "by_start_time":
        return f"Since {human.local_time(config.get('opt_start_time'))}"
    return _WORDS.get(policy, policy)


def _identity(page: Page, info: Json, config: Json) -> None:
    page.row("Name", info["name"])
    page.row("Durable Name", config.get("durable_name", ""))
    page.row("Description", config.get("description", ""))
    if config.get("deliver_subject"):
        page.row("Delivery Subject", config["deliver_subject"])
    else:
        page.row("Pull Mode", "true")
    page.row(
        "Filter Subjects" if len(filters(config)) > 1 else "Filter Subject",
        ", ".join(filters(config)),
    )
    page.row("Deliver Policy", start_text(config))
    page.row("Deliver Queue Group", config.get("deliver_group", ""))


def _delivery(page: Page, config: Json) -> None:
    ack = config.get("ack_policy", "none")
    page.row("Ack Policy", _WORDS.get(ack, ack))
    page.row("Ack Wait", human.duration(config.get("ack_wait", 0)), config.get("ack_wait"))
    page.row("Replay Policy", _WORDS.get(config.get("replay_policy", "instant")))
    deliveries = config.get("max_deliver", -1)
    page.row("Maximum Deliveries", deliveries, deliveries > 0)
    page.row("Sampling Rate", config.get("sample_freq", ""))
    bps = config.get("rate_limit_bps", 0)
    page.row("Rate Limit", f"{bps:,} bits/s", bps)


def _limits(page: Page, config: Json) -> None:
    pending = config.get("max_ack_pending", 0)
    page.row("Max Ack Pending", "unlimited" if pending < 0 else pending, pending)
    page.row("Max Waiting Pulls", config.get("max_waiting", 0), config.get("max_waiting"))
    beat = config.get("idle_heartbeat", 0)
    page.row("Idle Heartbeat", human.duration(beat), beat)
    page.row("Flow Control", "true", config.get("flow_control"))
    page.row("Headers Only", "true", config.get("headers_only"))
    idle = config.get("inactive_threshold", 0)
    page.row("Inactive Threshold", human.duration(idle), idle)
    expire = config.get("max_expires", 0)
    page.row("Max Pull Expire", human.duration(expire), expire)
    page.row("Max Pull Batch", config.get("max_batch", 0), config.get("max_batch"))
    page.row("Max Pull MaxBytes", config.get("max_bytes", 0), config.get("max_bytes"))
    page.row("Backoff", ", ".join(human.duration(each) for each in config.get("backoff") or []))
    page.row("Replicas", config.get("num_replicas", 0), config.get("num_replicas"))
    page.row("Memory Storage", "true", config.get("mem_storage"))
    until = config.get("pause_until")
    page.row("Paused Until Deadline", human.local_time(until), not human.is_zero_time(until))
    page.row("Priority Policy", config.get("priority_policy", ""))
    page.row("Priority Groups", ", ".join(config.get("priority_groups") or []))


def state_rows(page: Page, info: Json) -> None:
    config = info["config"]
    page.row("Host Version", "")
    page.row("Last Delivered Message", _position(info.get("delivered") or {}))
    if config.get("ack_policy", "none") != "none":
        page.row("Acknowledgment Floor", _position(info.get("ack_floor") or {}))
        most = config.get("max_ack_pending", -1)
        out = human.number(info.get("num_ack_pending", 0))
        page.row("Outstanding Acks", f"{out} out of maximum {most:,}" if most > 0 else out)
        page.row("Redelivered Messages", info.get("num_redelivered", 0))
    page.row("Unprocessed Messages", info.get("num_pending", 0))
    if config.get("deliver_subject"):
        group = (
            f" using Queue Group {config['deliver_group']}" if config.get("deliver_group") else ""
        )
        page.row("Active Interest", f"Active{group}" if info.get("push_bound") else "No interest")
    else:
        most = config.get("max_waiting", 0)
        waiting = human.number(info.get("num_waiting", 0))
        page.row("Waiting Pulls", f"{waiting} of maximum {most:,}" if most else waiting)
    if info.get("paused"):
        left = human.duration(info.get("pause_remaining", 0))
        until = human.local_time(config.get("pause_until"))
        page.row("Paused Until", f"{until} ({left} remaining)")
    for state in info.get("priority_groups") or []:
        page.row(
            f"Priority Group {state.get('group')}",
            f"pinned to {state['pinned_client_id']}"
            if state.get("pinned_client_id")
            else "not pinned",
        )


def _position(place: Json) -> str:
    text = (
        f"Consumer sequence: {place.get('consumer_seq', 0):,} "
        f"Stream sequence: {place.get('stream_seq', 0):,}"
    )
    if not human.is_zero_time(place.get("last_active")):
        text += f" Last delivery: {human.age(place['last_active'])} ago"
    return text


def why_nothing(info: Json, stream: Json) -> list[str]:
    """Why a consumer delivers nothing, read from what any server tells; most telling first."""
    config, reasons = info["config"], []
    if info.get("paused"):
        left = human.duration(info.get("pause_remaining", 0))
        reasons.append(f"it is paused for another {left}: `jetstream consumer resume` starts it")
    most, out = config.get("max_ack_pending", 0), info.get("num_ack_pending", 0)
    if most > 0 and out >= most:
        reasons.append(
            f"{out:,} messages wait for their acknowledgement, as many as max_ack_pending allows; "
            "the workers have to acknowledge, or --max-pending has to rise"
        )
    if not stream["state"]["messages"]:
        reasons.append("the stream is empty")
    elif not info.get("num_pending", 0):
        reasons.append(_nothing_left(config, out))
    elif config.get("deliver_subject") and not info.get("push_bound"):
        reasons.append(
            f"nobody subscribes to its delivery subject {config['deliver_subject']}: "
            f"`jetstream consumer sub` or `jetstream sub {config['deliver_subject']}`"
        )
    elif not config.get("deliver_subject") and not info.get("num_waiting", 0):
        reasons.append(
            "no pull request is waiting: a worker has to ask (`jetstream consumer next`)"
        )
    return reasons


def _nothing_left(config: Json, out: int) -> str:
    if out:
        return (
            f"everything was delivered; {out:,} messages wait for an acknowledgement and come "
            f"again after {human.duration(config.get('ack_wait', 0))}"
        )
    if filters(config):
        return f"no further message matches its filter {', '.join(filters(config))}"
    return "it has delivered everything there is"
