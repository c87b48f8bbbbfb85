"""Every API request, told to those who listen on `$JS.EVENT.ADVISORY.API`."""

from typing import Any, Final

from jetstream.api.route import ApiRequest
from jetstream.schema import advisory
from jetstream.schema.advisory import ApiAudit, ClientInfo
from jetstream.schema.encoding import to_json
from jetstream.schema.times import rfc3339

SUBJECT: Final = "$JS.EVENT.ADVISORY.API"


def audit(engine: Any, js: Any, request: ApiRequest, response: bytes) -> None:
    """Publish who asked what and what was answered, if anybody listens."""
    if not js.host.has_interest(js.name, SUBJECT.encode()):
        return
    told = ApiAudit(
        server=js.host.server_name,
        client=client_info(engine, js, request.client),
        subject=request.subject,
        request=request.payload.decode("utf-8", "replace"),
        response=response.decode("utf-8", "replace"),
    )
    js.advise(SUBJECT, to_json(told), advisory.TYPE + "api_audit")


def client_info(engine: Any, js: Any, client: Any) -> ClientInfo:
    """Who a connection is, as far as it said."""
    server = js.host.server_name
    if client is None:
        return ClientInfo(acc=js.name, server=server, kind="JetStream", client_type="")
    said = getattr(client, "connect", None)
    identity = getattr(client, "identity", None)
    return ClientInfo(
        start=rfc3339(getattr(client, "started_ns", 0)),
        host=getattr(client, "host", ""),
        id=getattr(client, "cid", 0),
        acc=js.name,
        user=getattr(identity, "user", "") or "",
        name=getattr(said, "name", "") or "",
        lang=getattr(said, "lang", "") or "",
        ver=getattr(said, "version", "") or "",
        rtt=getattr(client, "rtt_ns", 0),
        server=server,
        client_type="websocket" if getattr(client, "kind", "") == "WEBSOCKET" else "nats",
    )
