"""The whole product in one minute: server, console, producer, consumers and a Spark pipeline."""
