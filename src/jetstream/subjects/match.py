"""One pattern against one subject, or against another pattern. The oracle of the tree."""

from itertools import zip_longest
from typing import AnyStr

from jetstream.subjects.tokens import split


def _words(subject: AnyStr) -> list[str]:
    tokens = split(subject)
    if isinstance(subject, str):
        return tokens
    return [token.decode("utf-8", "surrogateescape") for token in tokens]


def matches(pattern: AnyStr, literal: AnyStr) -> bool:
    """Does the pattern take in this literal subject?"""
    if pattern == literal:
        return True
    for want, have in zip_longest(_words(pattern), _words(literal)):
        if want == ">":
            return have is not None
        if want is None or have is None or (want != "*" and want != have):
            return False
    return True


def is_subset(narrow: AnyStr, wide: AnyStr) -> bool:
    """Is everything that `narrow` takes in also taken in by `wide`?"""
    for inner, outer in zip_longest(_words(narrow), _words(wide)):
        if outer == ">":
            return inner is not None
        if outer is None or inner is None or inner == ">":
            return False
        if outer != "*" and inner != outer:
            return False
    return True


def overlaps(a: AnyStr, b: AnyStr) -> bool:
    """Is there a subject that both take in?"""
    for left, right in zip_longest(_words(a), _words(b)):
        if left == ">" or right == ">":
            return left is not None and right is not None
        if left is None or right is None:
            return False
        if left != "*" and right != "*" and left != right:
            return False
    return True
