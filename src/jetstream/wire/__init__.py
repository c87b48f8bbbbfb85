"""Bytes to operations and back, for server and client alike.

`Parser` and `Batch` are the compiled ones; `JETSTREAM_PURE=1` chooses the readable twins.
"""

import os
from typing import TYPE_CHECKING

if TYPE_CHECKING or os.environ.get("JETSTREAM_PURE") != "1":
    from jetstream.wire._parser import Batch, Parser
else:
    from jetstream.wire.parser import Batch, Parser

__all__ = ["Batch", "Parser"]
