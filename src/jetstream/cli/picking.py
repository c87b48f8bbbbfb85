"""Which stream, consumer or bucket is meant, when the command line does not say.

One candidate is taken as it is; several are offered as a list on a terminal. A name that does not
exist is answered with the nearest ones.
"""

from collections.abc import Iterable

from jetstream.cli.problems import Failure
from jetstream.cli.prompts import choose, interactive
from jetstream.cli.session import Json, Session, is_internal
from jetstream.errors import ApiError

STREAM_NOT_FOUND = 10059
CONSUMER_NOT_FOUND = 10014


async def pick_stream(
    session: Session, name: str | None, *, all: bool = False, select: bool = True
) -> str:
    """The name given, or one chosen from those that exist."""
    if name:
        return name
    names = [n for n in await session.stream_names() if all or not is_internal(n)]
    if not names:
        raise Failure(
            "could not pick a Stream to operate on: no Streams are defined",
            "`jetstream stream add NAME --subjects 'name.>'` makes one",
        )
    if not select or not interactive():
        raise Failure(
            "could not pick a Stream to operate on: no name was given",
            f"there are {', '.join(names[:8])}{' …' if len(names) > 8 else ''}",
            2,
        )
    return await choose("Select a Stream", names, flag="the STREAM argument")


async def pick_consumer(
    session: Session, stream: str, name: str | None, *, select: bool = True
) -> str:
    if name:
        return name
    names = await session.consumer_names(stream)
    if not names:
        raise Failure(
            f"could not pick a Consumer to operate on: no Consumers are defined on {stream}",
            f"`jetstream consumer add {stream} NAME --pull --defaults` makes one",
        )
    if not select or not interactive():
        raise Failure(
            "could not pick a Consumer to operate on: no name was given",
            f"there are {', '.join(names[:8])}",
            2,
        )
    return await choose("Select a Consumer", names, flag="the CONSUMER argument")


async def stream_info(
    session: Session, name: str, *, deleted: bool = False, subjects: str = ""
) -> Json:
    """A stream's info; an unknown name is answered with the nearest ones."""
    try:
        return await session.stream_info(name, deleted=deleted, subjects=subjects)
    except ApiError as error:
        if error.err_code == STREAM_NOT_FOUND:
            error.hint = nearest_hint(name, await session.stream_names(), "jetstream stream ls")
        raise


async def consumer_info(session: Session, stream: str, name: str) -> Json:
    try:
        return await session.consumer_info(stream, name)
    except ApiError as error:
        if error.err_code == CONSUMER_NOT_FOUND:
            names = await session.consumer_names(stream)
            error.hint = nearest_hint(name, names, f"jetstream consumer ls {stream}")
        elif error.err_code == STREAM_NOT_FOUND:
            error.hint = nearest_hint(stream, await session.stream_names(), "jetstream stream ls")
        raise


def nearest_hint(name: str, known: Iterable[str], listing: str) -> str:
    """`did you mean ORDERS?`, by spelling."""
    import difflib

    by_lower = {each.lower(): each for each in known}
    close = difflib.get_close_matches(name.lower(), list(by_lower), n=3, cutoff=0.5)
    if close:
        return f"did you mean {' or '.join(by_lower[c] for c in close)}? `{listing}` lists all"
    return f"`{listing}` lists what there is" if by_lower else "none is defined yet"


async def overlap_hint(session: Session, subjects: Iterable[str], besides: str = "") -> str | None:
    """Which streams own subjects that a new configuration wants."""
    owners: dict[str, str] = {}
    for subject in subjects:
        for owner in await session.stream_names(subject):
            if owner != besides:
                owners[subject] = owner
    if not owners:
        return None
    return "; ".join(f"{subject} belongs to stream {owner}" for subject, owner in owners.items())
