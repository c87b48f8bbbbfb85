"""`jetstream console`: the web console beside any NATS server."""

import asyncio
import signal

import click

from jetstream.cli.app import command as make_command
from jetstream.cli.app import settings
from jetstream.cli.output import note
from jetstream.cli.problems import Failure


@make_command(
    "console",
    help="Serve the web console for the server given with -s (ours or a real nats-server).",
    examples="""
    jetstream console
    jetstream console -s nats://127.0.0.1:4222 --port 8280
    """,
)
@click.option("--host", default="127.0.0.1", show_default=True, help="address to listen on")
@click.option(
    "--port", default=8280, show_default=True, help="port to listen on; 0 takes a free one"
)
@click.option(
    "--login/--no-login", default=None, help="ask for a NATS user (default: ask the server)"
)
@click.option("--open", "opens", is_flag=True, help="open a browser")
async def command(host: str, port: int, login: bool | None, opens: bool) -> None:
    from jetstream.cli.session import open_connection
    from jetstream.console.serve import ConsoleServer
    from jetstream.errors import JetStreamError

    chosen = settings()
    if login is None:
        login = await _asks_for_login(chosen)
    try:
        console = ConsoleServer(chosen.url, host=host, port=port, needs_login=login)
        if not login:
            # Whoever comes is the user of this command line.
            console.connect_with(lambda: open_connection(chosen))
        await console.start()
    except JetStreamError as error:
        raise Failure(str(error)) from error
    except OSError as error:
        raise Failure(
            f"cannot listen on {host}:{port}: {error}", "--port 0 takes a free one"
        ) from error
    note(f"console on {console.url} for {chosen.url}")
    if opens:
        import webbrowser

        webbrowser.open(console.url)
    ended = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, ended.set)
    await ended.wait()
    await console.stop()


async def _asks_for_login(chosen: object) -> bool:
    """Does the server want to know who we are, and did nobody say so on this command line?"""
    from jetstream.cli.session import open_connection
    from jetstream.errors import JetStreamError

    try:
        connection = await open_connection(chosen)  # type: ignore[arg-type]
    except (JetStreamError, OSError):
        return True
    await connection.close()
    return False
