"""More than one machine, played on loopback: same code, same results."""

import os
import subprocess
import sys
import time
import zipfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pyspark
import pytest

from jetstream.client.pipe import ConnectionLost, Pipe, Target, frame
from jetstream.errors import ApiError, JetStreamError
from jetstream.spark.control import Control
from jetstream.spark.readers import Wanted, read_consumer
from tests.spark.conftest import Server, free_port

pytestmark = [pytest.mark.spark, pytest.mark.long, pytest.mark.timeout(900)]

Make = Callable[..., Any]
HOME = Path(pyspark.__file__).parent
SOURCES = Path(__file__).resolve().parents[2] / "src"
ENVIRONMENT = os.environ | {
    "PYSPARK_PYTHON": sys.executable,
    "PYSPARK_DRIVER_PYTHON": sys.executable,
    "SPARK_LOCAL_IP": "127.0.0.1",
    "SPARK_LOCAL_HOSTNAME": "127.0.0.1",
}

JOB = """\
import sys
from jetstream.spark.session import register, session
url, master, shipped = sys.argv[1:4]
spark = session("cluster", master, quick=True, spark_executor_memory="512m")
if shipped == "zip":
    register(spark)
table = spark.read.format("jetstream").option("servers", url).option("minPartitions", 4).load("IN")
print("COUNT", table.count(), table.selectExpr("sum(seq)").collect()[0][0])
(table.selectExpr("'out.x' AS subject", "data").write.format("jetstream").option("servers", url)
    .option("stream", "OUT").mode("append").save())
print("DONE")
spark.stop()
"""


@pytest.fixture
def filled(a_server: Make) -> Server:
    server: Server = a_server("nats-server")
    control = server.control()
    control.create_stream({"name": "IN", "subjects": ["in.>"], "allow_direct": True})
    control.create_stream({"name": "OUT", "subjects": ["out.>"]})
    with Pipe(control.target) as pipe:
        for at in range(0, 20_000, 1000):
            pipe.send(b"".join(frame(b"in.x", b"row %d" % i) for i in range(at, at + 999)))
            pipe.request("in.x", b"row %d" % (at + 999))
    return server


def _run(command: list[str], **more: Any) -> str:
    told = subprocess.run(
        command,
        env=ENVIRONMENT | more.pop("env", {}),
        capture_output=True,
        text=True,
        timeout=600,
        **more,
    )
    assert told.returncode == 0, told.stdout[-2000:] + told.stderr[-4000:]
    return str(told.stdout)


def _check(server: Server, told: str) -> None:
    assert "COUNT 20000 200010000" in told
    assert server.control().state("OUT").messages == 20_000


def test_local_cluster_with_two_executors(filled: Server, tmp_path: Path) -> None:
    (tmp_path / "job.py").write_text(JOB)
    command = [
        sys.executable,
        str(tmp_path / "job.py"),
        filled.url,
        "local-cluster[2,1,1024]",
        "installed",
    ]
    _check(filled, _run(command))


def test_a_standalone_master_with_two_workers(filled: Server, tmp_path: Path) -> None:
    (tmp_path / "job.py").write_text(JOB)
    port = free_port()
    spark_class = str(HOME / "bin" / "spark-class")
    running: list[subprocess.Popen[bytes]] = []
    log = (tmp_path / "spark.log").open("wb")

    def start(*arguments: str) -> None:
        command = [spark_class, *arguments]
        running.append(subprocess.Popen(command, env=ENVIRONMENT, stdout=log, stderr=log))

    try:
        ui = ("--webui-port", str(free_port()))
        start(
            "org.apache.spark.deploy.master.Master", "--host", "127.0.0.1", "--port", str(port), *ui
        )
        time.sleep(3)
        for i in range(2):
            start(
                "org.apache.spark.deploy.worker.Worker",
                f"spark://127.0.0.1:{port}",
                *("--cores", "1", "--memory", "1g", "--webui-port", str(free_port())),
                *("--work-dir", str(tmp_path / f"w{i}")),
            )
        command = [
            sys.executable,
            str(tmp_path / "job.py"),
            filled.url,
            f"spark://127.0.0.1:{port}",
            "installed",
        ]
        _check(filled, _run(command))
    finally:
        for process in running:
            process.kill()
            process.wait()


def test_the_package_shipped_as_a_zip(filled: Server, tmp_path: Path) -> None:
    """spark-submit --py-files: pure Python in the executors, registered by hand."""
    shipped = tmp_path / "jetstream.zip"
    with zipfile.ZipFile(shipped, "w") as archive:
        for package in (
            "jetstream",
            "pyspark_jetstream",
            "pyspark_jetstream_kv",
            "pyspark_jetstream_object",
        ):
            for path in (SOURCES / package).rglob("*.py"):
                archive.write(path, path.relative_to(SOURCES))
    (tmp_path / "job.py").write_text(JOB)
    command = [
        str(HOME / "bin" / "spark-submit"), "--master", "local-cluster[2,1,1024]",
        "--py-files", str(shipped), str(tmp_path / "job.py"),
        filled.url, "local-cluster[2,1,1024]", "zip",
    ]  # fmt: skip
    _check(filled, _run(command, env={"JETSTREAM_PURE": "1"}))


