"""What a client sees on the wire: the real nats-server and ours, side by side.

Each case is a raw conversation. A case fails when any byte that arrives, or the fact that the
connection is closed, differs between the two servers.
"""

from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from itertools import groupby

import pytest

from tests.conformance.dialogue import CLOSE, HALF_CLOSE, SILENCE, Seen, Step, frames, hold
from tests.conformance.servers import Ours, Reference, reference_binary

pytestmark = [
    pytest.mark.reference,
    pytest.mark.skipif(reference_binary() is None, reason="no nats-server here"),
]

CONNECT = b'CONNECT {"verbose":false,"pedantic":false}\r\n'
VERBOSE = b'CONNECT {"verbose":true,"pedantic":false}\r\n'
PEDANTIC = b'CONNECT {"verbose":false,"pedantic":true}\r\n'
BOTH = b'CONNECT {"verbose":true,"pedantic":true}\r\n'
HEADERS = b'CONNECT {"verbose":false,"headers":true,"no_responders":true}\r\n'
PROTOCOL_1 = b'CONNECT {"verbose":false,"protocol":1,"headers":true,"no_responders":true}\r\n'
REQUESTS_NO_ECHO = (
    b'CONNECT {"verbose":false,"headers":true,"no_responders":true,"echo":false}\r\nSUB r 1\r\n'
)
NO_ECHO = b'CONNECT {"verbose":false,"echo":false}\r\n'
BLOCK = b"NATS/1.0\r\nA: b\r\n\r\n"
MAX_PAYLOAD = 1024 * 1024


def hpub(subject: bytes, block: bytes = BLOCK, payload: bytes = b"", reply: bytes = b"") -> bytes:
    reply = reply + b" " if reply else b""
    sizes = b"%d %d" % (len(block), len(block) + len(payload))
    return b"HPUB " + subject + b" " + reply + sizes + b"\r\n" + block + payload + b"\r\n"


