"""The `authorization` block, and users with their permissions wherever they stand."""

from msgspec import Struct

from jetstream.broker.permissions import (
    DEFAULT_RESPONSE_NS,
    DEFAULT_RESPONSES,
    PermissionRules,
    ResponseRule,
    SubjectRules,
)
from jetstream.security.nkeys import KeyKind, is_public
from jetstream.server.conf import Node
from jetstream.server.options import CONNECTION_TYPES, CalloutOptions, Options, UserOptions
from jetstream.server.options_reading import (
    Problem,
    Problems,
    as_block,
    as_bool,
    as_int,
    as_seconds,
    as_text,
    duration_of,
    go_text,
    go_type,
    texts,
)
from jetstream.subjects.tokens import is_valid_subject


class Authorization(Struct):
    """What an `authorization` block says."""

    user: str = ""
    password: str = ""
    token: str = ""
    timeout_ns: int = 0
    users: list[UserOptions] | None = None
    default_permissions: PermissionRules | None = None
    callout: CalloutOptions | None = None


def read_authorization(node: Node, options: Options, problems: Problems) -> None:
    """The top-level block, put into the options."""
    found = _authorization(node, problems)
    options.username, options.password = found.user, found.password
    options.token, options.auth_timeout_ns = found.token, found.timeout_ns
    options.default_permissions = found.default_permissions
    options.callout = found.callout
    if (found.user or found.password) and found.token:
        raise Problem("Cannot have a user/pass and token", node)
    if found.users is None:
        return
    if found.user:
        raise Problem("Can not have a single user/pass and a users array", node)
    if found.token:
        raise Problem("Can not have a token and a users array", node)
    add_users(found.users, options, node)


def add_users(users: list[UserOptions], options: Options, node: Node) -> None:
    """Users have one name space on a server, whatever account they are in."""
    known = {user.name for user in options.users}
    for user in users:
        if user.name in known:
            kind = "nkey" if user.nkey else "user"
            raise Problem(f'Duplicate {kind} "{user.name}" detected', node)
        known.add(user.name)
        options.users.append(user)


def _authorization(node: Node, problems: Problems) -> Authorization:
    found = Authorization()
    for key, value in as_block(node).items():
        with problems.noting(value):
            match key.lower():
                case "user" | "username":
                    found.user = as_text(value)
                case "pass" | "password":
                    found.password = as_text(value)
                case "token":
                    found.token = as_text(value)
                case "timeout":
                    found.timeout_ns = as_seconds(value, "authorization config")
                case "users":
                    found.users = read_users(value, problems)
                case "default_permission" | "default_permissions" | "permissions":
                    found.default_permissions = read_permissions(value, problems)
                case "auth_callout" | "auth_hook":
                    found.callout = _callout(value, problems)
                case "proxy_required":
                    as_bool(value)
                case _:
                    problems.unknown(key, value)
    for user in found.users or ():
        if user.permissions is None:
            user.permissions = found.default_permissions
    return found


def read_simple_authorization(node: Node, problems: Problems) -> Authorization:
    """The block inside `websocket`: one user or a token, no list."""
    found = Authorization()
    for key, value in as_block(node).items():
        with problems.noting(value):
            match key.lower():
                case "user" | "username":
                    found.user = as_text(value)
                case "pass" | "password":
                    found.password = as_text(value)
                case "token":
                    found.token = as_text(value)
                case "timeout":
                    found.timeout_ns = as_seconds(value, "authorization config")
                case _:
                    problems.unknown(key, value)
    return found


def read_users(node: Node, problems: Problems) -> list[UserOptions]:
    if not isinstance(node.value, list):
        raise Problem(f"Expected users field to be an array, got {go_text(node)}", node)
    users = []
    for entry in node.value:
        with problems.noting(entry):
            users.append(_user(entry, problems))
    return users


def _user(node: Node, problems: Problems) -> UserOptions:
    if not isinstance(node.value, dict):
        raise Problem(f"Expected user entry to be a map/struct, got {go_text(node)}", node)
    user = UserOptions()
    last = node
    for key, value in node.value.items():
        last = value
        match key.lower():
            case "nkey":
                user.nkey = as_text(value)
            case "user" | "username":
                user.user = as_text(value)
            case "pass" | "password":
                user.password = as_text(value)
            case "permission" | "permissions" | "authorization":
                with problems.noting(value):
                    user.permissions = read_permissions(value, problems)
            case "allowed_connection_types" | "connection_types" | "clients":
                user.allowed_connection_types = _connection_types(value)
            case "proxy_required":
                user.proxy_required = as_bool(value)
            case _:
                problems.unknown(key, value)
    if user.nkey and not is_public(user.nkey, KeyKind.USER):
        raise Problem("Not a valid public nkey for a user", last)
    if user.nkey and (user.user or user.password):
        raise Problem("Nkey users do not take usernames or passwords", last)
    if not user.name:
        raise Problem("User entry requires a user", last)
    return user


def _connection_types(node: Node) -> tuple[str, ...]:
    found = tuple(text.upper() for text in texts(node))
    wrong = [text for text in found if text not in CONNECTION_TYPES]
    if wrong:
        listed = " ".join(f'"{text}"' for text in wrong)
        raise Problem(f"invalid connection types [{listed}]", node)
    return found


