"""What a benchmark prints: a line per client, a line for all, CSV and JSON."""

import csv
import statistics
from pathlib import Path
from typing import Any

from jetstream.cli import human
from jetstream.cli.bench_runs import Result
from jetstream.cli.output import print_json, say, screen

CSV_COLUMNS = [
    "RunID",
    "ClientID",
    "MsgCount",
    "MsgBytes",
    "MsgsPerSec",
    "BytesPerSec",
    "DurationSecs",
    "MinUs",
    "AvgUs",
    "MaxUs",
    "P50Us",
    "P90Us",
    "P99Us",
    "P999Us",
]


def latency(latencies: list[float]) -> dict[str, float]:
    """Quantiles in microseconds."""
    if not latencies:
        return {}
    ordered = sorted(value * 1e6 for value in latencies)

    def at(part: float) -> float:
        return ordered[min(int(part * len(ordered)), len(ordered) - 1)]

    return {
        "min": ordered[0],
        "avg": statistics.fmean(ordered),
        "max": ordered[-1],
        "p50": at(0.50),
        "p90": at(0.90),
        "p99": at(0.99),
        "p99.9": at(0.999),
    }


def summary(results: list[Result]) -> dict[str, Any]:
    """All clients together: from the first start to the last end."""
    msgs = sum(result.msgs for result in results)
    size = sum(result.bytes for result in results)
    seconds = max(r.stop for r in results) - min(r.start for r in results)
    return {
        "clients": len(results),
        "msgs": msgs,
        "bytes": size,
        "seconds": seconds,
        "msgs_per_second": msgs / max(seconds, 1e-9),
        "bytes_per_second": size / max(seconds, 1e-9),
        "latency_us": latency([value for result in results for value in result.latencies]),
    }


def _latency_text(found: dict[str, float]) -> str:
    if not found:
        return ""
    shown = "/".join(f"{value:,.0f}" for value in found.values())
    return f" ~ min/avg/max/P50/P90/P99/P99.9 {shown} us"


def line(msgs: float, size: float, found: dict[str, float]) -> str:
    return f"{human.number(int(msgs))} msgs/sec ~ {human.size(int(size))}/sec{_latency_text(found)}"


def show(title: str, results: list[Result], flags: dict[str, Any]) -> None:
    total = summary(results)
    if flags.get("csv_file"):
        write_csv(Path(flags["csv_file"]), results)
    if screen().json:
        print_json({"benchmark": title, **total})
        return
    if len(results) > 1:
        for result in results:
            rate, size = result.msgs / result.seconds, result.bytes / result.seconds
            say(f"  [{result.client}] {line(rate, size, latency(result.latencies))}")
    shown = line(total["msgs_per_second"], total["bytes_per_second"], total["latency_us"])
    say(f"NATS {title} stats: {shown}")
    if len(results) > 1:
        rates = [result.msgs / result.seconds for result in results]
        say(
            f"  message rates min {min(rates):,.0f} | avg {statistics.fmean(rates):,.0f} | "
            f"max {max(rates):,.0f} | stddev {statistics.pstdev(rates):,.0f} msgs/sec"
        )


def write_csv(path: Path, results: list[Result]) -> None:
    import secrets

    run = secrets.token_hex(4)
    fresh = not path.exists()
    with path.open("a", newline="") as file:
        writer = csv.writer(file)
        if fresh:
            writer.writerow(CSV_COLUMNS)
        for r in results:
            found = latency(r.latencies)
            writer.writerow(
                [
                    run,
                    r.client,
                    r.msgs,
                    r.bytes,
                    f"{r.msgs / r.seconds:.2f}",
                    f"{r.bytes / r.seconds:.2f}",
                    f"{r.seconds:.6f}",
                    *(f"{value:.1f}" for value in found.values()),
                ]
            )