# One connection that sends this after INFO.
SINGLE: dict[str, bytes] = {
    # --- PING and PONG -------------------------------------------------------------------------
    "ping": CONNECT + b"PING\r\n",
    "ping without connect": b"PING\r\n",
    "ping with bare lf": CONNECT + b"PING\n",
    "ping lower case": CONNECT + b"ping\r\nPiNg\r\n",
    "ping with trailing words": CONNECT + b"PING hello\r\nPING\r\n",
    "ping glued": CONNECT + b"PINGS\r\nPING\r\n",
    "ping with blanks": CONNECT + b"PING   \r\nPING\t\r\n",
    "ping with carriage returns inside": CONNECT + b"PING\rx\r\n",
    "ping with leading blank": CONNECT + b" PING\r\n",
    "pong unasked": CONNECT + b"PONG\r\nPING\r\n",
    "pong with words": CONNECT + b"PONG abc\r\nPING\r\n",
    "pong lower case": CONNECT + b"pong\r\nping\r\n",
    "empty line": CONNECT + b"\r\nPING\r\n",
    "empty lf": CONNECT + b"\nPING\r\n",
    "several pings": CONNECT + b"PING\r\n" * 20,
    "pinn": CONNECT + b"PINN\r\n",
    "p alone": CONNECT + b"P\r\n",
    "po alone": CONNECT + b"PO\r\n",
    "pi alone": CONNECT + b"PI\r\n",
    # --- unknown operations --------------------------------------------------------------------
    "unknown word": CONNECT + b"HELLO\r\n",
    "unknown first byte": CONNECT + b"x",
    "unknown after known prefix": CONNECT + b"PUZ foo 1\r\n",
    "http request": b"GET / HTTP/1.1\r\nHost: x\r\n\r\n",
    "binary garbage": bytes(range(256)),
    "nul": b"\x00",
    "tls client hello": bytes.fromhex("160301020001000001fc0303"),
    "msg from client": CONNECT + b"MSG foo 1 2\r\nhi\r\n",
    "hmsg from client": CONNECT + b"HMSG foo 1 2 2\r\nhi\r\n",
    "info from client": CONNECT + b"INFO {}\r\nPING\r\n",
    "info without argument": CONNECT + b"INFO\r\nPING\r\n",
    "info with bad json": CONNECT + b"INFO {nonsense\r\nPING\r\n",
    "ok from client": CONNECT + b"+OK\r\nPING\r\n",
    "ok with words from client": CONNECT + b"+OK fine\r\nPING\r\n",
    "ok lower case from client": CONNECT + b"+ok\r\nPING\r\n",
    "plus x": CONNECT + b"+X\r\nPING\r\n",
    "err from client": CONNECT + b"-ERR 'boo'\r\nPING\r\n",
    "err without argument from client": CONNECT + b"-ERR\r\nPING\r\n",
    "err lower case from client": CONNECT + b"-err 'x'\r\nPING\r\n",
    "err before connect": b"-ERR 'boo'\r\n",
    "minus x": CONNECT + b"-X\r\n",
    "route operation": CONNECT + b"RS+ $G foo\r\n",
    "account sub operation": CONNECT + b"A+ foo\r\n",
    "leaf operation": CONNECT + b"LS+ foo\r\n",
    "rmsg operation": CONNECT + b"RMSG $G foo 2\r\nhi\r\n",
    "sub without space": CONNECT + b"SUB\r\n",
    "pub without space": CONNECT + b"PUB\r\n",
    "unsub without space": CONNECT + b"UNSUB\r\n",
    "hpub without space": HEADERS + b"HPUB\r\n",
    "connect without space": b"CONNECT\r\n",
    "conn": b"CONN\r\n",
    # --- CONNECT -------------------------------------------------------------------------------
    "connect verbose": VERBOSE + b"PING\r\n",
    "connect empty object": b"CONNECT {}\r\nPING\r\n",
    "connect empty object then sub": b"CONNECT {}\r\nSUB a 1\r\nPUB a 1\r\nx\r\nPING\r\n",
    "connect lower case": b'connect {"verbose":true}\r\nPING\r\n',
    "connect tab": b'CONNECT\t{"verbose":true}\r\nPING\r\n',
    "connect glued": b'CONNECT{"verbose":true}\r\nPING\r\n',
    "connect after a ping": b"PING\r\n" + PROTOCOL_1 + b"PING\r\nPING\r\n",
    "info glued from client": CONNECT + b"INFO{}\r\nPING\r\n",
    "connects": b"CONNECTS {}\r\nPING\r\n",
    "connect many blanks": b'CONNECT    {"verbose":true}   \r\nPING\r\n',
    "connect bare lf": b'CONNECT {"verbose":true}\nPING\r\n',
    "connect bad json": b"CONNECT {nonsense\r\nPING\r\n",
    "connect no json": b"CONNECT hello\r\nPING\r\n",
    "connect blank": b"CONNECT \r\nPING\r\n",
    "connect array": b"CONNECT []\r\nPING\r\n",
    "connect null": b"CONNECT null\r\nPING\r\n",
    "connect number": b"CONNECT 1\r\nPING\r\n",
    "connect string": b'CONNECT "x"\r\nPING\r\n',
    "connect trailing json": b'CONNECT {"verbose":true} {}\r\nPING\r\n',
    "connect bad utf-8": b'CONNECT {"verbose":true,"name":"\xff\xfe"}\r\nPING\r\n',
    "connect wrong type": b'CONNECT {"verbose":"yes"}\r\nPING\r\n',
    "connect wrong type number": b'CONNECT {"verbose":1}\r\nPING\r\n',
    "connect wrong type of name": b'CONNECT {"name":5}\r\nPING\r\n',
    "connect null values": b'CONNECT {"verbose":null,"name":null,"protocol":null}\r\nPING\r\n',
    "connect unknown keys": b'CONNECT {"verbose":true,"foo":{"bar":[1]}}\r\nPING\r\n',
    "connect keys in other case": b'CONNECT {"VERBOSE":true,"Echo":false}\r\n'
    + b"SUB a 1\r\nPUB a 1\r\nx\r\n",
    "connect duplicate keys": b'CONNECT {"verbose":true,"verbose":false}\r\nSUB a 1\r\nPING\r\n',
    "connect protocol 1": b'CONNECT {"verbose":false,"protocol":1}\r\nPING\r\nPING\r\n',
    "connect protocol 1 verbose": b'CONNECT {"verbose":true,"protocol":1}\r\nPING\r\n',
    "connect protocol 0": b'CONNECT {"verbose":false,"protocol":0}\r\nPING\r\n',
    "connect protocol 2": b'CONNECT {"verbose":false,"protocol":2}\r\nPING\r\n',
    "connect protocol -1": b'CONNECT {"verbose":false,"protocol":-1}\r\nPING\r\n',
    "connect protocol float": b'CONNECT {"verbose":false,"protocol":1.0}\r\nPING\r\n',
    "connect protocol float fraction": b'CONNECT {"verbose":false,"protocol":1.5}\r\nPING\r\n',
    "connect protocol string": b'CONNECT {"verbose":false,"protocol":"1"}\r\nPING\r\n',
    "connect no_responders without headers": b'CONNECT {"no_responders":true}\r\nPING\r\n',
    "connect account": b'CONNECT {"account":"A"}\r\nPING\r\n',
    "connect new_account": b'CONNECT {"account":"A","new_account":true}\r\nPING\r\n',
    "connect new_account alone": b'CONNECT {"new_account":true}\r\nPING\r\n',
    "connect empty account": b'CONNECT {"account":""}\r\nPING\r\n',
    "connect user nobody asked for": b'CONNECT {"user":"u","pass":"p"}\r\nPING\r\n',
    "connect token nobody asked for": b'CONNECT {"auth_token":"t"}\r\nPING\r\n',
    "connect jwt nobody asked for": b'CONNECT {"jwt":"x","sig":"y"}\r\nPING\r\n',
    "connect nkey nobody asked for": b'CONNECT {"nkey":"UABC","sig":"y"}\r\nPING\r\n',
    "connect tls_required": b'CONNECT {"tls_required":true}\r\nPING\r\n',
    "connect lang and version": b'CONNECT {"lang":"go","version":"1.2.3","name":"x"}\r\nPING\r\n',
    "connect twice": CONNECT + CONNECT + b"PING\r\n",
    "connect twice clears subscriptions": CONNECT
    + b"SUB a 1\r\n"
    + VERBOSE
    + b"PUB a 2\r\nhi\r\nPING\r\n",
    "connect twice changes protocol": CONNECT + b"PING\r\n" + PROTOCOL_1 + b"PING\r\n",
    "connect twice with protocol 1": PROTOCOL_1 + b"PING\r\n" + PROTOCOL_1 + b"PING\r\n",
    "connect too long": b'CONNECT {"name":"' + b"x" * 4200 + b'"}\r\nPING\r\n',
    "connect just fits": b'CONNECT {"verbose":true,"name":"' + b"x" * 4000 + b'"}\r\nPING\r\n',
    "connect at the limit": b'CONNECT {"verbose":true,"name":"' + b"x" * 4064 + b'"}\r\nPING\r\n',
    "connect one over": b'CONNECT {"verbose":true,"name":"' + b"x" * 4065 + b'"}\r\nPING\r\n',
    "connect two over": b'CONNECT {"verbose":true,"name":"' + b"x" * 4066 + b'"}\r\nPING\r\n',
    "connect endless": b'CONNECT {"name":"' + b"x" * 10000,
    "connect never finished": b'CONNECT {"verbose":true',
    # --- without CONNECT -----------------------------------------------------------------------
    "sub and pub without connect": b"SUB a 1\r\nPUB a 2\r\nhi\r\nPING\r\n",
    "pub without connect invalid subject": b"PUB a.* 2\r\nhi\r\nPING\r\n",
    "hpub without connect": hpub(b"a"),
    # --- PUB -----------------------------------------------------------------------------------
    "pub": CONNECT + b"SUB a 1\r\nPUB a 2\r\nhi\r\n",
    "pub verbose": VERBOSE + b"SUB a 1\r\nPUB a 2\r\nhi\r\n",
    "pub empty": CONNECT + b"SUB a 1\r\nPUB a 0\r\n\r\n",
    "pub reply": CONNECT + b"SUB a 1\r\nPUB a r 2\r\nhi\r\n",
    "pub lower case": CONNECT + b"sub a 1\r\npub a 2\r\nhi\r\n",
    "pub tabs": CONNECT + b"SUB\ta\t1\r\nPUB\ta\tr\t2\r\nhi\r\n",
    "pub many blanks": CONNECT + b"SUB   a \t  1  \r\nPUB   a \t  r   2  \r\nhi\r\n",
    "pub bare lf": CONNECT + b"SUB a 1\nPUB a 2\nhi\r\n",
    "pub bare lf after payload": CONNECT + b"SUB a 1\r\nPUB a 2\r\nhi\nPING\r\n",
    "pub without terminator": CONNECT + b"SUB a 1\r\nPUB a 2\r\nhiPING\r\n",
    "pub wrong terminator": CONNECT + b"SUB a 1\r\nPUB a 2\r\nhi\rxPING\r\n",
    "pub payload too long": CONNECT + b"SUB a 1\r\nPUB a 2\r\nhello\r\nPING\r\n",
    "pub payload too short": CONNECT + b"SUB a 1\r\nPUB a 5\r\nhi\r\nPING\r\n",
    "pub binary payload": CONNECT + b"SUB a 1\r\nPUB a 6\r\n\r\n\x00\xff\r\n\r\nPING\r\n",
    "pub no arguments": CONNECT + b"PUB \r\nPING\r\n",
    "pub one argument": CONNECT + b"PUB a\r\nPING\r\n",
    "pub one number": CONNECT + b"PUB 5\r\nPING\r\n",
    "pub four arguments": CONNECT + b"PUB a b c 2\r\nhi\r\nPING\r\n",
    "pub five arguments": CONNECT + b"PUB a b c d 2\r\nhi\r\nPING\r\n",
    "pub many arguments": CONNECT + b"PUB " + b"a " * 30 + b"2\r\nhi\r\nPING\r\n",
    "pub size is a word": CONNECT + b"PUB a x\r\nhi\r\nPING\r\n",
    "pub negative size": CONNECT + b"PUB a -1\r\nhi\r\nPING\r\n",
    "pub plus size": CONNECT + b"PUB a +2\r\nhi\r\nPING\r\n",
    "pub hex size": CONNECT + b"PUB a 0x2\r\nhi\r\nPING\r\n",
    "pub float size": CONNECT + b"PUB a 2.0\r\nhi\r\nPING\r\n",
    # (The reference repeats leading zeros of a size in MSG; we write the number.)
    "pub size with leading zeros": CONNECT + b"PUB a 002\r\nhi\r\nPING\r\n",
    "pub size nine zeros": CONNECT + b"PUB a 000000002\r\nhi\r\nPING\r\n",
    "pub size ten digits": CONNECT + b"SUB a 1\r\nPUB a 0000000002\r\nhi\r\nPING\r\n",
    "pub size huge": CONNECT + b"PUB a 999999999\r\nhi\r\nPING\r\n",
    "pub size ten nines": CONNECT + b"PUB a 9999999999\r\nhi\r\nPING\r\n",
    "pub size enormous": CONNECT + b"PUB a " + b"9" * 40 + b"\r\nhi\r\nPING\r\n",
    "pub max payload": CONNECT
    + b"SUB a 1\r\nPUB a 1048576\r\n"
    + b"x" * MAX_PAYLOAD
    + b"\r\nPING\r\n",
    "pub over max payload": CONNECT + b"PUB a 1048577\r\n",
    "pub over max payload verbose": VERBOSE + b"PUB a 1048577\r\n" + b"x" * 100,
    "pub wildcard star": CONNECT + b"SUB a.* 1\r\nSUB a.> 2\r\nSUB a.b 3\r\nPUB a.* 2\r\nhi\r\n",
    "pub wildcard tail": CONNECT + b"SUB a.* 1\r\nSUB a.> 2\r\nSUB a.b 3\r\nPUB a.> 2\r\nhi\r\n",
    "pub wildcard pedantic": PEDANTIC + b"SUB a.* 1\r\nPUB a.* 2\r\nhi\r\nPING\r\n",
    "pub wildcard both": BOTH + b"SUB a.* 1\r\nPUB a.* 2\r\nhi\r\nPING\r\n",
    "pub empty token": CONNECT + b"SUB > 1\r\nSUB foo.*.a 2\r\nPUB foo..a 2\r\nhi\r\nPING\r\n",
    "pub leading dot": CONNECT + b"SUB > 1\r\nPUB .foo 2\r\nhi\r\nPING\r\n",
    "pub trailing dot": CONNECT + b"SUB > 1\r\nPUB foo. 2\r\nhi\r\nPING\r\n",
    "pub only dot": CONNECT + b"SUB > 1\r\nPUB . 2\r\nhi\r\nPING\r\n",
    "pub empty token pedantic": PEDANTIC + b"SUB > 1\r\nPUB foo..a 2\r\nhi\r\nPING\r\n",
    "pub trailing dot pedantic": PEDANTIC + b"SUB > 1\r\nPUB foo. 2\r\nhi\r\nPING\r\n",
    "pub stars in words": CONNECT + b"SUB a* 1\r\nSUB * 2\r\nPUB a* 2\r\nhi\r\nPING\r\n",
    "pub stars in words pedantic": PEDANTIC
    + b"SUB a* 1\r\nPUB a* 2\r\nhi\r\nPUB foo> 1\r\nx\r\nPING\r\n",
    "pub tail in the middle pedantic": PEDANTIC + b"PUB a.>.b 2\r\nhi\r\nPING\r\n",
    "pub utf-8 subject": CONNECT + "SUB grüße.* 1\r\nPUB grüße.café 2\r\nhi\r\n".encode(),
    "pub bad utf-8 subject": CONNECT + b"SUB a.\xff\xfe 1\r\nPUB a.\xff\xfe 2\r\nhi\r\n",
    "pub bad utf-8 pedantic": PEDANTIC + b"SUB a.\xff\xfe 1\r\nPUB a.\xff\xfe 2\r\nhi\r\n",
    "pub control characters": CONNECT + b"SUB a.\x01\x0c 1\r\nPUB a.\x01\x0c 2\r\nhi\r\n",
    "pub form feed pedantic": PEDANTIC + b"PUB a.\x0cb 2\r\nhi\r\nPING\r\n",
    "pub nul in subject": CONNECT + b"SUB a\x00b 1\r\nPUB a\x00b 2\r\nhi\r\n",
    "pub carriage return in subject": CONNECT + b"SUB a 1\r\nPUB a\rb 2\r\nhi\r\nPING\r\n",
    "pub two carriage returns": CONNECT + b"SUB a 1\r\nPUB a 2\r\r\nhi\r\nPING\r\n",
    "pub long subject": CONNECT + b"SUB > 1\r\nPUB " + b"a" * 4000 + b" 2\r\nhi\r\nPING\r\n",
    "pub line at the limit": CONNECT + b"SUB > 1\r\nPUB " + b"a" * 4094 + b" 2\r\nhi\r\nPING\r\n",
    "pub line one over": CONNECT + b"SUB > 1\r\nPUB " + b"a" * 4095 + b" 2\r\nhi\r\nPING\r\n",
    "pub line far over": CONNECT + b"PUB " + b"a" * 9000 + b" 2\r\nhi\r\nPING\r\n",
    "pub endless line": CONNECT + b"PUB " + b"a" * 9000,
    "pub case matters": CONNECT + b"SUB Foo 1\r\nPUB foo 2\r\nhi\r\nPUB Foo 2\r\nho\r\n",
    "pub reserved reply ack": CONNECT + b"SUB a 1\r\nPUB a $JS.ACK.x 2\r\nhi\r\nPING\r\n",
    "pub reserved reply ack short": CONNECT + b"SUB a 1\r\nPUB a $JS.ACK. 2\r\nhi\r\nPING\r\n",
    "pub reserved reply service": CONNECT + b"SUB a 1\r\nPUB a _R_.x 2\r\nhi\r\nPING\r\n",
    "pub reserved reply service short": CONNECT + b"SUB a 1\r\nPUB a _R_. 2\r\nhi\r\nPING\r\n",
    "pub reserved reply gateway": CONNECT + b"SUB a 1\r\nPUB a _GR_.x.y.z 2\r\nhi\r\nPING\r\n",
    "pub reserved reply gateway old": CONNECT + b"SUB a 1\r\nPUB a $GR.x.y 2\r\nhi\r\nPING\r\n",
    "pub reserved reply gnr": CONNECT + b"SUB a 1\r\nPUB a $GNR.x.y 2\r\nhi\r\nPING\r\n",
    "pub reserved subject nrg": CONNECT + b"SUB > 1\r\nPUB $NRG.x 2\r\nhi\r\nPING\r\n",
    "pub reserved subject nrg short": CONNECT + b"SUB > 1\r\nPUB $NRG. 2\r\nhi\r\nPING\r\n",
    "pub service reply as subject": CONNECT + b"SUB > 1\r\nPUB _R_.x 2\r\nhi\r\nPING\r\n",
    "pub ack as subject": CONNECT + b"SUB > 1\r\nPUB $JS.ACK.x 2\r\nhi\r\nPING\r\n",
    "pub gateway subject": CONNECT + b"SUB > 1\r\nPUB _GR_.x.y.z 2\r\nhi\r\nPING\r\n",
    "pub gateway subject old": CONNECT + b"SUB > 1\r\nPUB $GR.x.y.z 2\r\nhi\r\nPING\r\n",
    "pub gateway subject short": CONNECT
    + b"SUB > 1\r\nPUB _GR_. 2\r\nhi\r\nPUB $GR. 2\r\nhi\r\nPING\r\n",
    "pub gateway reply short": CONNECT
    + b"SUB > 1\r\nPUB a _GR_. 2\r\nhi\r\nPUB b $GR. 2\r\nhi\r\nPING\r\n",
    "pub gateway subject with stats": CONNECT + b"SUB > 1\r\nPUB $GNR.x 2\r\nhi\r\nPING\r\n",
    "pub reserved verbose": VERBOSE + b"PUB a _R_.x 2\r\nhi\r\nPING\r\n",
    "pub sys subject": CONNECT + b"SUB > 1\r\nPUB $SYS.foo 2\r\nhi\r\nPING\r\n",
    "pub reply with wildcard": CONNECT + b"SUB a 1\r\nPUB a r.* 2\r\nhi\r\nPING\r\n",
    "pub reply with wildcard pedantic": PEDANTIC + b"SUB a 1\r\nPUB a r.* 2\r\nhi\r\nPING\r\n",
    # --- HPUB ----------------------------------------------------------------------------------
    "hpub": HEADERS + b"SUB a 1\r\n" + hpub(b"a", payload=b"hi"),
    "hpub lower case": HEADERS
    + b"SUB a 1\r\n"
    + hpub(b"a", payload=b"hi").replace(b"HPUB", b"hpub"),
    "hpub without payload": HEADERS + b"SUB a 1\r\n" + hpub(b"a"),
    "hpub reply": HEADERS + b"SUB a 1\r\n" + hpub(b"a", payload=b"hi", reply=b"r"),
    "hpub not agreed": CONNECT + b"SUB a 1\r\n" + hpub(b"a", payload=b"hi") + b"PING\r\n",
    "hpub not agreed verbose": VERBOSE + hpub(b"a", payload=b"hi") + b"PING\r\n",
    "hpub zero headers": HEADERS + b"SUB a 1\r\nHPUB a 0 2\r\nhi\r\nPING\r\n",
    "hpub zero both": HEADERS + b"SUB a 1\r\nHPUB a 0 0\r\n\r\nPING\r\n",
    "hpub headers longer than total": HEADERS + b"HPUB a 10 5\r\nhello\r\nPING\r\n",
    "hpub two arguments": HEADERS + b"HPUB a 5\r\nhello\r\nPING\r\n",
    "hpub one argument": HEADERS + b"HPUB a\r\nPING\r\n",
    "hpub no arguments": HEADERS + b"HPUB \r\nPING\r\n",
    "hpub five arguments": HEADERS + b"HPUB a b c 2 2\r\nhi\r\nPING\r\n",
    "hpub header size is a word": HEADERS + b"HPUB a x 5\r\nhello\r\nPING\r\n",
    "hpub total is a word": HEADERS + b"HPUB a 2 x\r\nhello\r\nPING\r\n",
    "hpub negative header size": HEADERS + b"HPUB a -1 5\r\nhello\r\nPING\r\n",
    "hpub header size ten digits": HEADERS + b"HPUB a 0000000002 5\r\nhello\r\nPING\r\n",
    "hpub not a header block": HEADERS + b"SUB a 1\r\nHPUB a 5 5\r\nhello\r\nPING\r\n",
    "hpub block without end": HEADERS + b"SUB a 1\r\nHPUB a 8 10\r\nNATS/1.0hi\r\nPING\r\n",
    "hpub over max payload": HEADERS + b"HPUB a 12 1048577\r\n",
    "hpub max payload": HEADERS
    + b"SUB a 1\r\n"
    + hpub(b"a", payload=b"x" * (MAX_PAYLOAD - len(BLOCK))),
    "hpub many headers": HEADERS
    + b"SUB a 1\r\n"
    + hpub(b"a", b"NATS/1.0\r\n" + b"".join(b"K%d: v\r\n" % i for i in range(500)) + b"\r\n", b"z"),
    "hpub status line": HEADERS
    + b"SUB a 1\r\n"
    + hpub(b"a", b"NATS/1.0 100 Idle Heartbeat\r\n\r\n"),
    "hpub bad terminator": HEADERS + b"SUB a 1\r\n" + hpub(b"a")[:-2] + b"xxPING\r\n",
    "hpub wildcard pedantic": b'CONNECT {"verbose":true,"pedantic":true,"headers":true}\r\n'
    + b"SUB a.* 1\r\n"
    + hpub(b"a.*"),
    # --- SUB -----------------------------------------------------------------------------------
    "sub verbose": VERBOSE + b"SUB a 1\r\n",
    "sub queue": VERBOSE + b"SUB a q 1\r\nPUB a 1\r\nx\r\n",
    "sub no arguments": CONNECT + b"SUB \r\nPING\r\n",
    "sub one argument": CONNECT + b"SUB a\r\nPING\r\n",
    "sub four arguments": CONNECT + b"SUB a b c 1\r\nPING\r\n",
    "sub many arguments": CONNECT + b"SUB a b c d e f g 1\r\nPING\r\n",
    "sub sid is a word": CONNECT + b"SUB a abc-def.g\r\nPUB a 2\r\nhi\r\n",
    "sub sid utf-8": CONNECT + "SUB a ñ\r\nPUB a 2\r\nhi\r\n".encode(),
    "sub sid negative": CONNECT + b"SUB a -5\r\nPUB a 2\r\nhi\r\n",
    "sub empty token": CONNECT + b"SUB a..b 1\r\nPING\r\n",
    "sub leading dot": CONNECT + b"SUB .a 1\r\nPING\r\n",
    "sub trailing dot": VERBOSE + b"SUB a. 1\r\nPING\r\n",
    "sub tail in the middle": CONNECT + b"SUB a.>.b 1\r\nPING\r\n",
    "sub tail first": CONNECT + b"SUB >.a 1\r\nPING\r\n",
    "sub star in word": CONNECT
    + b"SUB a*b.c> 1\r\nPUB a*b.c> 2\r\nhi\r\nPUB axb.cd 2\r\nhi\r\nPING\r\n",
    "sub all": CONNECT + b"SUB > 1\r\nPUB a 1\r\nx\r\nPUB a.b.c 1\r\ny\r\n",
    "sub stars": CONNECT + b"SUB *.* 1\r\nPUB a 1\r\nx\r\nPUB a.b 1\r\ny\r\nPUB a.b.c 1\r\nz\r\n",
    "sub tail needs a token": CONNECT + b"SUB a.> 1\r\nPUB a 1\r\nx\r\nPUB a.b 1\r\ny\r\n",
    "sub duplicate sid": VERBOSE + b"SUB a 1\r\nSUB b 1\r\nPUB a 1\r\nx\r\nPUB b 1\r\ny\r\n",
    "sub duplicate sid other queue": VERBOSE + b"SUB a 1\r\nSUB a q 1\r\nPUB a 1\r\nx\r\n",
    "sub same subject twice": CONNECT + b"SUB a 1\r\nSUB a 2\r\nPUB a 1\r\nx\r\n",
    "sub invalid with used sid": CONNECT + b"SUB a 1\r\nSUB a..b 1\r\nPUB a 1\r\nx\r\n",
    "sub reserved queue": CONNECT + b"SUB a _sys_ 1\r\nPING\r\n",
    "sub reserved queue verbose": VERBOSE + b"SUB a _sys_ 1\r\nPING\r\n",
    "sub queue with wildcard": VERBOSE + b"SUB a q.* 1\r\nSUB a > 2\r\nPING\r\n",
    "sub queue with empty token": VERBOSE + b"SUB a q..r 1\r\nPING\r\n",
    "sub line at the limit": VERBOSE + b"SUB " + b"a" * 4094 + b" 1\r\nPING\r\n",
    "sub line one over": VERBOSE + b"SUB " + b"a" * 4095 + b" 1\r\nPING\r\n",
    "sub line with many blanks": VERBOSE + b"SUB a" + b" " * 4000 + b" 1\r\nPING\r\n",
    "sub line with too many blanks": VERBOSE + b"SUB a" + b" " * 4100 + b" 1\r\nPING\r\n",
    "sub leading blanks over": VERBOSE + b"SUB " + b" " * 5000 + b"a 1\r\nPING\r\n",
    "sub many tokens": VERBOSE
    + b"SUB "
    + b"a." * 100
    + b"a 1\r\nPUB "
    + b"a." * 100
    + b"a 1\r\nx\r\n",
    "sub invalid pedantic": BOTH + b"SUB a..b 1\r\nPING\r\n",
    "sub form feed": VERBOSE + b"SUB a\x0cb 1\r\nPING\r\n",
    "sub sys events": CONNECT + b"SUB $SYS.> 1\r\nPING\r\n",
    # --- UNSUB ---------------------------------------------------------------------------------
    "unsub": VERBOSE + b"SUB a 1\r\nUNSUB 1\r\nPUB a 1\r\nx\r\n",
    "unsub lower case": VERBOSE + b"SUB a 1\r\nunsub 1\r\nPUB a 1\r\nx\r\n",
    "unsub unknown": VERBOSE + b"UNSUB 99\r\nPING\r\n",
    "unsub no arguments": CONNECT + b"UNSUB \r\nPING\r\n",
    "unsub three arguments": CONNECT + b"UNSUB 1 2 3\r\nPING\r\n",
    "unsub max": CONNECT + b"SUB a 1\r\nUNSUB 1 2\r\n" + b"PUB a 1\r\nx\r\n" * 4,
    "unsub max one": CONNECT + b"SUB a 1\r\nUNSUB 1 1\r\n" + b"PUB a 1\r\nx\r\n" * 3,
    "unsub max counts from the start": CONNECT
    + b"SUB a 1\r\nPUB a 1\r\nx\r\nPUB a 1\r\ny\r\nUNSUB 1 3\r\n"
    + b"PUB a 1\r\nz\r\n" * 4,
    "unsub max already reached": CONNECT
    + b"SUB a 1\r\nPUB a 1\r\nx\r\nPUB a 1\r\ny\r\nUNSUB 1 2\r\n"
    + b"PUB a 1\r\nz\r\n" * 2,
    "unsub max already exceeded": CONNECT
    + b"SUB a 1\r\nPUB a 1\r\nx\r\nPUB a 1\r\ny\r\nUNSUB 1 1\r\n"
    + b"PUB a 1\r\nz\r\n" * 2,
    "unsub max zero": CONNECT + b"SUB a 1\r\nUNSUB 1 0\r\n" + b"PUB a 1\r\nx\r\n" * 2,
    "unsub max negative": CONNECT + b"SUB a 1\r\nUNSUB 1 -1\r\n" + b"PUB a 1\r\nx\r\n" * 2,
    "unsub max is a word": CONNECT + b"SUB a 1\r\nUNSUB 1 x\r\n" + b"PUB a 1\r\nx\r\n" * 2,
    "unsub max plus": CONNECT + b"SUB a 1\r\nUNSUB 1 +1\r\n" + b"PUB a 1\r\nx\r\n" * 2,
    "unsub max huge": CONNECT
    + b"SUB a 1\r\nUNSUB 1 99999999999999999999\r\n"
    + b"PUB a 1\r\nx\r\n",
    "unsub max ten digits": CONNECT
    + b"SUB a 1\r\nUNSUB 1 0000000001\r\n"
    + b"PUB a 1\r\nx\r\n" * 2,
    "unsub max changed": CONNECT
    + b"SUB a 1\r\nUNSUB 1 5\r\nUNSUB 1 1\r\n"
    + b"PUB a 1\r\nx\r\n" * 3,
    "unsub max raised": CONNECT
    + b"SUB a 1\r\nUNSUB 1 1\r\nUNSUB 1 2\r\n"
    + b"PUB a 1\r\nx\r\n" * 3,
    "unsub max then at once": CONNECT
    + b"SUB a 1\r\nUNSUB 1 5\r\nUNSUB 1\r\n"
    + b"PUB a 1\r\nx\r\n" * 3,
    "unsub max queue": CONNECT + b"SUB a q 1\r\nUNSUB 1 2\r\n" + b"PUB a 1\r\nx\r\n" * 4,
    "unsub max two in a group": CONNECT
    + b"SUB a q 1\r\nUNSUB 1 1\r\nSUB a q 1\r\nUNSUB 1 1\r\n"
    + b"PUB a 1\r\nx\r\n" * 4,
    "sid is free again after max": CONNECT
    + b"SUB a 1\r\nUNSUB 1 1\r\nPUB a 1\r\nx\r\nSUB b 1\r\nPUB b 1\r\ny\r\n",
    # --- no responders -------------------------------------------------------------------------
    "no responders": HEADERS + b"SUB r 1\r\nPUB nobody r 2\r\nhi\r\n",
    "no responders hpub": HEADERS + b"SUB r 1\r\n" + hpub(b"nobody", reply=b"r"),
    "no responders wildcard inbox": HEADERS + b"SUB r.* 1\r\nPUB nobody r.1 2\r\nhi\r\n",
    "no responders tail inbox": HEADERS + b"SUB > 1\r\nSUB r 2\r\nPUB nobody r 2\r\nhi\r\n",
    "no responders two inboxes": HEADERS + b"SUB r 1\r\nSUB r 2\r\nPUB nobody r 2\r\nhi\r\n",
    "no responders queue inbox": HEADERS + b"SUB r q 1\r\nPUB nobody r 2\r\nhi\r\nPING\r\n",
    "no responders without inbox": HEADERS + b"PUB nobody r 2\r\nhi\r\nPING\r\n",
    "no responders without reply": HEADERS + b"SUB r 1\r\nPUB nobody 2\r\nhi\r\nPING\r\n",
    "no responders not asked for": CONNECT + b"SUB r 1\r\nPUB nobody r 2\r\nhi\r\nPING\r\n",
    "no responders only headers": b'CONNECT {"verbose":false,"headers":true}\r\n'
    + b"SUB r 1\r\nPUB nobody r 2\r\nhi\r\nPING\r\n",
    "no responders verbose": b'CONNECT {"verbose":true,"headers":true,"no_responders":true}\r\n'
    + b"SUB r 1\r\nPUB nobody r 2\r\nhi\r\nPING\r\n",
    "no responders uses up the limit": HEADERS
    + b"SUB r 1\r\nUNSUB 1 1\r\nPUB nobody r 2\r\nhi\r\nPUB nobody r 2\r\nhi\r\nPING\r\n",
    "no responders no echo": REQUESTS_NO_ECHO + b"PUB nobody r 2\r\nhi\r\nPING\r\n",
    "no responders own subscription without echo": REQUESTS_NO_ECHO
    + b"SUB a 2\r\nPUB a r 2\r\nhi\r\nPING\r\n",
    "no responders for the api": HEADERS + b"SUB r 1\r\nPUB $JS.API.INFO r 0\r\n\r\nPING\r\n",
    "no responders for sys request": HEADERS
    + b"SUB r 1\r\nPUB $SYS.REQ.SERVER.PING r 0\r\n\r\nPING\r\n",
    "no responders invalid subject": HEADERS + b"SUB r 1\r\nPUB foo..bar r 0\r\n\r\nPING\r\n",
    "no responders wildcard subject": HEADERS + b"SUB r 1\r\nPUB foo.* r 0\r\n\r\nPING\r\n",
    "request to itself": HEADERS + b"SUB r 1\r\nPUB r r 2\r\nhi\r\nPING\r\n",
    # --- echo ----------------------------------------------------------------------------------
    "echo off": NO_ECHO + b"SUB a 1\r\nPUB a 2\r\nhi\r\nPING\r\n",
    "echo off queue": NO_ECHO + b"SUB a q 1\r\nPUB a 2\r\nhi\r\nPING\r\n",
    # --- INFO after PONG -----------------------------------------------------------------------
    "info after the first pong": PROTOCOL_1 + b"PING\r\nPING\r\n",
    "no info before a ping": PROTOCOL_1 + b"SUB a 1\r\nPUB a 1\r\nx\r\n",
    "info comes after queued messages": PROTOCOL_1
    + b"SUB a 1\r\nPUB a 1\r\nx\r\nPING\r\nPUB a 1\r\ny\r\n",
    # --- unfinished ----------------------------------------------------------------------------
    "unfinished payload": CONNECT + b"PUB a 10\r\nhel",
    "unfinished line": CONNECT + b"PUB a",
    "unfinished operation": CONNECT + b"PU",
    "long unknown line": CONNECT + b"Z" * 9000,
    "long blanks": CONNECT + b" " * 9000,
}

