"""What commands print: tables, pages of `label: value`, JSON, and notes beside them.

Results go to stdout, the rest to stderr. On a terminal tables have borders and colour; into a
pipe they are plain aligned columns. `-o csv|tsv|md|json|jsonl|yaml` turn any table into that.
"""

import os
import sys
from collections.abc import Iterable, Sequence
from typing import Any

import click

from jetstream.cli.app import settings
from jetstream.cli.problems import Failure
from jetstream.cli.settings import FORMATS

COLORS = ("yellow", "blue", "cyan", "green", "magenta", "red")
_ROUNDED = "╭─┬╮│├┼┤╰┴╯"
_DOUBLE = "╔═╦╗║╠╬╣╚╩╝"


class Screen:
    """How this command may print."""

    def __init__(
        self, format: str, width: int, terminal: bool, color: str = "", quiet: bool = False
    ) -> None:
        self.format = format
        self.width = width
        self.terminal = terminal
        self.color = color
        self.quiet = quiet

    @property
    def json(self) -> bool:
        return self.format in ("json", "jsonl", "yaml")


def screen() -> Screen:
    """The screen of the command being carried out."""
    chosen = settings()
    terminal = sys.stdout.isatty()
    form = "json" if chosen.json else str(chosen.output or "").lower()
    if form == "markdown":
        form = "md"
    if form and form not in FORMATS:
        raise Failure(f"unknown output format {form!r}", f"use one of {', '.join(FORMATS)}", 2)
    color = "" if not terminal or os.environ.get("NO_COLOR") else str(chosen.colors or "rounded")
    return Screen(
        form or ("table" if terminal else "plain"),
        terminal_width() if terminal else 120,
        terminal,
        color,
        bool(chosen.quiet),
    )


def terminal_width() -> int:
    import shutil

    return shutil.get_terminal_size((120, 40)).columns


def say(text: str = "", nl: bool = True) -> None:
    """A line of the result."""
    click.echo(text, nl=nl)


def write_bytes(data: bytes, newline: bool = True) -> None:
    """A payload as it is."""
    out = sys.stdout.buffer
    sys.stdout.flush()
    out.write(data + b"\n" if newline and not data.endswith(b"\n") else data)
    out.flush()


def note(text: str) -> None:
    """A log line beside the result."""
    import time

    click.echo(f"{time.strftime('%H:%M:%S')} {text}", err=True)


def warn(text: str) -> None:
    click.echo(click.style("warning: ", fg="yellow") + text, err=True)


def to_json(value: Any, indent: int | None = 2) -> str:
    import json

    return json.dumps(value, indent=indent, ensure_ascii=False, default=str)


def print_json(value: Any) -> None:
    """A value in the JSON-like format that was asked for."""
    form = screen().format
    if form == "yaml":
        import yaml

        say(yaml.safe_dump(value, sort_keys=False, allow_unicode=True).rstrip())
    elif form == "jsonl":
        for each in value if isinstance(value, list) else [value]:
            say(to_json(each, None))
    else:
        say(to_json(value))


