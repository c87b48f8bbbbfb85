"""Small facts about a running server that several views share: uptime, memory, totals."""

import os
import resource
import time
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from jetstream.broker._broker import Account
    from jetstream.server.connection import Connection
    from jetstream.server.server import Server

_PAGE = os.sysconf("SC_PAGE_SIZE")
_cpu: list[float] = [0.0, 0.0, 0.0]  # wall, process seconds, last answer


def uptime(seconds: float) -> str:
    """`1y2d3h4m5s`; units in front that are zero are left out."""
    left = int(max(0.0, seconds))
    parts: list[str] = []
    for unit, size in (("y", 365 * 86400), ("d", 86400), ("h", 3600), ("m", 60)):
        count, left = divmod(left, size)
        if count or parts:
            parts.append(f"{count}{unit}")
    return "".join([*parts, f"{left}s"])


def memory_bytes() -> int:
    """What the process holds in memory now."""
    try:
        with open("/proc/self/statm", "rb") as statm:  # noqa: PTH123
            return int(statm.read().split()[1]) * _PAGE
    except (OSError, IndexError, ValueError):
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


def cpu_percent() -> float:
    """Processor time used since the last question, in percent of one core."""
    wall, used = time.monotonic(), time.process_time()
    passed = wall - _cpu[0]
    if passed >= 0.5:
        _cpu[2] = round(100 * (used - _cpu[1]) / passed, 1) if _cpu[0] else 0.0
        _cpu[0], _cpu[1] = wall, used
    return _cpu[2]


def number(value: float) -> float | int:
    """Go writes whole floats without a point."""
    return int(value) if value == int(value) else value


def core_count() -> int:
    return os.cpu_count() or 1


def subscription_count(server: "Server") -> int:
    return sum(len(account.tree) for account in server.accounts)


def tree_stats(trees: list[Any]) -> dict[str, Any]:
    """The shape of the reference's subscription-tree numbers; we keep no hit rates."""
    total = sum(len(tree) for tree in trees)
    return {
        "num_subscriptions": total,
        "num_cache": 0,
        "num_inserts": total,
        "num_removes": 0,
        "num_matches": 0,
        "cache_hit_rate": 0,
        "max_fanout": 0,
        "avg_fanout": 0,
    }


def connections_of(server: "Server", account: "Account") -> "list[Connection]":
    return [c for c in server.connections.values() if c.account is account and c.connected]


def account_traffic(server: "Server", account: "Account") -> tuple[int, int, int, int]:
    """Messages and bytes in, then out, of the clients that are here or left lately."""
    here = [c for c in server.connections.values() if c.account is account]
    gone = [c for c in server.closed if c.account == account.name]
    return (
        sum(c.in_msgs for c in here) + sum(c.in_msgs for c in gone),
        sum(c.in_bytes for c in here) + sum(c.in_bytes for c in gone),
        sum(c.out_msgs for c in here) + sum(c.out_msgs for c in gone),
        sum(c.out_bytes for c in here) + sum(c.out_bytes for c in gone),
    )
