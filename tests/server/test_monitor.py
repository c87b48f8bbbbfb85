"""Monitoring: the same fields in the same order as the reference, and its words for mistakes."""

import asyncio
import json
import urllib.error
import urllib.request
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import nats
import pytest

from jetstream.server import facts
from jetstream.server.monitor_connz import rtt_text
from jetstream.server.options_file import read_config_text
from jetstream.server.server import Server

CONFIG = """
listen: 127.0.0.1:-1
http: 127.0.0.1:-1
server_name: srv
accounts {
  A { users: [ {user: a, password: a} ], jetstream: enabled, exports: [ {service: "q.>"} ] }
  B { users: [ {user: b, password: b} ]
      imports: [ {service: {account: A, subject: "q.x"}} ], mappings: { m: n } }
  "$SYS" { users: [ {user: s, password: s} ] }
}
"""


class House:
    """A server with some clients, and its monitoring port."""

    def __init__(self, server: Server) -> None:
        self.server = server
        self.base = f"http://127.0.0.1:{server.open_ports['monitoring'][2]}"

    async def get(self, target: str) -> tuple[int, str]:
        def ask() -> tuple[int, str]:
            try:
                with urllib.request.urlopen(self.base + target, timeout=5) as answer:
                    return answer.status, answer.read().decode()
            except urllib.error.HTTPError as error:
                return error.code, error.read().decode()

        return await asyncio.get_running_loop().run_in_executor(None, ask)

    async def json(self, target: str) -> Any:
        status, text = await self.get(target)
        assert status == 200, text
        return json.loads(text)


def in_house(tmp_path: Path, scenario: Callable[[House], Awaitable[None]]) -> None:
    async def run() -> None:
        options = read_config_text(CONFIG)
        async with Server(options, store_dir=tmp_path) as server, asyncio.timeout(20):
            a = await nats.connect(server.url, user="a", password="a", name="alpha")
            await a.subscribe("foo.bar")
            await a.subscribe("q.>", queue="qq")
            js = a.jetstream()
            await js.add_stream(name="ST", subjects=["st.>"])
            await js.publish("st.1", b"x")
            await js.add_consumer("ST", durable_name="C", ack_policy="explicit")
            await a.publish("foo.bar", b"hello")
            b = await nats.connect(server.url, user="b", password="b", name="beta")
            gone = await nats.connect(server.url, user="b", password="b", name="gone")
            await gone.close()
            await a.flush()
            await b.flush()
            await asyncio.sleep(0)
            try:
                await scenario(House(server))
            finally:
                await a.close()
                await b.close()

    asyncio.run(run())


def test_varz_has_the_fields_of_the_reference_in_order(tmp_path: Path) -> None:
    async def scenario(house: House) -> None:
        found = await house.json("/varz")
        expected = (
            "server_id server_name version proto go host port auth_required max_connections "
            "ping_interval ping_max http_host http_port http_base_path https_port auth_timeout "
            "max_control_line max_payload max_pending cluster gateway leaf mqtt websocket "
            "jetstream tls_timeout write_deadline start now uptime mem cores gomaxprocs cpu "
            "connections total_connections routes remotes leafnodes in_msgs in_bytes "
            "in_client_msgs in_client_bytes out_msgs out_bytes out_client_msgs out_client_bytes "
            "slow_consumers stale_connections stalled_clients subscriptions http_req_stats "
            "config_load_time config_digest system_account slow_consumer_stats "
            "stale_connection_stats disk_io_wait_stats"
        )
        assert list(found) == expected.split()
        assert found["version"] == "2.15.1" and found["server_name"] == "srv"
        assert found["connections"] == 2 and found["total_connections"] == 3
        assert found["http_req_stats"] == {"/varz": 1}
        assert found["jetstream"]["stats"]["accounts"] == 1
        assert found["auth_timeout"] == 2 and found["ping_interval"] == 120_000_000_000

    in_house(tmp_path, scenario)


def test_connz(tmp_path: Path) -> None:
    async def scenario(house: House) -> None:
        found = await house.json("/connz?subs=detail&auth=1&state=all")
        assert (found["num_connections"], found["total"], found["limit"]) == (3, 3, 1024)
        alpha, _beta, gone = found["connections"]
        assert alpha["kind"] == "Client" and alpha["type"] == "nats"
        assert (alpha["name"], alpha["authorized_user"], alpha["account"]) == ("alpha", "a", "A")
        assert alpha["subscriptions"] == 3
        details = alpha["subscriptions_list_detail"]
        assert {"subject": "foo.bar", "sid": "1", "msgs": 1, "cid": alpha["cid"]} in details
        assert gone["reason"] == "Client Closed" and "stop" in gone
        subs = await house.json("/connz?subs=1")
        assert "q.>" in subs["connections"][0]["subscriptions_list"]
        assert "authorized_user" not in subs["connections"][0]
        page = await house.json("/connz?limit=1&offset=1")
        assert [c["name"] for c in page["connections"]] == ["beta"]
        assert (page["num_connections"], page["total"]) == (1, 2)
        by_name = await house.json("/connz?acc=B")
        assert by_name["total"] == 1
        assert (await house.json("/connz?cid=99"))["connections"] == []
        assert (await house.json("/connz?user=a"))["num_connections"] == 1
        most = await house.json("/connz?sort=subs")
        assert [c["name"] for c in most["connections"]] == ["alpha", "beta"]
        filtered = await house.json("/connz?acc=A&filter_subject=foo.bar")
        assert filtered["num_connections"] == 1

    in_house(tmp_path, scenario)


