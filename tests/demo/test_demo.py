"""The demo is a test, too: short, without a terminal, and it must prove exactly-once."""

import json
import subprocess
import sys

import pytest


@pytest.mark.spark
@pytest.mark.timeout(420)
def test_the_demo_proves_that_each_order_arrived_once() -> None:
    done = subprocess.run(
        [
            sys.executable,
            "-m",
            "jetstream",
            "demo",
            "--seconds",
            "20",
            "--rate",
            "50",
            "--no-browser",
            "-j",
        ],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=400,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    facts = json.loads(done.stdout)
    assert facts["proof"]["holds"] is True
    assert facts["proof"]["sent"] == facts["proof"]["arrived"] == facts["proof"]["archived"]
    assert facts["spark_starts"] >= 2
    assert facts["open_seconds"] < 5
