"""`jetstream schema`: JSON schemas of what travels, made from our own models."""

import re
from typing import Any

import click
import msgspec

from jetstream.cli.app import make_group
from jetstream.cli.configs import load_file
from jetstream.cli.output import print_json, say, screen, to_json
from jetstream.cli.picking import nearest_hint
from jetstream.cli.problems import Failure
from jetstream.cli.session import connect
from jetstream.errors import ApiError

PREFIX = "io.nats.jetstream.api.v1."

group = make_group(
    "schema",
    "JSON schemas of the API.",
    """
    jetstream schema ls
    jetstream schema info io.nats.jetstream.api.v1.stream_configuration
    """,
)


def models() -> dict[str, type]:
    """Schema id → the class both ends use for it."""
    from jetstream.schema import account, consumer, requests, stream

    short: dict[str, type] = {
        "account_info_response": account.AccountInfo,
        "consumer_configuration": consumer.ConsumerConfig,
        "consumer_create_request": consumer.ConsumerCreateRequest,
        "consumer_create_response": consumer.ConsumerInfo,
        "consumer_info_response": consumer.ConsumerInfo,
        "consumer_getnext_request": consumer.NextRequest,
        "consumer_list_response": consumer.ConsumerList,
        "consumer_names_response": consumer.ConsumerNames,
        "consumer_pause_request": consumer.ConsumerPauseRequest,
        "consumer_pause_response": consumer.ConsumerPauseResponse,
        "consumer_reset_request": consumer.ConsumerResetRequest,
        "consumer_unpin_request": consumer.ConsumerUnpinRequest,
        "pub_ack_response": stream.PubAck,
        "stream_configuration": stream.StreamConfig,
        "stream_create_request": requests.StreamConfigRequest,
        "stream_create_response": stream.StreamInfo,
        "stream_update_request": requests.StreamConfigRequest,
        "stream_info_request": requests.StreamInfoRequest,
        "stream_info_response": stream.StreamInfo,
        "stream_list_response": requests.StreamListPage,
        "stream_msg_delete_request": requests.MsgDeleteRequest,
        "stream_msg_get_request": requests.MsgGetRequest,
        "stream_msg_get_response": requests.MessageAnswer,
        "stream_names_request": requests.StreamNamesRequest,
        "stream_names_response": requests.StreamNamesPage,
        "stream_purge_request": requests.StreamPurgeRequest,
        "stream_purge_response": requests.Purged,
        "stream_restore_request": requests.StreamRestoreRequest,
        "stream_snapshot_request": requests.StreamSnapshotRequest,
    }
    return {PREFIX + name: model for name, model in short.items()}


def model_of(schema_id: str) -> tuple[str, type]:
    known = models()
    full = schema_id if schema_id in known else PREFIX + schema_id
    if full not in known:
        raise Failure(
            f"there is no schema {schema_id!r}",
            nearest_hint(
                schema_id.removeprefix(PREFIX),
                [k.removeprefix(PREFIX) for k in known],
                "jetstream schema ls",
            ),
        )
    return full, known[full]


@group.command(
    "search",
    aliases=["find", "list", "ls"],
    help="List schemas, all or those that match.",
    examples="jetstream schema search stream",
)
@click.argument("pattern", required=False, default="")
def search(pattern: str) -> None:
    wanted = re.compile(pattern)
    found = sorted(name for name in models() if wanted.search(name))
    if screen().json:
        print_json(found)
        return
    for name in found:
        say(name)


@group.command(
    "info",
    aliases=["show", "view"],
    help="Show a schema.",
    examples="jetstream schema info stream_configuration --yaml",
)
@click.argument("schema_id", metavar="ID")
@click.option("--yaml", "as_yaml", is_flag=True, help="as YAML")
def info(schema_id: str, as_yaml: bool) -> None:
    name, model = model_of(schema_id)
    made = {"$id": name, **msgspec.json.schema(model)}
    if as_yaml:
        import yaml

        say(yaml.safe_dump(made, sort_keys=False).rstrip())
    else:
        say(to_json(made))


@group.command(
    "validate",
    aliases=["check"],
    help="Check a file against a schema.",
    examples="jetstream schema validate stream_configuration ORDERS.json",
)
@click.argument("schema_id", metavar="ID")
@click.argument("file")
def validate(schema_id: str, file: str) -> None:
    from jetstream.schema.decoding import decode

    name, model = model_of(schema_id)
    try:
        decode(msgspec.json.encode(load_file(file)), model)
    except ApiError as error:
        raise Failure(f"{file} does not fit {name}: {error.description}") from error
    say(f"{file} is a valid {name}")


@group.command(
    "request",
    aliases=["req"],
    help="Send an API request and check the answer against its schema.",
    examples="jetstream schema request '$JS.API.STREAM.NAMES'",
)
@click.argument("subject")
@click.argument("body", required=False, default="")
async def request(subject: str, body: str) -> None:
    async with connect() as session:
        raw = await session.request(subject, body.encode())
    answer: dict[str, Any] = msgspec.json.decode(raw)
    kind = str(answer.get("type", ""))
    say(to_json(answer))
    known = models()
    if kind in known and not answer.get("error"):
        try:
            msgspec.json.decode(raw, type=known[kind])
            click.echo(f"the answer is a valid {kind}", err=True)
        except msgspec.ValidationError as error:
            raise Failure(f"the answer is not a valid {kind}: {error}") from error
    else:
        click.echo(f"no schema for {kind or 'this answer'}", err=True)