class Table:
    """Rows under named columns."""

    def __init__(self, title: str, *columns: str, left: Sequence[str] = ()) -> None:
        """Cells are right aligned when they look like numbers, unless the column is in `left`."""
        self.title = title
        self.columns = columns
        self.rows: list[list[str]] = []
        self.footer: list[str] | None = None
        self._left = set(left)

    def add(self, *cells: object) -> None:
        self.rows.append([cell_text(cell) for cell in cells])

    def total(self, *cells: object) -> None:
        self.footer = [cell_text(cell) for cell in cells]

    def print(self, on: Screen | None = None) -> None:
        say(self.render(on or screen()))

    def records(self) -> list[dict[str, str]]:
        return [dict(zip(self.columns, row, strict=False)) for row in self.rows]

    def render(self, on: Screen) -> str:
        if on.format in ("csv", "tsv"):
            return self._separated("," if on.format == "csv" else "\t")
        if on.format == "md":
            return self._markdown()
        if on.format in ("json", "jsonl"):
            if on.format == "jsonl":
                return "\n".join(to_json(row, None) for row in self.records())
            return to_json(self.records())
        if on.format == "yaml":
            import yaml

            return str(yaml.safe_dump(self.records(), sort_keys=False, allow_unicode=True)).rstrip()
        return self._plain() if on.format == "plain" else self._boxed(on)

    def _separated(self, separator: str) -> str:
        import csv
        import io

        out = io.StringIO()
        writer = csv.writer(out, delimiter=separator, lineterminator="\n")
        writer.writerow(self.columns)
        writer.writerows(self.rows)
        return out.getvalue().rstrip("\n")

    def _markdown(self) -> str:
        def line(cells: Iterable[str]) -> str:
            return "| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |"

        marks = ["---:" if self._is_right(i) else "---" for i in range(len(self.columns))]
        return "\n".join([line(self.columns), line(marks), *(line(row) for row in self.rows)])

    def _all_rows(self) -> list[list[str]]:
        return [list(self.columns), *self.rows, *([self.footer] if self.footer else [])]

    def _widths(self) -> list[int]:
        return [
            max(text_width(row[i]) for row in self._all_rows() if i < len(row))
            for i in range(len(self.columns))
        ]

    def _is_right(self, column: int) -> bool:
        if self.columns[column] in self._left:
            return False
        cells = [row[column] for row in self.rows if column < len(row) and row[column]]
        return bool(cells) and all(cell[0].isdigit() or cell[0] in "-+" for cell in cells)

    def _plain(self) -> str:
        widths = self._widths()
        lines = []
        for row in self._all_rows():
            cells = [pad(cell, widths[i], self._is_right(i)) for i, cell in enumerate(row)]
            lines.append("  ".join(cells).rstrip())
        return "\n".join(lines)

    def _boxed(self, on: Screen) -> str:
        widths = fit(self._widths(), on.width - 3 * len(self.columns) - 1, len(self.columns))
        inner = sum(widths) + 3 * len(widths) - 1
        if self.title:
            # A title wider than its table widens the first column, as far as the screen allows.
            more = max(0, min(text_width(self.title) + 2, on.width - 2) - inner)
            widths[0] += more
            inner += more
        marks = _DOUBLE if on.color == "double" else _ROUNDED
        paint = on.color if on.color in COLORS else ""
        bar = _painted(marks[4], paint)

        def rule(left: str, middle: str, right: str) -> str:
            return _painted(left + middle.join(marks[1] * (w + 2) for w in widths) + right, paint)

        def line(cells: Sequence[str], centred: bool = False) -> str:
            shown = [
                centre(cut(cell, widths[i]), widths[i])
                if centred
                else pad(cut(cell, widths[i]), widths[i], self._is_right(i))
                for i, cell in enumerate(cells)
            ]
            return bar + bar.join(f" {cell} " for cell in shown) + bar

        lines = []
        if self.title:
            lines.append(_painted(marks[0] + marks[1] * inner + marks[3], paint))
            lines.append(bar + centre(cut(self.title, inner), inner) + bar)
            lines.append(rule(marks[5], marks[2], marks[7]))
        else:
            lines.append(rule(marks[0], marks[2], marks[3]))
        lines += [line(self.columns, centred=True), rule(marks[5], marks[6], marks[7])]
        lines += [line(row) for row in self.rows]
        if self.footer:
            lines += [rule(marks[5], marks[6], marks[7]), line(self.footer)]
        lines.append(rule(marks[8], marks[9], marks[10]))
        return "\n".join(lines)


def cell_text(value: object) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int):
        return f"{value:,}"
    if isinstance(value, float):
        return f"{value:,.2f}"
    return "" if value is None else str(value).replace("\n", " ")


def fit(widths: list[int], room: int, columns: int) -> list[int]:
    """Narrow the widest columns until the table fits; none gets narrower than 6."""
    widths = list(widths)
    room = max(room, 6 * columns)
    while sum(widths) > room:
        widest = max(range(len(widths)), key=widths.__getitem__)
        widths[widest] -= 1
    return widths


def text_width(text: str) -> int:
    if text.isascii():
        return len(text)
    import unicodedata

    return sum(
        0 if unicodedata.combining(c) else 2 if unicodedata.east_asian_width(c) in "WF" else 1
        for c in text
    )


def cut(text: str, width: int) -> str:
    if text_width(text) <= width:
        return text
    kept = text[: width - 1]
    while text_width(kept) > width - 1:
        kept = kept[:-1]
    return kept + "…"


def pad(text: str, width: int, right: bool) -> str:
    space = " " * max(width - text_width(text), 0)
    return space + text if right else text + space


def centre(text: str, width: int) -> str:
    space = max(width - text_width(text), 0)
    return " " * (space // 2) + text + " " * (space - space // 2)


def _painted(text: str, color: str) -> str:
    return click.style(text, fg=color) if color else text


class Page:
    """An information page: a heading, sections, rows whose colons line up."""

    def __init__(self, heading: str) -> None:
        self.heading = heading
        self._lines: list[tuple[str, str] | str] = []

    def section(self, title: str) -> None:
        self._lines.append(title)

    def row(self, label: str, value: object, when: object = True) -> None:
        """A row; left out when `when` is false or the value is empty."""
        text = cell_text(value)
        if when and text != "":
            self._lines.append((label, text))

    def rows(self, label: str, values: Iterable[object]) -> None:
        """Several values under one label."""
        for i, value in enumerate(values):
            self._lines.append((label if i == 0 else "", cell_text(value)))

    def render(self) -> str:
        widest = max((len(line[0]) for line in self._lines if isinstance(line, tuple)), default=0)
        out = [self.heading, ""] if self.heading else []
        for i, line in enumerate(self._lines):
            if isinstance(line, str):
                following = self._lines[i + 1 : i + 2]
                if following and isinstance(following[0], tuple):
                    out += ["", f"{line}:", ""] if out and out[-1] else [f"{line}:", ""]
            else:
                label, value = line
                colon = ": " if label else "  "
                out.append(f"{label:>{widest + 2}}{colon}{value}")
        return "\n".join(out)

    def print(self) -> None:
        say(self.render())


def unified(lines: Iterable[str]) -> None:
    """A diff, coloured on a terminal."""
    colored = screen().terminal and not os.environ.get("NO_COLOR")
    for line in lines:
        mark = {"+": "green", "-": "red"}.get(line[:1]) if colored else None
        say(click.style(line, fg=mark) if mark else line)
