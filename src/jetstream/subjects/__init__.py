"""Subjects: what they may look like, and which patterns take them in.

`SubjectTree` is the compiled one; `JETSTREAM_PURE=1` chooses the readable twin.
"""

import os
from typing import TYPE_CHECKING

if TYPE_CHECKING or os.environ.get("JETSTREAM_PURE") != "1":
    from jetstream.subjects._tree import Found, SubjectTree
else:
    from jetstream.subjects.tree import Found, SubjectTree

__all__ = ["Found", "SubjectTree"]
