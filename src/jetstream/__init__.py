"""JetStream in Python: server, client, command line and a data pipeline on Apache Spark."""

__version__ = "0.1.0"
