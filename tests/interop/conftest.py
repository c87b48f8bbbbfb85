"""Certificates are the door's, the servers those of the conformance tests."""

from tests.server.conftest import certificates

__all__ = ["certificates"]
