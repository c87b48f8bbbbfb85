# cython: language_level=3
"""crc32c for Python callers; the kernels use `_crc.pxd` directly."""

from libc.stdint cimport uint32_t

from jetstream.store._crc cimport js_crc32c, js_crc32c_table


def crc32c(const unsigned char[::1] data, uint32_t seed=0):
    """The checksum of `data`, continuing from `seed` (the checksum of what came before)."""
    if data.shape[0] == 0:
        return seed
    return js_crc32c(seed, <const char*>&data[0], data.shape[0])


def crc32c_table(const unsigned char[::1] data, uint32_t seed=0):
    """The same without the processor's help: what machines without SSE 4.2 run."""
    if data.shape[0] == 0:
        return seed
    return js_crc32c_table(seed, <const char*>&data[0], data.shape[0])
