"""The accounts of a server: what configuration says, checked and completed.

`check_accounts` proves that imports point at exports that may be imported and form no circle;
`accounts_of` gives the broker the whole set, with the global and the system account.
"""

from collections.abc import Sequence

from jetstream.broker.accounts_spec import (
    GLOBAL_ACCOUNT,
    SYSTEM_ACCOUNT,
    AccountJetStream,
    AccountSpec,
    ExportSpec,
    ImportSpec,
    export_for,
    may_import,
    service_transform,
    stream_transform,
)
from jetstream.errors import JetStreamError
from jetstream.server.options import Options
from jetstream.subjects.match import overlaps
from jetstream.subjects.tokens import is_valid_literal, is_valid_subject
from jetstream.subjects.transform import BadTransform, SubjectTransform


class AccountError(JetStreamError):
    """Accounts that do not fit together."""


def specs_of(options: Options) -> dict[str, AccountSpec]:
    """Every account of a server, by name, wherever it is described."""
    if not options.is_operator_mode:
        return accounts_of(options)
    # Only with tokens to read is there anything to decode.
    from jetstream.server.operator import directory_of

    directory = directory_of(options)
    found = {spec.name: spec for spec in directory.accounts}
    if directory.system_account:
        found.setdefault(directory.system_account, AccountSpec(directory.system_account))
    return found


def accounts_of(options: Options) -> dict[str, AccountSpec]:
    """Every account of a server that is configured by file (not by JWTs), by name."""
    found = {spec.name: spec for spec in options.accounts}
    only_one = not options.accounts
    default = AccountSpec(
        GLOBAL_ACCOUNT,
        mappings=tuple(options.mappings),
        jetstream=AccountJetStream() if _global_has_jetstream(options) else None,
    )
    found[GLOBAL_ACCOUNT] = default
    system = system_account_of(options)
    if system and system not in found:
        if not only_one and system != SYSTEM_ACCOUNT:
            raise AccountError("system_account in config not found")
        found[system] = AccountSpec(system)
    return found


def system_name(options: Options) -> str:
    """The system account's name, wherever it is described; empty if there is none."""
    if not options.is_operator_mode:
        return system_account_of(options)
    from jetstream.server.operator import directory_of

    return directory_of(options).system_account


def system_account_of(options: Options) -> str:
    """The name of the system account; empty if there is none."""
    if options.system_account:
        return options.system_account
    return "" if options.no_system_account else SYSTEM_ACCOUNT


def _global_has_jetstream(options: Options) -> bool:
    """The global account has JetStream as long as it is the only one beside the system's."""
    if not options.jetstream.enabled or options.is_operator_mode:
        return False
    system = system_account_of(options)
    return all(spec.name == system for spec in options.accounts)


def check_accounts(accounts: Sequence[AccountSpec]) -> None:
    """Raise AccountError, in the reference's words, for the first thing that does not fit."""
    known = {spec.name: spec for spec in accounts}
    for spec in accounts:
        for export in spec.exports:
            _check_export(export, known)
    for spec in accounts:
        seen: set[tuple[str, str, str]] = set()
        for wanted in spec.imports:
            _check_import(spec, wanted, known, seen)
    for spec in accounts:
        for wanted in spec.imports:
            if _has_circle(spec.name, wanted, known):
                raise AccountError(
                    f'Error adding {wanted.kind} import "{wanted.subject}": import forms a cycle'
                )


def _check_export(export: ExportSpec, known: dict[str, AccountSpec]) -> None:
    for name in export.accounts or ():
        if name not in known:
            raise AccountError(f'"{name}" account not defined for {export.kind} export')
    position = export.account_token_position
    if position:
        tokens = export.subject.split(".")
        if position > len(tokens) or tokens[position - 1] != "*":
            raise AccountError(
                f'Error adding {export.kind} export "{export.subject}": sublist: invalid subject'
            )
    if export.latency is not None and not is_valid_literal(export.latency.subject):
        raise AccountError(
            f'Error adding service latency sampling for "{export.subject}" on subject '
            f'"{export.latency.subject}": invalid publish subject'
        )


def _check_import(
    spec: AccountSpec,
    wanted: ImportSpec,
    known: dict[str, AccountSpec],
    seen: set[tuple[str, str, str]],
) -> None:
    exporter = known.get(wanted.account)
    if exporter is None:
        raise AccountError(f'"{wanted.account}" account not defined for {wanted.kind} import')
    problem = import_problem(spec.name, wanted, exporter)
    key = (wanted.account, wanted.subject, wanted.to)
    if not problem and wanted.kind == "stream" and key in seen:
        problem = "stream import already exists"
    seen.add(key)
    if problem:
        raise AccountError(f'Error adding {wanted.kind} import "{wanted.subject}": {problem}')


def import_problem(importer: str, wanted: ImportSpec, exporter: AccountSpec) -> str:
    """Why this import cannot be made, or ""."""
    export = export_for(wanted, exporter.exports)
    if export is None or not may_import(export, importer, wanted.subject):
        return f"{wanted.kind} import not authorized"
    if not is_valid_subject(wanted.subject) or not is_valid_subject(wanted.to):
        return "sublist: invalid subject"
    source, destination = (
        stream_transform(wanted) if wanted.kind == "stream" else service_transform(wanted)
    )
    if wanted.to == wanted.subject:
        return ""
    if wanted.kind == "service" and source.count("*") < wanted.subject.split(".").count("*"):
        return (
            f'failed to create mapping transform for service import subject from "{wanted.to}" '
            f'to "{wanted.subject}": invalid mapping destination: not using all of the token '
            f"wildcard(s) in {wanted.to}"
        )
    try:
        SubjectTransform(source, destination)
    except BadTransform as error:
        return (
            f"failed to create mapping transform for {wanted.kind} import subject from "
            f'"{source}" to "{destination}": {error}'
        )
    return ""


def _has_circle(start: str, wanted: ImportSpec, known: dict[str, AccountSpec]) -> bool:
    """Follow imports of the same kind whose subjects touch, back to the start?"""
    trail = [(wanted.account, wanted.subject)]
    visited: set[tuple[str, str]] = set()
    while trail:
        name, subject = trail.pop()
        if (name, subject) in visited or name not in known:
            continue
        visited.add((name, subject))
        for further in known[name].imports:
            if further.kind != wanted.kind or not overlaps(further.to, subject):
                continue
            if further.account == start and overlaps(further.subject, wanted.to):
                return True
            trail.append((further.account, further.subject))
    return False
