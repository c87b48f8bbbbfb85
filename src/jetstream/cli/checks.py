"""Health checks as monitoring systems want them: a verdict, reasons, numbers.

OK Connection OK:connected to nats://… in 2ms | connect_time=0.0021;0.5;1
"""

from typing import Any

from msgspec import Struct, field

from jetstream.cli.values import parse_duration

CODES = {"OK": 0, "WARNING": 1, "CRITICAL": 2, "UNKNOWN": 3}


class Number(Struct, frozen=True):
    """A measured value with its thresholds."""

    name: str
    value: float
    warn: float = 0.0
    critical: float = 0.0
    unit: str = ""
    help: str = ""


class Check(Struct):
    """What a check found; the worst finding is the verdict."""

    name: str
    kind: str
    oks: list[str] = field(default_factory=list)
    warnings: list[str] = field(default_factory=list)
    criticals: list[str] = field(default_factory=list)
    numbers: list[Number] = field(default_factory=list)

    def ok(self, text: str) -> None:
        self.oks.append(text)

    def warn(self, text: str) -> None:
        self.warnings.append(text)

    def critical(self, text: str) -> None:
        self.criticals.append(text)

    def above(self, number: Number, text: str) -> None:
        """A value that should stay low; a threshold below its partner turns the test round."""
        self.numbers.append(number)
        warn, critical = number.warn, number.critical
        turned = warn > critical > 0
        if critical and (number.value <= critical if turned else number.value >= critical):
            self.critical(text)
        elif warn and (number.value <= warn if turned else number.value >= warn):
            self.warn(text)
        else:
            self.ok(text)

    @property
    def status(self) -> str:
        if self.criticals:
            return "CRITICAL"
        return "WARNING" if self.warnings else "OK"

    @property
    def code(self) -> int:
        return CODES[self.status]


def nagios(check: Check) -> str:
    """One line, numbers behind the bar."""
    parts = []
    for word, texts in (
        ("Crit", check.criticals),
        ("Warn", check.warnings),
        ("OK", check.oks if not check.criticals and not check.warnings else []),
    ):
        if texts:
            parts.append(f"{word}:{', '.join(texts)}")
    line = f"{check.name} {check.status} {' '.join(parts)}"
    if check.numbers:
        shown = " ".join(
            f"{n.name}={_plain(n.value)}{n.unit};{_plain(n.warn)};{_plain(n.critical)}"
            for n in check.numbers
        )
        line += f" | {shown}"
    return line


def text(check: Check) -> str:
    lines = [f"{check.name}: {check.status}", ""]
    lines += [f"  critical: {t}" for t in check.criticals]
    lines += [f"   warning: {t}" for t in check.warnings]
    lines += [f"        ok: {t}" for t in check.oks]
    lines += [f"{n.name:>28}: {_plain(n.value)}{n.unit}" for n in check.numbers]
    return "\n".join(lines)


def as_json(check: Check) -> dict[str, Any]:
    return {
        "status": check.status,
        "check_suite": check.kind,
        "check_name": check.name,
        "critical": check.criticals,
        "warning": check.warnings,
        "ok": check.oks,
        "perf_data": [
            {
                "name": n.name,
                "value": n.value,
                "warning": n.warn,
                "critical": n.critical,
                "unit": n.unit,
            }
            for n in check.numbers
        ],
    }


def prometheus(check: Check, namespace: str = "nats_server_check") -> str:
    lines = []
    for n in check.numbers:
        metric = f"{namespace}_{check.kind}_{n.name}"
        lines += [
            f"# HELP {metric} {n.help or n.name}",
            f"# TYPE {metric} gauge",
            f'{metric}{{item="{check.name}"}} {_plain(n.value)}',
        ]
    metric = f"{namespace}_{check.kind}_status_code"
    lines += [
        f"# HELP {metric} Nagios compatible status code",
        f"# TYPE {metric} gauge",
        f'{metric}{{item="{check.name}",status="{check.status}"}} {check.code}',
    ]
    return "\n".join(lines)


def _plain(value: float) -> str:
    return str(int(value)) if value == int(value) else f"{value:.6g}"


def seconds(value_text: str) -> float:
    """Thresholds from metadata: a duration or a number of seconds."""
    try:
        return float(value_text)
    except ValueError:
        return parse_duration(value_text) / 1e9
