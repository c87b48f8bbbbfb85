"""The fixtures of the plugin, whether or not its entry point is installed."""

from jetstream.testing.plugin import jetstream_server, js, nats_connection

__all__ = ["jetstream_server", "js", "nats_connection"]