REQUESTER = b'CONNECT {"verbose":false,"headers":true,"no_responders":true}\r\nSUB r 1\r\n'
PLAIN = b'CONNECT {"verbose":false}\r\n'

# Several connections; settled after each step.
SEVERAL: dict[str, Sequence[Step]] = {
    "fan out": [
        ("a", PLAIN + b"SUB x 1\r\n"),
        ("b", PLAIN + b"SUB x 7\r\nSUB > 8\r\n"),
        ("c", PLAIN + b"PUB x 2\r\nhi\r\n"),
    ],
    "headers are stripped for old clients": [
        ("a", PLAIN + b"SUB x 1\r\n"),
        ("b", HEADERS + b"SUB x 1\r\n"),
        ("c", HEADERS + hpub(b"x", payload=b"hi", reply=b"r") + hpub(b"x")),
    ],
    "queue group of one and plain": [
        ("a", PLAIN + b"SUB x q 1\r\n"),
        ("b", PLAIN + b"SUB x 1\r\n"),
        ("c", PLAIN + b"PUB x 2\r\nhi\r\n" * 3),
    ],
    "two queue groups": [
        ("a", PLAIN + b"SUB x q1 1\r\n"),
        ("b", PLAIN + b"SUB x q2 1\r\n"),
        ("c", PLAIN + b"PUB x 2\r\nhi\r\n" * 3),
    ],
    "request and reply": [
        ("a", PLAIN + b"SUB svc 1\r\n"),
        ("b", REQUESTER + b"PUB svc r 2\r\nhi\r\n"),
        ("a", b"PUB r 2\r\nyo\r\n"),
    ],
    "responder left": [
        ("a", PLAIN + b"SUB svc 1\r\n"),
        ("b", REQUESTER + b"PUB svc r 2\r\nhi\r\n"),
        ("a", CLOSE),
        ("b", b"PUB svc r 2\r\nhi\r\n"),
    ],
    "responder unsubscribed": [
        ("a", PLAIN + b"SUB svc q 1\r\n"),
        ("a", b"UNSUB 1\r\n"),
        ("b", REQUESTER + b"PUB svc r 2\r\nhi\r\n"),
    ],
    "responder is used up": [
        ("a", PLAIN + b"SUB svc 1\r\nUNSUB 1 1\r\n"),
        ("b", REQUESTER + b"PUB svc r 2\r\nhi\r\nPUB svc r 2\r\nhi\r\n"),
    ],
    "reply subscription of somebody else": [
        ("a", HEADERS + b"SUB r 1\r\n"),
        ("b", HEADERS + b"PUB nobody r 2\r\nhi\r\n"),
    ],
    "connection that left is not delivered to": [
        ("a", PLAIN + b"SUB x 1\r\n"),
        ("a", CLOSE),
        ("b", VERBOSE + b"PUB x 2\r\nhi\r\n"),
    ],
    "half close": [("a", PLAIN + b"SUB x 1\r\nPING\r\n"), ("a", HALF_CLOSE), ("a", SILENCE)],
    "half close at once": [("a", HALF_CLOSE), ("a", SILENCE)],
    "half close with unfinished payload": [("a", PLAIN + b"PUB x 10\r\nabc"), ("a", HALF_CLOSE)],
    "first op after a pause": [("a", SILENCE), ("a", b"PING\r\n")],
    "second connect after a while": [
        ("a", PROTOCOL_1 + b"SUB x 1\r\nPING\r\n"),
        ("a", PROTOCOL_1),
        ("b", PLAIN + b"PUB x 2\r\nhi\r\n"),
        ("a", b"PING\r\n"),
    ],
    "unsub max across connections": [
        ("a", PLAIN + b"SUB x 1\r\nUNSUB 1 3\r\n"),
        ("b", PLAIN + b"PUB x 1\r\n1\r\nPUB x 1\r\n2\r\n"),
        ("c", PLAIN + b"PUB x 1\r\n3\r\nPUB x 1\r\n4\r\n"),
    ],
    "unsub max lowered below delivered": [
        ("a", PLAIN + b"SUB x 1\r\nUNSUB 1 5\r\n"),
        ("b", PLAIN + b"PUB x 1\r\n1\r\nPUB x 1\r\n2\r\n"),
        ("a", b"UNSUB 1 1\r\n"),
        ("b", b"PUB x 1\r\n3\r\n"),
    ],
    "protocol error leaves others alone": [
        ("a", PLAIN + b"SUB x 1\r\n"),
        ("b", PLAIN + b"SUB x 1\r\nBOGUS\r\n"),
        ("c", PLAIN + b"PUB x 1\r\n1\r\n"),
    ],
    "operations before an error are carried out": [
        ("a", PLAIN + b"SUB x 1\r\n"),
        ("b", PLAIN + b"PUB x 1\r\n1\r\nPUB x 1\r\n2\r\nBOGUS\r\nPUB x 1\r\n3\r\n"),
    ],
    "operations before bad arguments are carried out": [
        ("a", PLAIN + b"SUB x 1\r\n"),
        ("b", PLAIN + b"PUB x 1\r\n1\r\nPUB x\r\nPUB x 1\r\n3\r\n"),
    ],
    "wildcard overlap gives one copy per subscription": [
        ("a", PLAIN + b"SUB x.y 1\r\n"),
        ("a", b"SUB x.* 2\r\n"),
        ("a", b"SUB x.> 3\r\n"),
        ("b", PLAIN + b"PUB x.y 1\r\n1\r\n"),
    ],
}