@pytest.mark.parametrize(
    ("target", "status", "text"),
    [
        ("/connz?sort=zz", 400, "invalid sorting option: zz"),
        ("/connz?sort=stop", 400, "sort by stop only valid on closed connections"),
        (
            "/connz?limit=x",
            400,
            "Error decoding int for 'limit': strconv.Atoi: parsing \"x\": invalid syntax",
        ),
        (
            "/connz?subs=x",
            400,
            "Error decoding boolean for 'subs': strconv.ParseBool: parsing \"x\": invalid syntax",
        ),
        ("/connz?state=zz", 400, "Error decoding state for zz"),
        ("/subsz?test=foo.*", 400, "invalid test subject, must be valid publish subject: foo.*"),
        ("/accountz?acc=Z", 400, "Account Z does not exist"),
        ("/nothing", 404, "404 page not found\n"),
        ("/raftz", 404, "No Raft nodes registered"),
        ("/healthz", 200, '{"status":"ok"}'),
        (
            "/healthz?account=Z",
            404,
            '{"status":"unavailable","error":"JetStream account \\"Z\\" not found"}',
        ),
        ("/healthz?account=A&stream=ST", 200, '{"status":"ok"}'),
        (
            "/healthz?account=A&stream=NO",
            404,
            '{"status":"unavailable","error":"JetStream stream \\"NO\\" not found on '
            'account \\"A\\""}',
        ),
        (
            "/healthz?stream=ST",
            400,
            '{"status":"error","error":"\\"account\\" must not be empty when checking stream '
            'health"}',
        ),
        (
            "/healthz?details=1&account=Z",
            404,
            '{"status":"error","errors":[{"type":"ACCOUNT","account":"Z",'
            '"error":"JetStream account \\"Z\\" not found"}]}',
        ),
    ],
)
def test_exact_answers(tmp_path: Path, target: str, status: int, text: str) -> None:
    async def scenario(house: House) -> None:
        assert await house.get(target) == (status, text)

    in_house(tmp_path, scenario)


def test_the_other_views(tmp_path: Path) -> None:
    async def scenario(house: House) -> None:
        subs = await house.json("/subsz?subs=1&test=foo.bar")
        (row,) = subs["subscriptions_list"]
        assert (row["account"], row["subject"], row["msgs"]) == ("A", "foo.bar", 1)
        assert set((await house.json("/accountz"))["accounts"]) == {"$G", "$SYS", "A", "B"}
        detail = (await house.json("/accountz?acc=B"))["account_detail"]
        assert detail["mappings"] == {"m": [{"subject": "n", "weight": 100}]}
        assert detail["imports"][0]["local_subject"] == "q.x"
        stats = await house.json("/accstatz")
        assert [row["acc"] for row in stats["account_statz"]] == ["A", "B"]
        js = await house.json("/jsz?consumers=1&config=1")
        assert (js["streams"], js["consumers"], js["messages"]) == (1, 1, 1)
        (stream,) = js["account_details"][0]["stream_detail"]
        assert stream["name"] == "ST" and stream["config"]["subjects"] == ["st.>"]
        assert stream["consumer_detail"][0]["name"] == "C"
        plain = await house.json("/jsz")
        assert "account_details" not in plain and plain["total"] == 1
        assert (await house.json("/routez"))["num_routes"] == 0
        assert (await house.json("/leafz"))["leafs"] == []
        assert (await house.json("/gatewayz"))["inbound_gateways"] == {}
        status, page = await house.get("/")
        assert status == 200 and "/varz" in page

    in_house(tmp_path, scenario)


def test_metrics_are_prometheus_text(tmp_path: Path) -> None:
    async def scenario(house: House) -> None:
        status, text = await house.get("/metrics")
        assert status == 200
        assert "# TYPE nats_connections gauge\nnats_connections 2\n" in text
        assert 'jetstream_stream_messages{account="A",stream="ST"} 1\n' in text
        assert 'jetstream_consumer_pending{account="A",stream="ST",consumer="C"} 1\n' in text

    in_house(tmp_path, scenario)


def test_http_details(tmp_path: Path) -> None:
    async def scenario(house: House) -> None:
        port = house.server.open_ports["monitoring"][2]
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(b"GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n" * 2)
        first = await reader.readuntil(b'{"status":"ok"}')
        assert b"Access-Control-Allow-Origin: *\r\n" in first
        await reader.readuntil(b'{"status":"ok"}')
        writer.write(b"HEAD /varz HTTP/1.1\r\nConnection: close\r\n\r\n")
        assert (await reader.read()).endswith(b"\r\n\r\n")
        writer.close()
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(b"POST /varz HTTP/1.1\r\n\r\n")
        assert b"405 Method Not Allowed" in await reader.read()
        writer.close()

    in_house(tmp_path, scenario)


def test_uptime_leaves_out_zero_units_in_front() -> None:
    assert facts.uptime(0) == "0s"
    assert facts.uptime(61) == "1m1s"
    assert facts.uptime(3600) == "1h0m0s"
    assert facts.uptime(2 * 86400 + 5) == "2d0h0m5s"
    assert facts.uptime(366 * 86400) == "1y1d0h0m0s"


def test_round_trip_times_are_go_durations() -> None:
    assert rtt_text(531_234) == "531µs"
    assert rtt_text(1_801_058) == "1.801058ms"
