"""The console: a web page over the client, served by the server or beside any NATS server."""
