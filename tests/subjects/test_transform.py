"""Subject transforms give the reference's results and the reference's refusals."""

import pytest

from jetstream.subjects.transform import BadTransform, SubjectTransform


@pytest.mark.parametrize(
    ("src", "dest", "subject", "result"),
    [
        ("a.*.*", "p.{{partition(10,1,2)}}.$1", "a.foo.bar", "p.0.foo"),
        ("a.*.*", "p.{{partition(10,1)}}", "a.foo.bar", "p.3"),
        ("a.>", "p.{{partition(7)}}.>", "a.foo.bar", "p.1.foo.bar"),
        ("*", "{{split(1,-)}}", "x-y-z", "x.y.z"),
        ("*", "{{split(1,-)}}", "-x--y-", "x.y"),
        ("*", "{{splitFromLeft(1,2)}}", "abcdef", "ab.cdef"),
        ("*", "{{splitFromRight(1,2)}}", "abcdef", "abcd.ef"),
        ("*", "{{sliceFromLeft(1,2)}}", "abcde", "ab.cd.e"),
        ("*", "{{sliceFromRight(1,2)}}", "abcde", "a.bc.de"),
        ("*", "{{left(1,2)}}", "abcde", "ab"),
        ("*", "{{right(1,2)}}", "abcde", "de"),
        ("*", "{{left(1,9)}}", "abc", "abc"),
        ("*", "{{partition(0,1)}}", "abc", "0"),
        ("a.*.*", "b.{{ Wildcard(2) }}.$1", "a.x.y", "b.y.x"),
        ("", "x.>", "a.b", "x.a.b"),
        ("a.b", "c", "a.b", "c"),
        ("a.*", "c", "a.b", "c"),
        ("a.*", "c", "a.b.c", None),
        ("a.>", "b.>", "a", None),
        ("a.*", "b.$1", "c.d", None),
        ("a.>", "", "a.b", "a.b"),
    ],
)
def test_vectors(src: str, dest: str, subject: str, result: str | None) -> None:
    assert SubjectTransform(src, dest).transform(subject) == result


@pytest.mark.parametrize(
    ("src", "dest", "text"),
    [
        ("a.*", "b.$2", "invalid mapping destination: wildcard index out of range in $2: [2]"),
        ("a", "b.$1", "invalid mapping destination: wildcard index out of range in $1"),
        ("a.*", "b.{{foo(1)}}", "invalid mapping destination: unknown function in {{foo(1)}}"),
        (
            "a.*",
            "b.{{wildcard(x)}}",
            "invalid mapping destination: function argument is invalid or in the wrong format"
            " in {{wildcard(x)}}",
        ),
        (
            "a.*",
            "b.{{wildcard()}}",
            "invalid mapping destination: not enough arguments passed to the function"
            " in {{wildcard()}}",
        ),
        (
            "a.*",
            "b.{{wildcard(1,2)}}",
            "invalid mapping destination: too many arguments passed to the function"
            " in {{wildcard(1,2)}}",
        ),
        ("a.>", "b", "invalid subject"),
        ("a.*", "b.>", "invalid subject"),
        ("a.*", "b.*", "invalid subject"),
        ("a", "b..c", "invalid mapping destination: invalid transform"),
    ],
)
def test_refusals(src: str, dest: str, text: str) -> None:
    with pytest.raises(BadTransform) as caught:
        SubjectTransform(src, dest)
    assert str(caught.value) == text


def test_random_stays_below_its_limit() -> None:
    made = {SubjectTransform("*", "r.{{random(3)}}").transform("x") for _ in range(200)}
    assert made <= {"r.0", "r.1", "r.2"}
