"""What a mirror or a source may say: names, filters, transforms, prefixes, cycles."""

from collections.abc import Callable, Sequence

from jetstream.errors import ApiError, Refusal
from jetstream.schema.addresses import API_PREFIX
from jetstream.schema.api_errors import (
    MIRROR_DURABLE_CONSUMER_CFG_INVALID,
    MIRROR_INVALID_STREAM_NAME,
    MIRROR_INVALID_SUBJECT_FILTER,
    MIRROR_INVALID_TRANSFORM_DESTINATION,
    MIRROR_MAX_MESSAGE_SIZE_TOO_BIG,
    MIRROR_MULTIPLE_FILTERS_NOT_ALLOWED,
    MIRROR_OVERLAPPING_SUBJECT_FILTERS,
    MIRROR_WITH_ATOMIC_PUBLISH,
    MIRROR_WITH_BATCH_PUBLISH,
    MIRROR_WITH_COUNTERS,
    MIRROR_WITH_FIRST_SEQ,
    MIRROR_WITH_MSG_SCHEDULES,
    MIRROR_WITH_SOURCES,
    MIRROR_WITH_SUBJECTS,
    PEDANTIC,
    SOURCE_DUPLICATE_DETECTED,
    SOURCE_DURABLE_CONSUMER_CFG_INVALID,
    SOURCE_DURABLE_CONSUMER_DUPLICATE_DETECTED,
    SOURCE_INVALID_STREAM_NAME,
    SOURCE_INVALID_SUBJECT_FILTER,
    SOURCE_INVALID_TRANSFORM_DESTINATION,
    SOURCE_MAX_MESSAGE_SIZE_TOO_BIG,
    SOURCE_MULTIPLE_FILTERS_NOT_ALLOWED,
    SOURCE_OVERLAPPING_SUBJECT_FILTERS,
    SOURCE_WITH_MSG_SCHEDULES,
    STREAM_CREATE,
    STREAM_EXTERNAL_API_OVERLAP,
    STREAM_EXTERNAL_DEL_PREFIX_OVERLAPS,
    STREAM_INVALID_CONFIG,
    STREAM_INVALID_EXTERNAL_DELIVERY_SUBJ,
)
from jetstream.schema.stream import ExternalStream, StreamConfig, StreamSource, SubjectTransform
from jetstream.subjects import transform
from jetstream.subjects.match import is_subset, overlaps
from jetstream.subjects.tokens import is_valid_literal, is_valid_name, is_valid_subject

Lookup = Callable[[str], StreamConfig | None]


def check_mirror(config: StreamConfig, lookup: Lookup, pedantic: bool) -> None:
    mirror = config.mirror
    assert mirror is not None
    for wrong, refusal in (
        (config.first_seq > 0, MIRROR_WITH_FIRST_SEQ),
        (bool(config.subjects), MIRROR_WITH_SUBJECTS),
        (bool(config.sources), MIRROR_WITH_SOURCES),
        (config.allow_msg_counter, MIRROR_WITH_COUNTERS),
        (config.allow_atomic, MIRROR_WITH_ATOMIC_PUBLISH),
        (config.allow_batched, MIRROR_WITH_BATCH_PUBLISH),
        (config.allow_msg_schedules, MIRROR_WITH_MSG_SCHEDULES),
    ):
        if wrong:
            raise ApiError(refusal)
    if config.subject_delete_marker_ttl:
        raise ApiError(STREAM_INVALID_CONFIG, err="subject delete markers forbidden on mirrors")
    if mirror.filter_subject and mirror.subject_transforms:
        raise ApiError(MIRROR_MULTIPLE_FILTERS_NOT_ALLOWED)
    _check_transforms(
        mirror.subject_transforms,
        MIRROR_INVALID_SUBJECT_FILTER,
        MIRROR_INVALID_TRANSFORM_DESTINATION,
        MIRROR_OVERLAPPING_SUBJECT_FILTERS,
    )
    _check_consumer(mirror, MIRROR_DURABLE_CONSUMER_CFG_INVALID)
    if mirror.filter_subject and not is_valid_subject(mirror.filter_subject):
        text = f"subject filter '{mirror.filter_subject}' for the mirror invalid subject"
        raise ApiError(STREAM_CREATE, err=text)
    if mirror.external is not None:
        _check_external(mirror.external, [])
        return
    if not is_valid_name(mirror.name):
        raise ApiError(MIRROR_INVALID_STREAM_NAME)
    origin = lookup(mirror.name)
    if origin is not None:
        if 0 < config.max_msg_size < origin.max_msg_size:
            raise ApiError(MIRROR_MAX_MESSAGE_SIZE_TOO_BIG)
        if pedantic and config.mirror_direct != origin.allow_direct:
            raise ApiError(PEDANTIC, err="origin stream has direct get set, mirror has it disabled")
        config.mirror_direct = origin.allow_direct