def _single_steps() -> list[tuple[str, Sequence[Step]]]:
    return [(name, [("a", data)]) for name, data in SINGLE.items()]


ALL: list[tuple[str, Sequence[Step]]] = [*_single_steps(), *SEVERAL.items()]


@pytest.fixture(scope="module")
def ports() -> Iterator[tuple[int, int]]:
    with Reference() as reference, Ours() as ours:
        yield reference.port, ours.port


def in_any_order(seen: dict[str, Seen]) -> dict[str, object]:
    """Several subscriptions that get the same message may be served in any order."""
    found: dict[str, object] = {}
    for name, one in seen.items():
        runs = groupby(frames(one.received), key=lambda frame: frame.startswith((b"MSG", b"HMSG")))
        found[name] = [sorted(run) if are else list(run) for are, run in runs], one.closed
    return found


def both(
    ports: tuple[int, int], steps: Sequence[Step], pause_s: float, cut: int = 0
) -> list[dict[str, Seen]]:
    with ThreadPoolExecutor(2) as pool:
        return list(pool.map(lambda port: hold(port, steps, pause_s, cut), ports))


@pytest.mark.parametrize("steps", [pytest.param(steps, id=name) for name, steps in ALL])
def test_a_client_sees_the_same(ports: tuple[int, int], steps: Sequence[Step]) -> None:
    # A slow machine may need longer to become quiet: a difference counts when it stays.
    for pause_s in (0.04, 0.25, 1.0):
        reference, ours = both(ports, steps, pause_s)
        if in_any_order(ours) == in_any_order(reference):
            return
    assert ours == reference


CUT = [
    "pub", "hpub", "no responders", "unsub max", "connect protocol 1", "pub bare lf after payload",
    "pub tabs", "sub duplicate sid", "unknown word", "hpub bad terminator",
    "pub size ten nines", "ok from client", "err from client", "pub over max payload",
]  # fmt: skip


@pytest.mark.parametrize("name", CUT)
@pytest.mark.parametrize("slice_bytes", [1, 3, 7])
def test_where_the_bytes_are_cut_is_not_seen(
    ports: tuple[int, int], name: str, slice_bytes: int
) -> None:
    for pause_s in (0.05, 0.3, 1.0):
        reference, ours = both(ports, [("a", SINGLE[name])], pause_s, slice_bytes)
        if reference == ours:
            return
    assert ours == reference