# --- permissions ---


def read_permissions(node: Node, problems: Problems) -> PermissionRules:
    if not isinstance(node.value, dict):
        raise Problem(f"Expected permissions to be a map/struct, got {go_text(node)}", node)
    publish, subscribe = SubjectRules(), SubjectRules()
    responses: ResponseRule | None = None
    for key, value in node.value.items():
        match key.lower():
            case "pub" | "publish" | "import":
                publish = _subject_rules(value, problems, with_queue=False)
            case "sub" | "subscribe" | "export":
                subscribe = _subject_rules(value, problems, with_queue=True)
            case "publish_allow_responses" | "allow_responses":
                responses = _responses(value)
            case _:
                if not value.is_variable:
                    problems.error(f'Unknown field "{key}" parsing permissions', value)
    return PermissionRules(publish, subscribe, responses)


def _subject_rules(node: Node, problems: Problems, *, with_queue: bool) -> SubjectRules:
    if not isinstance(node.value, dict):
        # An empty list says as little as no list.
        return SubjectRules(_subjects(node, None, problems, with_queue=with_queue) or None)
    allow: tuple[str, ...] | None = None
    deny: tuple[str, ...] = ()
    for key, value in node.value.items():
        match key.lower():
            case "allow":
                allow = _subjects(value, value, problems, with_queue=with_queue)
            case "deny":
                deny = _subjects(value, value, problems, with_queue=with_queue)
            case _:
                if not value.is_variable:
                    problems.error(
                        f'Unknown field name "{key}" parsing subject permissions, '
                        "only 'allow' or 'deny' are permitted",
                        value,
                    )
    # An empty list says as little as no list.
    return SubjectRules(allow or None, deny)


def _subjects(
    node: Node, place: Node | None, problems: Problems, *, with_queue: bool
) -> tuple[str, ...]:
    wrong = "Expected subject permissions to be a subject, or array of subjects, got "
    if isinstance(node.value, str):
        found = [node.value]
    elif isinstance(node.value, list):
        for child in node.value:
            if not isinstance(child.value, str):
                problems.error("Subject in permissions array cannot be cast to string", child)
        found = [child.value for child in node.value if isinstance(child.value, str)]
    else:
        problems.error(wrong + go_type(node.value), place)
        return ()
    for text in found:
        subject, _, queue = text.partition(" ") if with_queue else (text, "", "")
        if not is_valid_subject(subject) or (queue and not is_valid_subject(queue)):
            problems.error(f'subject "{text}" is not a valid subject')
    return tuple(found)


def _responses(node: Node) -> ResponseRule | None:
    if isinstance(node.value, bool):
        return ResponseRule() if node.value else None
    if not isinstance(node.value, dict):
        raise Problem("error parsing response permissions, expected a boolean or a map", node)
    max_msgs, expires_ns = DEFAULT_RESPONSES, DEFAULT_RESPONSE_NS
    for key, value in node.value.items():
        match key.lower():
            case "max" | "max_msgs" | "max_messages" | "max_responses":
                # 0 asks for the default, a negative number for no limit.
                max_msgs = as_int(value) or DEFAULT_RESPONSES
            case "expires" | "expiration" | "ttl":
                if not isinstance(value.value, str):
                    raise Problem("error parsing expires, not a duration string", value)
                try:
                    expires_ns = duration_of(value.value) or DEFAULT_RESPONSE_NS
                except ValueError as error:
                    raise Problem(f"error parsing expires: {error}", value) from None
            case _:
                if not value.is_variable:
                    raise Problem(f'Unknown field "{key}" parsing permissions', value)
    return ResponseRule(max_msgs, expires_ns)


# --- auth callout ---


def _callout(node: Node, problems: Problems) -> CalloutOptions:
    if not isinstance(node.value, dict):
        raise Problem(
            f"Expected authorization callout to be a map/struct, got {go_text(node)}", node
        )
    callout = CalloutOptions()
    last = node
    for key, value in node.value.items():
        last = value
        match key.lower():
            case "issuer":
                callout.issuer = as_text(value)
                if not is_public(callout.issuer, KeyKind.ACCOUNT):
                    raise Problem(
                        "Expected callout user to be a valid public account nkey, "
                        f'got "{callout.issuer}"',
                        value,
                    )
            case "account" | "acc":
                callout.account = as_text(value)
            case "auth_users" | "users":
                callout.auth_users = texts(value)
            case "xkey" | "key":
                callout.xkey = as_text(value)
                if not is_public(callout.xkey, KeyKind.CURVE):
                    raise Problem(
                        f'Expected callout xkey to be a valid public xkey, got "{callout.xkey}"',
                        value,
                    )
            case "allowed_accounts":
                callout.allowed_accounts = texts(value)
            case _:
                if not value.is_variable:
                    problems.error(f'Unknown field "{key}" parsing authorization callout', value)
    if not callout.issuer:
        raise Problem("Authorization callouts require an issuer to be specified", last)
    if not callout.auth_users:
        raise Problem("Authorization callouts require authorized users to be specified", last)
    return callout
