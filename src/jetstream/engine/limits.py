"""How much an account and the server may hold, and how much is left.

A budget counts down what was admitted since it last looked and looks again only when that runs
out, so the check on the publish path is one subtraction. What was removed meanwhile only helps, so
the estimate errs on the careful side until the exact look.
"""

import os
from collections.abc import Callable
from typing import Final

from jetstream.broker.accounts_spec import AccountJetStream
from jetstream.errors import ApiError, Refusal
from jetstream.schema.account import AccountLimits
from jetstream.schema.api_errors import (
    MEMORY_RESOURCES_EXCEEDED,
    STORAGE_RESOURCES_EXCEEDED,
    STREAM_MAX_BYTES_REQUIRED,
    STREAM_MAX_STREAM_BYTES_EXCEEDED,
)
from jetstream.schema.stream import StreamConfig

SHARE: Final = 0.75
UNKNOWN_STORE: Final = 1 << 40


def memory_limit(configured: int) -> int:
    """Bytes that memory streams of all accounts may hold."""
    if configured >= 0:
        return configured
    return int(os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") * SHARE)


def store_limit(configured: int, free_bytes: int | None) -> int:
    """Bytes that file streams of all accounts may hold."""
    if configured >= 0:
        return configured
    return int(free_bytes * SHARE) if free_bytes else UNKNOWN_STORE


def account_limits(spec: AccountJetStream | None) -> AccountLimits:
    """An account's limits as info answers show them."""
    if spec is None:
        return AccountLimits()
    return AccountLimits(
        max_memory=spec.max_memory,
        max_storage=spec.max_store,
        max_streams=spec.max_streams,
        max_consumers=spec.max_consumers,
        max_ack_pending=spec.max_ack_pending,
        memory_max_stream_bytes=spec.memory_max_stream_bytes,
        storage_max_stream_bytes=spec.store_max_stream_bytes,
        max_bytes_required=spec.max_bytes_required,
    )


class Budget:
    """Room for more bytes under one limit; -1 is unlimited."""

    __slots__ = ("_left", "_refusal", "_used", "limit")

    def __init__(self, limit: int, used: Callable[[], int], refusal: Refusal) -> None:
        self.limit = limit
        self._used = used
        self._refusal = refusal
        self._left = 0

    def check(self, size: int) -> None:
        """Raise when `size` more bytes do not fit."""
        if self.limit < 0:
            return
        self._left -= size
        if self._left < 0:
            left = self.limit - self._used() - size
            if left < 0:
                raise ApiError(self._refusal)
            self._left = left


class Budgets:
    """Several budgets that must all agree."""

    __slots__ = ("_parts",)

    def __init__(self, *parts: Budget) -> None:
        self._parts = [part for part in parts if part.limit >= 0]

    def check(self, size: int) -> None:
        for part in self._parts:
            part.check(size)


def check_reservation(
    config: StreamConfig,
    limits: AccountLimits,
    reserved_account: int,
    reserved_server: int,
    server_limit: int,
) -> None:
    """May a stream of this configuration be set aside the bytes it asks for?"""
    memory = config.storage == "memory"
    per_stream = limits.memory_max_stream_bytes if memory else limits.storage_max_stream_bytes
    wanted = config.max_bytes
    if (limits.max_bytes_required or per_stream > 0) and wanted <= 0:
        raise ApiError(STREAM_MAX_BYTES_REQUIRED)
    if 0 < per_stream < wanted:
        raise ApiError(STREAM_MAX_STREAM_BYTES_EXCEEDED)
    if wanted <= 0:
        return
    refusal = MEMORY_RESOURCES_EXCEEDED if memory else STORAGE_RESOURCES_EXCEEDED
    most = limits.max_memory if memory else limits.max_storage
    if 0 <= most < reserved_account + wanted or server_limit < reserved_server + wanted:
        raise ApiError(refusal)