def test_spark_connect(filled: Server, tmp_path: Path) -> None:
    port = free_port()
    log = (tmp_path / "connect.log").open("wb")
    server = subprocess.Popen(
        [
            str(HOME / "bin" / "spark-submit"), "--master", "local[2]",
            "--class", "org.apache.spark.sql.connect.service.SparkConnectServer",
            "--conf", f"spark.connect.grpc.binding.port={port}",
            "--conf", "spark.connect.grpc.binding.address=127.0.0.1", "spark-internal",
        ],
        env=ENVIRONMENT, stdout=log, stderr=log,
    )  # fmt: skip
    job = (
        "import sys\nfrom pyspark.sql import SparkSession\n"
        "url, remote = sys.argv[1:3]\n"
        "spark = SparkSession.builder.remote(remote).getOrCreate()\n"
        "t = spark.read.format('jetstream').option('servers', url).load('IN')\n"
        "print('COUNT', t.count(), t.selectExpr('sum(seq)').collect()[0][0])\n"
        "t = t.selectExpr(\"'out.x' AS subject\", 'data')\n"
        "t.write.format('jetstream').option('servers', url)"
        ".option('stream', 'OUT').mode('append').save()\n"
    )
    (tmp_path / "job.py").write_text(job)
    try:
        until = time.monotonic() + 120
        while True:
            try:
                import socket

                socket.create_connection(("127.0.0.1", port), 1).close()
                break
            except OSError:
                assert time.monotonic() < until, (tmp_path / "connect.log").read_text()[-2000:]
                time.sleep(0.5)
        told = _run(
            [sys.executable, str(tmp_path / "job.py"), filled.url, f"sc://127.0.0.1:{port}"]
        )
        _check(filled, told)
    finally:
        server.kill()
        server.wait()


@pytest.fixture
def three(tmp_path: Path) -> Iterator[list[Server]]:
    """Three nats-servers that form one cluster."""
    routes = [free_port() for _ in range(3)]
    servers: list[Server] = []
    for i, route in enumerate(routes):
        folder = tmp_path / f"n{i}"
        folder.mkdir()
        others = ",".join(f"nats://127.0.0.1:{r}" for r in routes)
        extra = (
            "-n",
            f"n{i}",
            "--cluster_name",
            "three",
            "--cluster",
            f"nats://127.0.0.1:{route}",
            "--routes",
            others,
        )
        servers.append(Server(folder, *extra))
    for server in servers:
        server.start()
    yield servers
    for server in servers:
        server.kill()


def test_a_replicated_stream_while_a_node_is_killed(
    three: list[Server], spark: Any, tmp_path: Path
) -> None:
    urls = ",".join(s.url for s in three)
    control = Control(Target(servers=tuple(s.url for s in three)), timeout=60)
    until = time.monotonic() + 60
    for name in ("IN", "OUT"):
        while True:
            try:
                subjects = [f"{name.lower()}.>"]
                control.create_stream(
                    {"name": name, "subjects": subjects, "num_replicas": 3, "allow_direct": True}
                )
                break
            except (ApiError, JetStreamError):
                assert time.monotonic() < until
                time.sleep(0.5)
    with Pipe(control.target) as pipe:
        for at in range(0, 20_000, 500):
            pipe.send(b"".join(frame(b"in.x", b"row %d" % i) for i in range(at, at + 499)))
            assert b'"seq"' in pipe.request("in.x", b"row %d" % (at + 499)).payload
    query = (
        spark.readStream.format("jetstream").option("servers", urls)
        .option("maxOffsetsPerTrigger", 2000)
        .option("timeout", "60s").load("IN").selectExpr("'out.x' AS subject", "data")
        .writeStream.format("jetstream").option("servers", urls).option("stream", "OUT")
        .option("timeout", "60s")
        .option("checkpointLocation", str(tmp_path / "cp")).trigger(availableNow=True).start()
    )  # fmt: skip
    while control.state("OUT").messages < 4000:
        time.sleep(0.05)
    leader = control.info("OUT")["cluster"]["leader"]
    three[int(leader[1:])].kill()
    query.awaitTermination(300)
    assert query.exception() is None
    state = control.state("OUT")
    rows = []
    for taken in read_consumer(control, Wanted("OUT", 1, state.last_seq)):
        ends = memoryview(taken[3]).cast("B").cast("i")
        data = bytes(memoryview(taken[4]))
        rows += [data[ends[i] : ends[i + 1]] for i in range(taken[0])]
    assert len(rows) == len(set(rows)) == 20_000


def test_a_connection_that_nobody_takes_says_so() -> None:
    with pytest.raises(ConnectionLost, match="no server reached"):
        Pipe(Target(servers=(f"nats://127.0.0.1:{free_port()}",)))