def check_sources(config: StreamConfig, lookup: Lookup) -> None:
    if config.allow_msg_schedules:
        raise ApiError(SOURCE_WITH_MSG_SCHEDULES)
    seen: set[tuple[object, ...]] = set()
    origin_subjects: list[str] = []
    for source in config.sources:
        if not is_valid_name(source.name):
            raise ApiError(SOURCE_INVALID_STREAM_NAME)
        identity = source_identity(source)
        if identity in seen:
            raise ApiError(SOURCE_DUPLICATE_DETECTED)
        seen.add(identity)
        if source.filter_subject and source.subject_transforms:
            raise ApiError(SOURCE_MULTIPLE_FILTERS_NOT_ALLOWED)
        _check_transforms(
            source.subject_transforms,
            SOURCE_INVALID_SUBJECT_FILTER,
            SOURCE_INVALID_TRANSFORM_DESTINATION,
            SOURCE_OVERLAPPING_SUBJECT_FILTERS,
        )
        _check_consumer(source, SOURCE_DURABLE_CONSUMER_CFG_INVALID)
        if source.external is None:
            origin = lookup(source.name)
            if origin is not None:
                origin_subjects += origin.subjects
                if 0 < config.max_msg_size < origin.max_msg_size:
                    raise ApiError(SOURCE_MAX_MESSAGE_SIZE_TOO_BIG)
    for source in config.sources:
        if source.external is not None:
            _check_external(source.external, origin_subjects)


def check_prepared_consumers(config: StreamConfig) -> None:
    """No two sources may read from one prepared consumer."""
    names = [source.consumer.name for source in config.sources if source.consumer is not None]
    if len(names) != len(set(names)):
        raise ApiError(SOURCE_DURABLE_CONSUMER_DUPLICATE_DETECTED)


def source_identity(source: StreamSource) -> tuple[object, ...]:
    """What makes two sources of one stream different feeds."""
    api = source.external.api if source.external else ""
    changes = tuple((t.src, t.dest) for t in source.subject_transforms)
    return (source.name, api, source.filter_subject, changes)


def _check_transforms(
    changes: Sequence[SubjectTransform], bad_source: Refusal, bad_dest: Refusal, overlap: Refusal
) -> None:
    for i, change in enumerate(changes):
        if change.src and not is_valid_subject(change.src):
            raise ApiError(bad_source, err=f"invalid subject {change.src}")
        try:
            transform.check_mapping(change.src, change.dest)
        except transform.BadTransform as error:
            raise ApiError(bad_dest, err=str(error)) from None
        for j, other in enumerate(changes):
            if i != j and is_subset(change.src or ">", other.src or ">"):
                raise ApiError(overlap)


def _check_consumer(source: StreamSource, refusal: Refusal) -> None:
    prepared = source.consumer
    if prepared is None:
        return
    if (
        not is_valid_name(prepared.name)
        or not is_valid_literal(prepared.deliver_subject)
        or source.opt_start_seq
        or source.opt_start_time
        or source.filter_subject
    ):
        raise ApiError(refusal)


def _check_external(external: ExternalStream, origin_subjects: Sequence[str]) -> None:
    deliver, api = external.deliver, external.api
    if deliver:
        if not is_valid_literal(deliver):
            raise ApiError(STREAM_INVALID_EXTERNAL_DELIVERY_SUBJ, prefix=deliver)
        for subject in origin_subjects:
            if overlaps(subject, f"{deliver}.{subject}"):
                raise ApiError(STREAM_EXTERNAL_DEL_PREFIX_OVERLAPS, prefix=deliver, subject=subject)
    if api:
        if not is_valid_literal(api):
            text = f'stream external api prefix "{api}" must be a valid subject without wildcards'
            raise ApiError(STREAM_INVALID_CONFIG, err=text)
        if overlaps(api, API_PREFIX):
            raise ApiError(STREAM_EXTERNAL_API_OVERLAP, prefix=api, subject=API_PREFIX)


def check_cycles(config: StreamConfig, lookup: Lookup) -> None:
    """Refuse sources or mirrors that would feed a stream from itself."""
    to_visit = [config]
    visited: set[str] = set()
    while to_visit:
        here = to_visit.pop(0)
        visited.add(here.name)
        for source in here.sources:
            if source.external is not None:
                continue
            if source.name in visited:
                if _flows_back(here, source):
                    raise ApiError(STREAM_INVALID_CONFIG, err="detected cycle")
            elif (origin := lookup(source.name)) is not None:
                to_visit.append(origin)
        mirror = here.mirror
        if mirror is not None and mirror.external is None:
            if mirror.name in visited:
                raise ApiError(STREAM_INVALID_CONFIG, err="detected cycle")
            origin = lookup(mirror.name)
            if origin is not None:
                to_visit.append(origin)


def _flows_back(config: StreamConfig, source: StreamSource) -> bool:
    filters = [source.filter_subject, *(t.src for t in source.subject_transforms)]
    wanted = [f for f in filters if f]
    if not wanted:
        return True
    return any(overlaps(subject, f) for subject in config.subjects for f in wanted)
