# ruff: noqa: E501 (a conversation reads best on one line)
"""Accounts side by side with the reference: exports, imports, mappings, permissions.

Both servers read the same configuration file.
"""

from collections.abc import Iterator, Sequence

import pytest

from tests.conformance.dialogue import REPLY, Step
from tests.conformance.servers import Ours, Reference, reference_binary
from tests.conformance.test_wire import both, in_any_order

pytestmark = [
    pytest.mark.reference,
    pytest.mark.skipif(reference_binary() is None, reason="no nats-server here"),
]

CONFIG = """
accounts {
  A {
    users: [{user: a, password: a}]
    exports: [
      {service: "svc.one"}, {service: "svc.stream", response: stream}
      {service: "svc.chunk", response: chunked}, {service: "svc.w.*.*"}
      {service: "svc.tail.>"}, {service: "svc.private", accounts: [B]}, {service: "mapped.x"}
      {stream: "ev.>"}, {stream: "tick.*.*"}, {stream: "one"}, {stream: "private.>", accounts: [B]}
    ]
    mappings: {
      "mapped.x": "mapped.y", "plain": "plain2", "m.*.*": "n.$2.$1"
      "half": [{destination: "half.a", weight: 100%}], "lost": [{destination: lost, weight: 0%}]
      "kept": [{destination: "elsewhere", weight: 0%}], "tail.>": "t.>"
    }
  }
  B {
    users: [{user: b, password: b}, {user: b2, password: b2}]
    exports: [{service: "chain"}]
    imports: [
      {service: {account: A, subject: "svc.one"}}
      {service: {account: A, subject: "svc.stream"}, to: "b.stream"}
      {service: {account: A, subject: "svc.chunk"}}
      {service: {account: A, subject: "svc.w.*.*"}, to: "w.$2.$1"}
      {service: {account: A, subject: "svc.tail.>"}}
      {service: {account: A, subject: "svc.private"}, share: true}
      {service: {account: A, subject: "mapped.x"}}
      {stream: {account: A, subject: "ev.>"}, prefix: "fromA"}
      {stream: {account: A, subject: "tick.*.*"}, to: "tock.$2.$1"}
      {stream: {account: A, subject: "one"}, to: "uno"}
      {stream: {account: A, subject: "private.>"}}
    ]
  }
  C {
    users: [{user: c, password: c}]
    imports: [
      {stream: {account: A, subject: "ev.>"}}
      {service: {account: A, subject: "svc.one"}, to: "c.one"}
    ]
  }
  D {
    users: [
      {user: d, password: d}
      {user: limited, password: x, permissions: {
        publish: {allow: ["ok.>", "r"], deny: ["ok.not"]}
        subscribe: {allow: ["in.>", "q.* grp", "r"], deny: ["in.secret", "in.no.>"]}
      }}
      {user: answers, password: x, permissions: {subscribe: ["svc"], allow_responses: true}}
      {user: answers2, password: x
       permissions: {subscribe: ["svc"], publish: ["log"], allow_responses: {max: 2, expires: "1m"}}}
      {user: denied, password: x, permissions: {publish: {deny: "foo.*"}, subscribe: {deny: "bar.>"}}}
      {user: nothing, password: x, permissions: {publish: [], subscribe: []}}
    ]
  }
}
"""


def log_in(user: str, password: str = "", **more: bool) -> bytes:
    said = {"verbose": False, "pedantic": False, "headers": True, "no_responders": True} | more
    flags = ",".join(f'"{name}":{str(value).lower()}' for name, value in said.items())
    return f'CONNECT {{"user":"{user}","pass":"{password or user}","name":"{user}",{flags}}}\r\n'.encode()


A, B, C, D = (log_in(user) for user in "abcd")
LIMITED = log_in("limited", "x")


