"""What a connection may publish and subscribe to.

`PermissionRules` is what the configuration or a JWT says; `Permissions` is one connection's own
compiled copy. It answers the broker's questions out of a cache, because a connection asks about
the same few subjects all the time, and it remembers which replies it may still send.

    publish     allowed if (no allow list, or an entry matches) and no deny entry matches
    subscribe   allowed if covered by an allow entry and not covered by a deny entry; a subscription
                wider than a deny entry is taken, and the denied messages are filtered at delivery
    responses   a subject that came in as a reply may be published to, a few times, for a while
"""

from collections.abc import Iterable, Sequence

from msgspec import Struct

from jetstream.subjects.match import is_subset, matches, overlaps

CACHE_MAX = 512
REPLIES_MAX = 4096
DEFAULT_RESPONSES = 1
DEFAULT_RESPONSE_NS = 120_000_000_000


class ResponseRule(Struct, frozen=True):
    """How often and how long a reply subject may be used; negative is unlimited."""

    max_msgs: int = DEFAULT_RESPONSES
    expires_ns: int = DEFAULT_RESPONSE_NS


class SubjectRules(Struct, frozen=True):
    """Allow and deny lists. `allow` None means everything, an empty tuple nothing."""

    allow: tuple[str, ...] | None = None
    deny: tuple[str, ...] = ()


class PermissionRules(Struct, frozen=True):
    """The permissions of a user as configured."""

    publish: SubjectRules = SubjectRules()
    subscribe: SubjectRules = SubjectRules()
    responses: ResponseRule | None = None

    @property
    def is_open(self) -> bool:
        """True if these rules forbid nothing."""
        nothing = SubjectRules()
        return self.publish == nothing and self.subscribe == nothing and self.responses is None


class _Entry(Struct, frozen=True, gc=False):
    subject: bytes
    queue: bytes


def _entries(texts: Iterable[str]) -> list[_Entry]:
    """`"subject"` or `"subject queue"`."""
    found = []
    for text in texts:
        subject, _, queue = text.partition(" ")
        found.append(_Entry(subject.encode(), queue.strip().encode()))
    return found


class Permissions:
    """The compiled permissions of one connection."""

    __slots__ = (
        "_pub_allow",
        "_pub_cache",
        "_pub_deny",
        "_replies",
        "_sub_allow",
        "_sub_deny",
        "has_delivery_filter",
        "responses",
        "rules",
    )

    def __init__(self, rules: PermissionRules) -> None:
        self.rules = rules
        allow = rules.publish.allow
        if rules.responses is not None and allow is None:
            allow = ()  # nothing but responses
        self._pub_allow = None if allow is None else [s.encode() for s in allow]
        self._pub_deny = [s.encode() for s in rules.publish.deny]
        subscribe = rules.subscribe
        self._sub_allow = None if subscribe.allow is None else _entries(subscribe.allow)
        self._sub_deny = _entries(subscribe.deny)
        self.responses = rules.responses
        self.has_delivery_filter = any(not entry.queue for entry in self._sub_deny)
        self._pub_cache: dict[bytes, bool] = {}
        self._replies: dict[bytes, list[int]] = {}

    # --- publishing ---

    def can_publish(self, subject: bytes, now: int = 0) -> bool:
        """True if publishing here is allowed; uses up a response permission if it needs one."""
        allowed = self._pub_cache.get(subject)
        if allowed is None:
            allowed = self._is_publish_allowed(subject)
            if len(self._pub_cache) >= CACHE_MAX:
                self._pub_cache.clear()
            self._pub_cache[subject] = allowed
        return allowed or (bool(self._replies) and self._take_reply(subject, now))

    def _is_publish_allowed(self, subject: bytes) -> bool:
        if self._pub_allow is not None and not _any(self._pub_allow, subject):
            return False
        return not _any(self._pub_deny, subject)

    # --- responses ---

    def note_reply(self, reply: bytes, now: int) -> None:
        """A message with this reply subject was delivered to the connection."""
        rule = self.responses
        if rule is None or not reply:
            return
        if len(self._replies) >= REPLIES_MAX:
            self._prune(now)
        expires = now + rule.expires_ns if rule.expires_ns >= 0 else 0
        left = rule.max_msgs if rule.max_msgs >= 0 else -1
        self._replies.pop(reply, None)
        self._replies[reply] = [left, expires]

    def _take_reply(self, subject: bytes, now: int) -> bool:
        entry = self._replies.get(subject)
        if entry is None:
            return False
        left, expires = entry
        if expires and now > expires:
            del self._replies[subject]
            return False
        if left < 0:
            return True
        if left <= 1:
            del self._replies[subject]
        else:
            entry[0] = left - 1
        return left > 0

    def _prune(self, now: int) -> None:
        gone = [reply for reply, (_, expires) in self._replies.items() if expires and now > expires]
        for reply in gone:
            del self._replies[reply]
        # Still full: forget the oldest; insertion order is age.
        while len(self._replies) >= REPLIES_MAX:
            del self._replies[next(iter(self._replies))]

    # --- subscribing ---

    def can_subscribe(self, subject: bytes, queue: bytes | None = None) -> bool:
        """True if the connection may subscribe to `subject` (in queue group `queue`)."""
        if self._sub_allow is not None and not self._is_subscribe_allowed(subject, queue):
            return False
        return not self._is_subscribe_denied(subject, queue)

    def _is_subscribe_allowed(self, subject: bytes, queue: bytes | None) -> bool:
        assert self._sub_allow is not None
        covering = [entry for entry in self._sub_allow if is_subset(subject, entry.subject)]
        if not queue:
            return any(not entry.queue for entry in covering)
        # Without a queue entry any queue will do; with one, the queue has to match it.
        queues = [entry.queue for entry in covering if entry.queue]
        if any(not entry.queue for entry in covering) and not queues:
            return True
        return any(matches(wanted, queue) for wanted in queues)

    def _is_subscribe_denied(self, subject: bytes, queue: bytes | None) -> bool:
        for entry in self._sub_deny:
            if not is_subset(subject, entry.subject):
                continue
            if not entry.queue or (queue and matches(entry.queue, queue)):
                return True
        return False

    # --- delivering ---

    def needs_filter(self, subject: bytes) -> bool:
        """True if a subscription to `subject` is wider than some deny entry."""
        return self.has_delivery_filter and any(
            not entry.queue and overlaps(subject, entry.subject) for entry in self._sub_deny
        )

    def denies_delivery(self, subject: bytes) -> bool:
        """True if a message on this literal subject must not reach the connection."""
        return any(not entry.queue and matches(entry.subject, subject) for entry in self._sub_deny)


def _any(patterns: Sequence[bytes], subject: bytes) -> bool:
    return any(matches(pattern, subject) for pattern in patterns)
