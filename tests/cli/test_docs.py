"""docs/cli.md is written from the commands; here we see that it was, after the last change."""

from pathlib import Path

import click

from jetstream.cli.main import root
from tests.cli.test_app import all_commands

DOCUMENT = Path(__file__).resolve().parents[2] / "docs" / "cli.md"


def test_the_document_knows_every_command_and_its_flags() -> None:
    text = DOCUMENT.read_text()
    headings = {line.lstrip("# ") for line in text.splitlines() if line.startswith("#")}
    for path, command in all_commands(root, click.Context(root, info_name="jetstream")):
        assert path in headings, f"{path}: run python tools/gen_cli_docs.py"
        for param in command.params:
            if isinstance(param, click.Option) and param.expose_value and not param.hidden:
                assert f"`{param.opts[0]}`" in text
