"""Tables and pages as they look at 80 and 120 columns, in pipes and as data."""

import msgspec

from jetstream.cli import human
from jetstream.cli.output import Page, Screen, Table, text_width


def a_table() -> Table:
    table = Table("Streams", "Name", "Description", "Messages", "Size", left=["Size"])
    table.add(
        "ORDERS",
        "what customers ordered, kept for a week because of the auditors",
        1234567,
        "9 KiB",
    )
    table.add("日本語", "", 7, "0 B")
    return table


def test_a_table_on_a_terminal_has_a_centred_title_and_borders() -> None:
    lines = a_table().render(Screen("table", 120, True)).splitlines()
    assert lines[0].startswith("╭─")
    assert lines[0].endswith("─╮")
    assert lines[1].strip("│").strip() == "Streams"
    assert lines[4] == "├" + "┼".join("─" * n for n in (8, 65, 11, 7)) + "┤"
    assert lines[5].startswith("│ ORDERS │ what customers ordered")
    assert "│ 1,234,567 │ 9 KiB │" in lines[5]
    assert lines[-1].startswith("╰─")
    assert len({text_width(line) for line in lines}) == 1


def test_a_table_is_never_wider_than_the_terminal() -> None:
    lines = a_table().render(Screen("table", 80, True)).splitlines()
    assert all(text_width(line) <= 80 for line in lines)
    assert "…" in lines[5]


def test_in_a_pipe_a_table_is_plain_columns() -> None:
    text = a_table().render(Screen("plain", 80, False))
    assert text.splitlines()[0].split() == ["Name", "Description", "Messages", "Size"]
    assert not set(text) & set("│╭├╰…")
    assert "\x1b" not in text


def test_tables_turn_into_csv_markdown_json_and_yaml() -> None:
    table = Table("", "A", "B")
    table.add("x,y", 1)
    assert table.render(Screen("csv", 80, False)) == 'A,B\n"x,y",1'
    assert table.render(Screen("tsv", 80, False)) == "A\tB\nx,y\t1"
    assert table.render(Screen("md", 80, False)) == "| A | B |\n| --- | ---: |\n| x,y | 1 |"
    assert msgspec.json.decode(table.render(Screen("json", 80, False))) == [{"A": "x,y", "B": "1"}]
    assert "A: x,y" in table.render(Screen("yaml", 80, False))


def test_a_page_lines_its_colons_up_and_leaves_empty_rows_out() -> None:
    page = Page("Information for Stream LOGS")
    page.row("Subjects", "logs.>")
    page.row("Description", "")
    page.section("State")
    page.row("Messages", 1200)
    page.row("Active Consumers", 0)
    page.section("Empty")
    assert page.render() == (
        "Information for Stream LOGS\n\n"
        "          Subjects: logs.>\n\n"
        "State:\n\n"
        "          Messages: 1,200\n"
        "  Active Consumers: 0"
    )


def test_numbers_are_for_people() -> None:
    assert human.size(10 << 30) == "10 GiB"
    assert human.size(161_000_000, 1000) == "161 MB"
    assert human.duration(86_400 * 10**9) == "1d0h0m0s"
    assert human.duration(90 * 10**9) == "1m30s"
    assert human.duration(400 * 86_400 * 10**9) == "1y35d0h0m0s"
    assert human.limit(-1) == human.limit_size(-1) == human.limit_duration(0) == "unlimited"
    assert human.local_time("0001-01-01T00:00:00Z") == human.age(None) == "never"
    assert human.age(10**9, now_ns=61 * 10**9) == "1m0s"


def test_a_long_title_widens_its_table() -> None:
    table = Table("2 Subjects in Stream ORDERS", "A", "B")
    table.add("x", 1)
    lines = table.render(Screen("table", 80, True)).splitlines()
    assert lines[1] == "│ 2 Subjects in Stream ORDERS │"
    assert len({text_width(line) for line in lines}) == 1
