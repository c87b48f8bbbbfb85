"""What a subject may look like.

A subject is a row of tokens between dots. `*` stands for one token and `>`, at the end, for one or
more; both are wildcards only as whole tokens (`a*b` is a plain word). Text and bytes both work.
"""

from typing import AnyStr

_BLANKS_TEXT = frozenset(" \t\r\n\f")
_BLANKS_BYTES = frozenset(b" \t\r\n\f")
_NOT_IN_NAMES = frozenset(" \t\r\n\f.*>\\/")
NAME_LENGTH_MAX = 255


def split(subject: AnyStr) -> list[AnyStr]:
    return subject.split("." if isinstance(subject, str) else b".")


def is_valid_subject(subject: AnyStr) -> bool:
    """Fit for a subscription: no empty token, no blanks, `>` only as the last token."""
    if isinstance(subject, str):
        if not subject or not _BLANKS_TEXT.isdisjoint(subject):
            return False
        tokens = subject.split(".")
        return all(tokens) and ">" not in tokens[:-1]
    if not subject or not _BLANKS_BYTES.isdisjoint(subject):
        return False
    byte_tokens = subject.split(b".")
    return all(byte_tokens) and b">" not in byte_tokens[:-1]


def has_valid_tokens(subject: bytes) -> bool:
    """What the server asks of a subscription: no empty token, `>` only last. Blanks never get here,
    except those that do not separate arguments on the wire (a form feed), and these may stay."""
    tokens = subject.split(b".")
    return all(tokens) and b">" not in tokens[:-1]


def has_wildcard(subject: AnyStr) -> bool:
    if isinstance(subject, str):
        if "*" not in subject and ">" not in subject:
            return False
        tokens = subject.split(".")
        return "*" in tokens or tokens[-1] == ">"
    if b"*" not in subject and b">" not in subject:
        return False
    byte_tokens = subject.split(b".")
    return b"*" in byte_tokens or byte_tokens[-1] == b">"


def is_valid_literal(subject: AnyStr) -> bool:
    """Fit for publishing: a valid subject without wildcards."""
    return is_valid_subject(subject) and not has_wildcard(subject)


def is_valid_name(name: str) -> bool:
    """Fit for a stream, a consumer or a bucket: one token without path separators."""
    return 0 < len(name.encode()) <= NAME_LENGTH_MAX and _NOT_IN_NAMES.isdisjoint(name)