CASES: dict[str, Sequence[Step]] = {
    # --- services ---
    "nobody serves": [("b", B + b"SUB r 1\r\nPUB svc.one r 2\r\nhi\r\n")],
    "nobody serves through a rename": [("c", C + b"SUB r 1\r\nPUB c.one r 2\r\nhi\r\n")],
    "not imported": [("a", A + b"SUB svc.one 1\r\n"), ("c", C + b"SUB r 1\r\nPUB svc.one r 2\r\nhi\r\n")],
    "request and answer": [
        ("a", A + b"SUB svc.one 1\r\n"),
        ("b", B + b"SUB r 1\r\nPUB svc.one r 2\r\nhi\r\n"),
        ("a", b"PUB <reply> 2\r\nyo\r\n"),
    ],
    "only one answer": [
        ("a", A + b"SUB svc.one 1\r\n"),
        ("b", B + b"SUB r 1\r\nPUB svc.one r 2\r\nhi\r\n"),
        ("a", b"PUB <reply> 2\r\nyo\r\n"),
        ("a", b"PUB <reply> 2\r\nyo\r\n"),
    ],
    "answer with headers": [
        ("a", A + b"SUB svc.one 1\r\n"),
        ("b", B + b"SUB r 1\r\nPUB svc.one r 2\r\nhi\r\n"),
        ("a", b"HPUB <reply> 18 20\r\nNATS/1.0\r\nA: b\r\n\r\nhi\r\n"),
    ],
    "answer with a reply": [
        ("a", A + b"SUB svc.one 1\r\n"),
        ("b", B + b"SUB r 1\r\nPUB svc.one r 2\r\nhi\r\n"),
        ("a", b"PUB <reply> back 2\r\nyo\r\n"),
    ],
    "request with headers": [
        ("a", A + b"SUB svc.one 1\r\n"),
        ("b", B + b"HPUB svc.one r 18 20\r\nNATS/1.0\r\nA: b\r\n\r\nhi\r\n"),
    ],
    "request without reply": [("a", A + b"SUB svc.> 1\r\n"), ("b", B + b"PUB svc.one 2\r\nhi\r\n")],
    "several answers": [
        ("a", A + b"SUB svc.stream 1\r\n"),
        ("b", B + b"SUB r 1\r\nPUB b.stream r 2\r\nhi\r\n"),
        ("a", b"PUB <reply> 1\r\n1\r\nPUB <reply> 1\r\n2\r\n"),
        ("a", b"PUB <reply> 1\r\n3\r\n"),
    ],
    "several answers end with an empty one": [
        ("a", A + b"SUB svc.stream 1\r\n"),
        ("b", B + b"SUB r 1\r\nPUB b.stream r 2\r\nhi\r\n"),
        ("a", b"PUB <reply> 1\r\n1\r\nPUB <reply> 0\r\n\r\n"),
        ("a", b"PUB <reply> 1\r\n2\r\n"),
    ],
    "chunked answers": [
        ("a", A + b"SUB svc.chunk 1\r\n"),
        ("b", B + b"SUB r 1\r\nPUB svc.chunk r 2\r\nhi\r\n"),
        ("a", b"PUB <reply> 1\r\n1\r\nPUB <reply> 1\r\n2\r\nPUB <reply> 0\r\n\r\n"),
        ("a", b"PUB <reply> 1\r\n3\r\n"),
    ],
    "wildcards change places": [
        ("a", A + b"SUB svc.> 1\r\n"),
        ("b", B + b"PUB w.x.y r 2\r\nhi\r\nPUB w.x 2\r\nno\r\nPUB w.x.y.z 2\r\nno\r\n"),
    ],
    "tail": [("a", A + b"SUB svc.> 1\r\n"), ("b", B + b"PUB svc.tail.1.2.3 r 2\r\nhi\r\n")],
    "shared": [("a", A + b"SUB svc.> 1\r\n"), ("b", B + b"PUB svc.private r 2\r\nhi\r\n")],
    "own subscribers hear it too": [
        ("a", A + b"SUB svc.> 1\r\n"),
        ("b", B + b"SUB r 1\r\nSUB svc.one 2\r\nPUB svc.one r 2\r\nhi\r\n"),
    ],
    "queue group of responders": [
        ("a", A + b"SUB svc.one q 1\r\n"),
        ("b", B + b"SUB r 1\r\nPUB svc.one r 2\r\nhi\r\n"),
        ("a", b"PUB <reply> 2\r\nyo\r\n"),
    ],
    "replies are not seen by wildcards": [
        ("a", A + b"SUB > 1\r\n"),
        ("b", B + b"SUB r 1\r\nPUB svc.one r 2\r\nhi\r\n"),
        ("a", b"PUB <reply> 2\r\nyo\r\n"),
    ],
    "unknown reply": [("a", A + b"SUB r 1\r\nPUB _R_.abcdef.ghijkl r 2\r\nyo\r\nPING\r\n")],
    "old clients get no headers": [
        ("a", log_in("a", headers=False, no_responders=False) + b"SUB svc.one 1\r\n"),
        ("b", B + b"PUB svc.one r 2\r\nhi\r\n"),
    ],
    "mapped in the exporter": [("a", A + b"SUB mapped.* 1\r\n"), ("b", B + b"PUB mapped.x r 2\r\nhi\r\n")],
    # --- streams ---
    "stream with prefix": [
        ("b", B + b"SUB fromA.ev.x 1\r\nSUB fromA.ev.> 2\r\nSUB *.ev.x 3\r\nSUB fromA.> 4\r\n"),
        ("b", b"SUB > 5\r\nSUB ev.> 6\r\nSUB fromA.ev.y 7\r\n"),
        ("a", A + b"PUB ev.x 2\r\nhi\r\n"),
    ],
    "stream with wildcards": [
        ("b", B + b"SUB tock.* 1\r\nSUB tock.*.* 2\r\nSUB tock.2.* 3\r\nSUB tock.> 4\r\n"),
        ("b", b"SUB tock.*.1 5\r\nSUB tock.2.1 6\r\nSUB *.2.> 7\r\nSUB tock.1.* 8\r\n"),
        ("a", A + b"PUB tick.1.2 r 2\r\nho\r\n"),
    ],
    "stream renamed": [("b", B + b"SUB uno 1\r\nSUB one 2\r\nSUB * 3\r\n"), ("a", A + b"PUB one 2\r\nhi\r\n")],
    "stream as it is": [
        ("c", C + b"SUB ev.x 1\r\nSUB ev.* 2\r\nSUB *.x 3\r\nSUB ev.y 4\r\n"),
        ("a", A + b"PUB ev.x 2\r\nhi\r\n"),
    ],
    "stream not for everybody": [
        ("b", B + b"SUB private.x 1\r\n"),
        ("c", C + b"SUB private.x 1\r\n"),
        ("a", A + b"PUB private.x 2\r\nhi\r\n"),
    ],
    "stream with headers": [
        ("c", C + b"SUB ev.x 1\r\n"),
        ("a", A + b"HPUB ev.x 18 20\r\nNATS/1.0\r\nA: b\r\n\r\nhi\r\n"),
    ],
    "stream unsubscribed": [
        ("c", C + b"SUB ev.x 1\r\n"),
        ("c", b"UNSUB 1\r\n"),
        ("a", A + b"PUB ev.x 2\r\nhi\r\n"),
    ],
    "accounts are worlds of their own": [
        ("b", B + b"SUB foo 1\r\n"),
        ("d", D + b"SUB foo 1\r\n"),
        ("a", A + b"SUB foo 1\r\nPUB foo 2\r\nhi\r\n"),
    ],
    # --- mappings ---
    "mapping": [
        ("a", A),
        ("a", b"SUB > 1\r\nPUB plain 2\r\nhi\r\nPUB half 1\r\nx\r\nPUB mapped.x 1\r\nx\r\n"),
        ("a", b"PUB m.x.y 1\r\n1\r\nPUB tail.1.2 1\r\n3\r\nPUB other 1\r\n4\r\n"),
    ],
    "mapping with loss": [("a", A), ("a", b"SUB > 1\r\nPUB lost 2\r\nhi\r\nPUB kept 2\r\nhi\r\nPING\r\n")],
    "mapping and nobody there": [("a", A), ("a", b"SUB r 1\r\nPUB plain r 2\r\nhi\r\nPING\r\n")],
    "mapping with loss and a reply": [("a", A), ("a", b"SUB r 1\r\nPUB lost r 2\r\nhi\r\nPING\r\n")],
    "mapping keeps the reply": [("a", A), ("a", b"SUB plain2 1\r\nPUB plain back 2\r\nhi\r\n")],
    # --- permissions ---
    "publish allowed and not": [
        ("l", LIMITED + b"PUB ok.a 1\r\nx\r\nPUB ok.not 1\r\nx\r\nPUB no 1\r\nx\r\nPING\r\n"),
    ],
    "publish refused verbose": [("l", log_in("limited", "x", verbose=True) + b"PUB no 1\r\nx\r\nPING\r\n")],
    "publish refused with reply": [("l", LIMITED + b"SUB r 1\r\nPUB no r 1\r\nx\r\nPING\r\n")],
    "subscribe allowed and not": [
        ("l", LIMITED + b"SUB in.a 1\r\nSUB in.secret 2\r\nSUB out 3\r\nSUB > 4\r\nSUB in.no.x 5\r\n"),
        ("l", b"SUB q.a 6\r\nSUB q.a grp 7\r\nSUB q.a other 8\r\nSUB in.x anyq 9\r\nPING\r\n"),
    ],
    "subscribe refused verbose": [("l", log_in("limited", "x", verbose=True) + b"SUB no 1\r\nPING\r\n")],
    "denied messages are filtered": [
        ("l", LIMITED + b"SUB in.> 1\r\n"),
        ("d", D + b"PUB in.a 1\r\n1\r\nPUB in.secret 1\r\n2\r\nPUB in.no.x 1\r\n3\r\nPUB in.b 1\r\n4\r\n"),
    ],
    "answers are allowed once": [
        ("s", log_in("answers", "x") + b"SUB svc 1\r\nPUB r 2\r\nno\r\n"),
        ("d", D + b"SUB r 1\r\nPUB svc r 2\r\nhi\r\n"),
        ("s", b"PUB r 2\r\nyo\r\n"),
        ("s", b"PUB r 2\r\nyo\r\n"),
    ],
    "answers are allowed twice": [
        ("s", log_in("answers2", "x") + b"SUB svc 1\r\nPUB log 2\r\nok\r\n"),
        ("d", D + b"SUB r 1\r\nPUB svc r 2\r\nhi\r\n"),
        ("s", b"PUB r 1\r\n1\r\nPUB r 1\r\n2\r\nPUB r 1\r\n3\r\n"),
    ],
    "only denied": [
        ("x", log_in("denied", "x") + b"PUB foo.a 1\r\nx\r\nPUB foo 1\r\nx\r\nSUB bar.x 1\r\nSUB bar 2\r\n"),
        ("x", b"SUB > 3\r\n"),
        ("d", D + b"PUB bar.z 1\r\nx\r\nPUB bar 1\r\nx\r\n"),
    ],
    "nothing allowed": [("x", log_in("nothing", "x") + b"PUB a 1\r\nx\r\nSUB a 1\r\nPING\r\n")],
    # --- log-in ---
    "wrong password": [("x", log_in("a", "wrong") + b"PING\r\n")],
    "unknown user": [("x", log_in("zz", "zz") + b"PING\r\n")],
    "no credentials": [("x", b"CONNECT {}\r\nPING\r\n")],
    "ping before connect": [("x", b"PING\r\n")],
    "pub before connect": [("x", b"PUB a 1\r\nx\r\n")],
    "second connect changes the account": [
        ("x", A + b"SUB foo 1\r\n"),
        ("x", B + b"PING\r\n"),
        ("a", A + b"PUB foo 1\r\nx\r\n"),
    ],
}  # fmt: skip


@pytest.fixture(scope="module")
def ports() -> Iterator[tuple[int, int]]:
    with Reference(config=CONFIG) as reference, Ours(config=CONFIG) as ours:
        yield reference.port, ours.port


@pytest.mark.parametrize("steps", [pytest.param(steps, id=name) for name, steps in CASES.items()])
def test_a_client_sees_the_same(ports: tuple[int, int], steps: Sequence[Step]) -> None:
    assert REPLY == b"<reply>"
    for pause_s in (0.04, 0.25, 0.6):
        reference, ours = both(ports, steps, pause_s)
        if in_any_order(ours) == in_any_order(reference):
            return
    assert ours == reference
