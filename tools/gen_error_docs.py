"""Writes docs/reference/errors.md: every error of the API with a hint where we have one."""

import json
from pathlib import Path

from jetstream.client.hints import HINTS

HOUSE = Path(__file__).resolve().parent.parent
TARGET = HOUSE / "docs/reference/errors.md"


def render() -> str:
    table = json.loads((HOUSE / "spec/errors.json").read_text())
    lines = [
        "# Error codes",
        "",
        "Every error of the JetStream API. `err_code` is stable and the same as in nats-server;",
        "`code` is like an HTTP status. `jetstream errors lookup 10071` explains one.",
        "",
        "| err_code | code | text | what to try |",
        "| ---: | ---: | --- | --- |",
    ]
    for number, entry in sorted(table.items(), key=lambda item: int(item[0])):
        hint = HINTS.get(int(number), "")
        text = entry["description"].replace("|", "\\|")
        lines.append(
            f"| {number} | {entry['http']} | {text} | {hint.replace('|', chr(92) + '|')} |"
        )
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    TARGET.write_text(render())
    print(f"wrote {TARGET.relative_to(HOUSE)}")
