"""The types of the blocking client follow the async one."""

import subprocess
import sys
from pathlib import Path

import jetstream
from jetstream import sync

ROOT = Path(__file__).parent.parent.parent


def test_the_stub_is_up_to_date() -> None:
    tool = ROOT / "tools" / "gen_sync_stub.py"
    done = subprocess.run([sys.executable, str(tool), "--check"], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


def test_every_name_of_the_blocking_client_is_there() -> None:
    for name in sync.__all__:
        assert getattr(sync, name)


def test_every_public_name_of_the_package_can_be_loaded() -> None:
    for name in dir(jetstream):
        assert getattr(jetstream, name) is not None


def test_importing_the_package_loads_next_to_nothing() -> None:
    code = "import sys, jetstream; print(len([m for m in sys.modules if 'jetstream' in m]))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "1"
