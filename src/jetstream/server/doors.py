"""Opens the doors of a server: the client port, WebSocket, monitoring, the system account."""

from typing import TYPE_CHECKING

from jetstream.server.connection import Connection

if TYPE_CHECKING:
    from jetstream.server.server import Server

BACKLOG = 4096


async def open_doors(server: "Server") -> None:
    """Listen for clients; fills in the port that was really taken."""
    options = server.options
    port = 0 if options.port in (-1, 0) else options.port
    listener = await server.loop.create_server(
        lambda: Connection(server), options.host or "0.0.0.0", port, backlog=BACKLOG
    )
    server.listeners.append(listener)
    server.port = listener.sockets[0].getsockname()[1]
    server.log.info("Listening for client connections on %s:%d", server.host, server.port)
    server.log.info("Server is ready")
