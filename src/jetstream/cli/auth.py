"""`jetstream auth nkey`: key pairs for users, accounts and servers."""

import base64
from pathlib import Path

import click

from jetstream.cli.app import make_group
from jetstream.cli.output import say
from jetstream.cli.problems import Failure
from jetstream.security import nkeys

group = make_group("auth", "Keys for users and accounts.", "jetstream auth nkey gen user")
nkey = make_group("nkey", "Key pairs.", "jetstream auth nkey gen user --output user.nk")
group.add_command(nkey)


def _pair(file: Path) -> nkeys.KeyPair:
    lines = [line.strip() for line in file.read_text().splitlines()]
    seed = next((line for line in lines if line.startswith("S")), "")
    if not seed:
        raise Failure(f"{file} holds no seed")
    return nkeys.KeyPair.from_seed(seed)


@nkey.command("gen", help="Make a key pair.", examples="jetstream auth nkey gen user")
@click.argument("kind", type=click.Choice(["user", "account", "server", "cluster", "operator"]))
@click.option("--output", "file", type=click.Path(path_type=Path), help="write the seed here")
def gen(kind: str, file: Path | None) -> None:
    pair = nkeys.KeyPair.create(nkeys.KeyKind[kind.upper()])
    if file is None:
        say(f"{pair.seed}\n{pair.public_key}")
        return
    file.touch(mode=0o600)
    file.write_text(pair.seed + "\n")
    say(pair.public_key)


@nkey.command("show", help="Show the public key.", examples="jetstream auth nkey show user.nk")
@click.argument("key_file", type=click.Path(exists=True, path_type=Path))
def show(key_file: Path) -> None:
    say(_pair(key_file).public_key)


@nkey.command("sign", help="Sign a file.", examples="jetstream auth nkey sign data user.nk")
@click.argument("data_file", type=click.Path(exists=True, path_type=Path))
@click.argument("key_file", type=click.Path(exists=True, path_type=Path))
def sign(data_file: Path, key_file: Path) -> None:
    say(base64.b64encode(_pair(key_file).sign(data_file.read_bytes())).decode())


@nkey.command(
    "verify",
    help="Check a signature.",
    examples="jetstream auth nkey verify data signature UABC…",
)
@click.argument("data_file", type=click.Path(exists=True, path_type=Path))
@click.argument("signature_file", type=click.Path(exists=True, path_type=Path))
@click.argument("public_key")
def verify(data_file: Path, signature_file: Path, public_key: str) -> None:
    signature = base64.b64decode(signature_file.read_text().strip())
    if not nkeys.PublicKey(public_key).verify(data_file.read_bytes(), signature):
        raise Failure("the signature does not fit")
    say("The signature is valid")
