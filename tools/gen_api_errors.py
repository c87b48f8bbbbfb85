"""Writes schema/api_errors.py from spec/errors.json, the one place of numbers and texts."""

import json
from pathlib import Path

HOUSE = Path(__file__).resolve().parent.parent
TARGET = HOUSE / "src/jetstream/schema/api_errors.py"


def render() -> str:
    table = json.loads((HOUSE / "spec/errors.json").read_text())
    lines = [
        '"""Every refusal of the JetStream API. Made by tools/gen_api_errors.py; do not edit."""',
        "",
        "# ruff: noqa: E501",
        "",
        "from jetstream.errors import Refusal",
        "",
    ]
    for number, entry in sorted(table.items(), key=lambda item: int(item[0])):
        text = json.dumps(entry["description"], ensure_ascii=False)
        name = entry["name"]
        lines.append(f'{name} = Refusal({entry["http"]}, {number}, {text}, "{name}")')
    lines += ["", "BY_NUMBER: dict[int, Refusal] = {", "    refusal.err_code: refusal"]
    lines += [
        "    for refusal in list(globals().values())",
        "    if isinstance(refusal, Refusal)",
        "}",
        "",
    ]
    return "\n".join(lines)


if __name__ == "__main__":
    TARGET.write_text(render())
    print(f"wrote {TARGET.relative_to(HOUSE)}")
