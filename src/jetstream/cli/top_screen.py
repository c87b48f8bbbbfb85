"""The full screen of `jetstream top`; the only module that needs textual."""

from typing import Any, ClassVar

from textual.app import App, ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Vertical
from textual.screen import ModalScreen
from textual.widgets import DataTable, Footer, Header, Input, Static, TabbedContent, TabPane

from jetstream.cli.output import to_json
from jetstream.cli.session import Session
from jetstream.cli.top_data import Rates, Rows, look

TABS = ("streams", "consumers", "connections", "pipelines")
SORTS = (
    "cid",
    "subs",
    "pending",
    "msgs_to",
    "msgs_from",
    "bytes_to",
    "bytes_from",
    "idle",
    "uptime",
)


class Detail(ModalScreen[None]):
    """One row in full."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape,q,enter", "dismiss", "back"),
    ]
    CSS = """
    Detail { align: center middle; }
    #detail { width: 90%; height: 90%; border: round $accent; overflow: auto; }
    """

    def __init__(self, text: str) -> None:
        super().__init__()
        self.text = text

    def compose(self) -> ComposeResult:
        with Vertical(id="detail"):
            yield Static(self.text, markup=False)


class Top(App[None]):
    """Tabs of tables that refresh themselves."""

    TITLE = "jetstream top"
    AUTO_FOCUS = "#tables DataTable"
    CSS = "#filter { display: none; } #filter.open { display: block; } #note { color: $warning; }"
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("1", "tab('streams')", "streams"),
        Binding("2", "tab('consumers')", "consumers"),
        Binding("3", "tab('connections')", "connections"),
        Binding("4", "tab('pipelines')", "pipelines"),
        Binding("slash", "filter", "filter"),
        Binding("o", "sort", "sort"),
        Binding("p", "pause", "pause"),
        Binding("space", "look", "look now"),
        Binding("enter", "open", "open", priority=False),
        Binding("question_mark,h", "help", "help"),
        Binding("q", "quit", "quit"),
    ]

    def __init__(
        self, session: Session, tab: str, delay: float, sort: str, limit: int, max_refresh: int
    ) -> None:
        super().__init__()
        self.session = session
        self.first_tab = tab
        self.delay = max(delay, 0.2)
        self.sort = sort
        self.limit = limit
        self.left = max_refresh
        self.paused = False
        self.pattern = ""
        self.rates = Rates()
        self.found: dict[str, Rows] = {}

    def compose(self) -> ComposeResult:
        yield Header(show_clock=True)
        yield Input(placeholder="show rows that contain …", id="filter")
        with TabbedContent(initial=self.first_tab, id="tables"):
            for tab in TABS:
                with TabPane(tab.capitalize(), id=tab):
                    yield DataTable(id=f"table-{tab}", cursor_type="row", zebra_stripes=True)
        yield Static("", id="note")
        yield Footer()

    async def on_mount(self) -> None:
        self.sub_title = self.session.nc.connected_url
        self.query_one(f"#table-{self.first_tab}", DataTable).focus()
        self.set_interval(self.delay, self.action_look)
        await self.action_look()

    @property
    def tab(self) -> str:
        return self.query_one(TabbedContent).active or self.first_tab

    async def action_look(self) -> None:
        if self.paused:
            return
        tab = self.tab
        self.found[tab] = await look(self.session, tab, self.rates, self.sort, self.limit)
        self.draw(tab)
        if self.left:
            self.left -= 1
            if not self.left:
                self.exit()

    def draw(self, tab: str) -> None:
        found = self.found.get(tab)
        if found is None:
            return
        table: DataTable[Any] = self.query_one(f"#table-{tab}", DataTable)
        at = table.cursor_row
        if tuple(str(column.label) for column in table.columns.values()) != found.columns:
            table.clear(columns=True)
            table.add_columns(*found.columns)
        else:
            table.clear()
        for row in found.rows:
            if not self.pattern or self.pattern.lower() in " ".join(row).lower():
                table.add_row(*row)
        if table.row_count:
            table.move_cursor(row=min(at, table.row_count - 1))
        state = "paused  " if self.paused else ""
        self.query_one("#note", Static).update(f"{state}{found.note}")

    async def on_tabbed_content_tab_activated(self) -> None:
        await self.action_look()

    def action_tab(self, tab: str) -> None:
        self.query_one(TabbedContent).active = tab

    def action_pause(self) -> None:
        self.paused = not self.paused
        self.draw(self.tab)

    def action_sort(self) -> None:
        self.sort = (
            SORTS[(SORTS.index(self.sort) + 1) % len(SORTS)] if self.sort in SORTS else SORTS[0]
        )
        self.notify(f"connections by {self.sort}")

    def action_filter(self) -> None:
        box = self.query_one("#filter", Input)
        box.add_class("open")
        box.focus()

    def on_input_changed(self, event: Input.Changed) -> None:
        self.pattern = event.value
        self.draw(self.tab)

    def on_input_submitted(self) -> None:
        box = self.query_one("#filter", Input)
        if not self.pattern:
            box.remove_class("open")
        self.query_one(f"#table-{self.tab}", DataTable).focus()

    async def on_data_table_row_selected(self, event: DataTable.RowSelected) -> None:
        first = str(event.data_table.get_row_at(event.cursor_row)[0])
        self.push_screen(Detail(await self._details(first)))

    async def _details(self, name: str) -> str:
        from jetstream.cli import consumer_pages, stream_pages

        if self.tab == "streams":
            return stream_pages.info_page(await self.session.stream_info(name))
        if self.tab == "consumers":
            stream, _, consumer = name.partition(" > ")
            return consumer_pages.info_page(await self.session.consumer_info(stream, consumer))
        found = self.found[self.tab]
        row = next((row for row in found.rows if row[0] == name), ())
        return to_json(dict(zip(found.columns, row, strict=False)))

    def action_help(self) -> None:
        self.push_screen(
            Detail(
                "1 2 3 4 streams, consumers, connections, pipelines\n"
                "/       show rows that contain a text\n"
                "o       next order of connections\np       pause\nspace   look now\n"
                "enter   the row in full\nq       quit"
            )
        )
