"""Log-ins, limits and TLS greetings: the same conversation with the real server and with ours."""

import asyncio
import json
import re
import subprocess
import sys
from pathlib import Path

import pytest

USERS = (
    "authorization {users: [{user: a, password: b, "
    'permissions: {publish: "x", subscribe: ["y", "_INBOX.>"]}}]}'
)
QUIET = b'"verbose":false,"protocol":1'
CASES: list[tuple[str, list[bytes]]] = [
    (
        "authorization {token: t}",
        [
            b"PING\r\n",
            b"CONNECT {}\r\n",
            b'CONNECT {"auth_token":"t"}\r\nPING\r\n',
            b'CONNECT {"auth_token":"bad"}\r\nPING\r\n',
            b"PUB a 0\r\n\r\n",
            b"SUB a 1\r\n",
        ],
    ),
    (
        USERS,
        [
            b'CONNECT {"user":"a","pass":"b",' + QUIET + b"}\r\nPING\r\nPUB z 0\r\n\r\n"
            b"SUB z 1\r\nSUB y 2\r\nPUB x 0\r\n\r\nPING\r\n",
            b'CONNECT {"user":"a","pass":"c"}\r\n',
            b'CONNECT {"user":"a","pass":"b",' + QUIET + b'}\r\nCONNECT {"user":"a"}\r\n',
            b'CONNECT {"user":"a","pass":"b",' + QUIET + b"}\r\nSUB y 1\r\n"
            b'CONNECT {"user":"a","pass":"b",' + QUIET + b"}\r\nPING\r\n",
        ],
    ),
    (
        "no_auth_user: a\n" + USERS,
        [
            b"PING\r\n",
            b"CONNECT {" + QUIET + b"}\r\nPING\r\nPUB z 0\r\n\r\n",
            b"PUB x 0\r\n\r\nPING\r\n",
            b"SUB z 1\r\n",
            b'CONNECT {"user":"a","pass":"zz"}\r\n',
        ],
    ),
    (
        "accounts {A {users: [{user: a, password: b}], limits: {max_subscriptions: 1, "
        "max_payload: 10}}}",
        [b'CONNECT {"user":"a","pass":"b",' + QUIET + b"}\r\nPING\r\nSUB a 1\r\nPUB x 11\r\n"],
    ),
    ("max_connections: 0", [b"PING\r\n"]),
    (
        "max_subscriptions: 1, max_sub_tokens: 2",
        [b"CONNECT {" + QUIET + b"}\r\nSUB a.b.c 1\r\nSUB a.b 2\r\nSUB b 3\r\nPING\r\n"],
    ),
    ("authorization {timeout: 0.3, token: t}", [b""]),
    ("no_header_support: true", [b"CONNECT {" + QUIET + b',"headers":true}\r\nPING\r\n']),
]
_INFO = re.compile(rb"INFO (\{.*?\}) \r\n")
_PRIVATE = ("server_id", "server_name", "go", "xkey", "client_id", "port")


async def talk(port: int, said: bytes) -> bytes:
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    heard = b""

    async def listen(seconds: float) -> None:
        nonlocal heard
        try:
            while True:
                data = await asyncio.wait_for(reader.read(65536), seconds)
                heard += data or b"<closed>"
                if not data:
                    return
        except TimeoutError:
            return
        except ConnectionError:
            heard += b"<closed>"

    await listen(0.1)
    if said and not heard.endswith(b"<closed>"):
        writer.write(said)
    await listen(1.0 if not said else 0.3)
    writer.close()
    return heard


def comparable(heard: bytes) -> bytes:
    """Without what differs from server to server by nature."""

    def plain(found: re.Match[bytes]) -> bytes:
        info = json.loads(found[1])
        info.pop("git_commit", None)
        info |= {name: "." for name in _PRIVATE if name in info}
        if "nonce" in info:
            info["nonce"] = len(info["nonce"])
        return b"INFO " + json.dumps(info).encode() + b"\n"

    return _INFO.sub(plain, heard)


def converse(command: list[str], config: Path, said: list[bytes]) -> list[bytes]:
    process = subprocess.Popen(
        [*command, "-c", str(config)], stderr=subprocess.PIPE, stdout=subprocess.DEVNULL, text=True
    )
    try:
        port = 0
        assert process.stderr is not None
        for line in process.stderr:
            if "Listening for client connections on" in line:
                port = int(line.rsplit(":", 1)[1])
            if "Server is ready" in line:
                break

        async def all_of_it() -> list[bytes]:
            return [comparable(await talk(port, words)) for words in said]

        return asyncio.run(all_of_it())
    finally:
        process.kill()
        process.wait()
        assert process.stderr is not None
        process.stderr.close()


@pytest.mark.reference
@pytest.mark.parametrize(("config", "said"), CASES, ids=range(len(CASES)))
def test_the_same_conversation(
    config: str, said: list[bytes], tmp_path: Path, reference_server: str
) -> None:
    path = tmp_path / "server.conf"
    path.write_text(f"listen: 127.0.0.1:-1\n{config}\n")
    theirs = converse([reference_server], path, said)
    ours = converse([sys.executable, "-m", "jetstream.server.main"], path, said)
    for words, wanted, found in zip(said, theirs, ours, strict=True):
        assert found == wanted, words
