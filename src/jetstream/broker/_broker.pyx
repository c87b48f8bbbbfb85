# cython: language_level=3
"""Who gets a message, for a whole batch of them at once.

    Batch ──► walk ──► Route (from the cache) ──► straight into the outboxes of the receivers
                 │
                 ├─► runs of messages that one stream captures   → sink.capture(client, batch, i, j)
                 ├─► runs of acknowledgements                    → account.on_acks(client, batch, i, j)
                 ├─► runs of direct gets                         → account.on_direct_gets(…)
                 └─► everything that is not a publish            → client.on_operation(kind, batch, i)

The kernel moves bytes; what a stream, an API or a permission decides is asked in Python, once per
run where it can be. A Route is remembered per subject and forgotten when a subscription that
concerns it comes or goes.
"""

from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_FromStringAndSize, PyBytes_GET_SIZE
from libc.stdint cimport int64_t, uint32_t, uint64_t
from libc.stdlib cimport free, malloc
from libc.string cimport memcmp, memcpy

from jetstream.subjects._tree cimport Found, SubjectTree
from jetstream.wire._outbox cimport Outbox, put_number
from jetstream.wire._parser cimport Batch

from jetstream.subjects.match import matches
from jetstream.subjects.tokens import has_wildcard

cdef enum:
    K_PUB = 1
    K_HPUB = 2
    ROUTES_MAX = 16384
    SCAN_MAX = 256
    # A publisher that is so far ahead of a reader gives it a moment.
    AHEAD_MAX = 8388608

cdef enum:
    # Messages that JetStream takes in runs, past the ordinary routes.
    ORDINARY = 0
    ACKS = 1
    DIRECT_GETS = 2

cdef uint64_t DEFAULT_PENDING = 64 * 1024 * 1024


cdef inline bint _starts(const char* p, size_t n, const char* word, size_t length) noexcept nogil:
    return n >= length and memcmp(p, word, length) == 0


cdef inline bint _is_gateway(const char* p, size_t n) noexcept nogil:
    return (n > 5 and _starts(p, n, b"_GR_.", 5)) or (n > 4 and _starts(p, n, b"$GR.", 4))


cdef inline bint _is_server_subject(const char* p, size_t n) noexcept nogil:
    """Subjects that only servers publish to, among themselves."""
    return _starts(p, n, b"$NRG.", 5) or _is_gateway(p, n)


cdef inline bint _is_server_reply(const char* p, size_t n) noexcept nogil:
    return (
        _starts(p, n, b"_R_.", 4)
        or (n > 8 and _starts(p, n, b"$JS.ACK.", 8))
        or _is_gateway(p, n)
    )


cdef inline bint _is_reserved(Message* m) noexcept nogil:
    return _is_server_subject(m.subject, m.subject_len) or (
        m.reply_len != 0 and _is_server_reply(m.reply, m.reply_len)
    )


cdef inline int _special_kind(Message* m) noexcept nogil:
    if m.subject_len < 9 or memcmp(m.subject, b"$JS.A", 5) != 0:
        return ORDINARY
    if memcmp(m.subject, b"$JS.ACK.", 8) == 0:
        return ACKS
    if m.subject_len > 19 and m.reply_len and memcmp(m.subject, b"$JS.API.DIRECT.GET.", 19) == 0:
        return DIRECT_GETS
    return ORDINARY


cdef class Subscription:
    """One wish to receive."""

    def __init__(self, Client client, Account account, bytes subject, bytes queue=None, bytes sid=b""):
        self.client = client
        self.account = account
        self.subject = subject
        self.queue = queue
        self.sid = sid

    def __repr__(self):
        return f"Subscription({self.subject!r}, queue={self.queue!r}, sid={self.sid!r})"


cdef class Client:
    """What the broker knows of a connection. The server's Connection is one."""

    def __init__(self):
        self.outbox = Outbox()
        self.subscriptions = {}
        self.echo = True
        self.verbose = True
        self.pedantic = True
        self.pending_max = DEFAULT_PENDING

    def on_operation(self, int kind, Batch batch, Py_ssize_t i):
        """Everything but publishing; returns True when the walk has to stop here."""
        raise NotImplementedError

    def refuse_publish(self, bytes subject, bytes reply):
        """Publishing there is not permitted."""
        raise NotImplementedError

    def bad_publish_subject(self, bytes subject):
        """Pedantic mode: the subject of a publish is not a valid literal."""

    def put(self, bytes data):
        """Queue raw protocol bytes."""
        self.outbox.append(data)


cdef class Account:
    """A world of subjects of its own."""

    def __init__(self, str name):
        self.name = name
        self.tree = SubjectTree()
        self.routes = {}
        self.clients = set()

    def subscribe(self, Subscription sub):
        self.tree.insert(sub.subject, sub, sub.queue)
        self._forget(sub.subject)
        if sub.client is not None and sub.subject[:1] in b"$>*":
            self.watched = True
        if self.on_interest is not None:
            self.on_interest(sub, True)

    def unsubscribe(self, Subscription sub):
        if self.tree.remove(sub.subject, sub, sub.queue):
            self._forget(sub.subject)
            if self.on_interest is not None:
                self.on_interest(sub, False)

    def _forget(self, bytes pattern):
        """Routes that this pattern concerns are no longer right."""
        cdef dict routes = self.routes
        if not routes:
            return
        if not has_wildcard(pattern):
            routes.pop(pattern, None)
        elif len(routes) > SCAN_MAX:
            self.routes = {}
        else:
            for subject in [one for one in routes if matches(pattern, one)]:
                del routes[subject]

    def forget_routes(self):
        self.routes = {}

    cdef Route route(self, const char* p, Py_ssize_t n, bint remember):
        cdef bytes subject = None
        cdef Route route
        cdef Found found
        cdef Subscription sub
        if remember:
            subject = PyBytes_FromStringAndSize(p, n)
            route = <Route>self.routes.get(subject)
            if route is not None:
                return route
        elif self.tree.same_front(p, n) and self._front_prefix is self.tree.front_prefix:
            # Another inbox subject under the same prefix, where only wildcards listen.
            return self._front_route
        found = self.tree.match_raw(p, n)
        route = Route()
        if found.plain:
            route.plain = []
            for sub in found.plain:
                if sub.client is not None:
                    route.plain.append(sub)
                elif sub.sink is not None:
                    route.sink = sub.sink
                else:
                    if route.handlers is None:
                        route.handlers = []
                    route.handlers.append(sub)
            if not route.plain:
                route.plain = None
        if found.groups:
            route.groups = found.groups
        route.nobody = (
            route.plain is None and route.groups is None and route.handlers is None and route.sink is None
        )
        if not remember:
            if self.tree.same_front(p, n):
                self._front_prefix = self.tree.front_prefix
                self._front_route = route
        else:
            if len(self.routes) >= ROUTES_MAX:
                self.routes = {}
            self.routes[subject] = route
        return route

    def has_interest(self, bytes subject, bytes queue=None):
        """Is a client (or one of the server's own) listening, in that queue group if one is named?"""
        cdef Found found = self.tree.match(subject)
        if queue:
            return queue in found.by_queue()
        return bool(found.plain or found.groups)


cdef class Route:
    """Where a subject leads to, as of the last change that concerned it."""


cdef class Broker:
    """Carries messages between the clients of a server."""

    def __init__(self, uint64_t seed=88172645463325252):
        self.dirty = []
        self._ended = []
        self._chance = seed or 1
        self.now = int  # nobody has handed in a clock yet: it is always 0
        self._sinks = []
        self._sink_numbers = {}

    def take_dirty(self):
        """The connections with something to send, each once."""
        cdef list dirty = self.dirty
        cdef Client client
        self.dirty = []
        for client in dirty:
            client.dirty = False
        return dirty

    cdef int _mark(self, Client client) except -1:
        if not client.dirty:
            client.dirty = True
            if not self.dirty and self.wake is not None:
                self.wake()
            self.dirty.append(client)
        return 0

    def mark(self, Client client):
        """This connection has something to send."""
        self._mark(client)

    # --- one receiver ---------------------------------------------------------------------------

    cdef int send(self, Subscription sub, Client origin, Message* m) except -1:
        """Encode for one subscription; 1 if it was taken."""
        cdef Client client = sub.client
        cdef Subscription counted = sub
        cdef char* p
        cdef char* start
        cdef size_t sid_len
        cdef const char* subject = m.subject
        cdef size_t subject_len = m.subject_len
        cdef size_t body, waiting
        cdef bytes renamed
        if sub.closed or client.gone or (client is origin and not client.echo):
            return 0
        if sub.rename is not None:
            renamed = sub.rename(
                PyBytes_FromStringAndSize(m.subject, m.subject_len) if self._to is None else self._to
            )
            if renamed is None:
                return 0
            if self._to is None:
                subject = PyBytes_AS_STRING(renamed)
                subject_len = PyBytes_GET_SIZE(renamed)
        if sub.filtered and client.permissions.denies_delivery(
            PyBytes_FromStringAndSize(subject, subject_len)
        ):
            return 0
        if sub.parent is not None:
            counted = sub.parent
        if counted.limit > 0 and counted.delivered >= counted.limit:
            return 0
        sid_len = PyBytes_GET_SIZE(sub.sid)
        body = m.payload_len + (m.headers_len if client.headers else 0)
        waiting = client.outbox.waiting()
        if waiting + client.in_transport + body > client.pending_max:
            if not client.overflowing:
                client.overflowing = True
                if self.on_overflow is not None:
                    self.on_overflow(client)
            return 0
        counted.delivered += 1
        start = client.outbox.reserve(subject_len + sid_len + m.reply_len + body + 64)
        p = start
        if m.headers_len and client.headers:
            p[0] = c'H'
            p += 1
        memcpy(p, b"MSG ", 4)
        p += 4
        memcpy(p, subject, subject_len)
        p += subject_len
        p[0] = c' '
        p += 1
        memcpy(p, PyBytes_AS_STRING(sub.sid), sid_len)
        p += sid_len
        p[0] = c' '
        p += 1
        if m.reply_len:
            memcpy(p, m.reply, m.reply_len)
            p += m.reply_len
            p[0] = c' '
            p += 1
        if m.headers_len and client.headers:
            p += put_number(p, m.headers_len)
            p[0] = c' '
            p += 1
        p += put_number(p, body)
        p[0] = c'\r'
        p[1] = c'\n'
        p += 2
        if m.headers_len and client.headers:
            memcpy(p, m.headers, m.headers_len)
            p += m.headers_len
        if m.payload_len:
            memcpy(p, m.payload, m.payload_len)
            p += m.payload_len
        p[0] = c'\r'
        p[1] = c'\n'
        p += 2
        client.outbox.size += p - start
        client.out_msgs += 1
        client.out_bytes += body
        self.out_msgs += 1
        self.out_bytes += body
        if client.tracks_replies and m.reply_len:
            client.permissions.note_reply(PyBytes_FromStringAndSize(m.reply, m.reply_len), self.now())
        if waiting > AHEAD_MAX and origin is not None:
            if waiting > client.pending_max // 4 * 3:
                origin.stalled = True
            elif client.draining:
                origin.waits_for = client
        if not client.dirty:
            self._mark(client)
        if counted.limit > 0 and counted.delivered >= counted.limit:
            self._ended.append(counted)
        return 1

    cdef int _one_of(self, list group, Client origin, Message* m) except -1:
        """One member, by chance; another one if that one does not take it."""
        cdef Py_ssize_t n = len(group), i, first
        cdef Subscription sub
        self._chance ^= self._chance << 13
        self._chance ^= self._chance >> 7
        self._chance ^= self._chance << 17
        first = <Py_ssize_t>(self._chance % <uint64_t>n) if n > 1 else 0
        for i in range(n):
            sub = <Subscription>group[(first + i) % n]
            if sub.client is None:
                self._handle(sub, origin, m)
                return 1
            if self.send(sub, origin, m):
                return 1
        return 0

    cdef int deliver(self, Route route, Client origin, Message* m) except -1:
        """To every plain subscription and one of each group; how many took it. Not to streams."""
        cdef Subscription sub
        cdef list group
        cdef int taken = 0
        if route.plain is not None:
            for sub in route.plain:
                taken += self.send(sub, origin, m)
        if route.groups is not None:
            for group in route.groups:
                taken += self._one_of(group, origin, m)
        if route.handlers is not None:
            for sub in route.handlers:
                taken += self._handle(sub, origin, m)
        if self._ended:
            self._end_finished()
        return taken

    cdef int _copy_to_clients(self, Route route, Client origin, Message* m) except -1:
        """To those who listen in; JetStream itself gets the message in its run."""
        cdef Subscription sub
        cdef list group
        if route.plain is not None:
            for sub in route.plain:
                self.send(sub, origin, m)
        if route.groups is not None:
            for group in route.groups:
                self._one_of(group, origin, m)
        if self._ended:
            self._end_finished()
        return 0

    cdef int deliver_as(self, Route route, bytes to, Client origin, Message* m) except -1:
        """To those who listen to `to`, although the message has another subject."""
        cdef bytes before = self._to
        self._to = to
        try:
            return self.deliver(route, origin, m)
        finally:
            self._to = before

    cdef int _end_finished(self) except -1:
        cdef list ended = self._ended
        cdef Subscription sub
        self._ended = []
        for sub in ended:
            self.drop(sub)
        return 0

    def drop(self, Subscription sub):
        """End a subscription of a client."""
        if sub.closed:
            return
        sub.closed = True
        if sub.client is not None:
            sub.client.subscriptions.pop(sub.sid, None)
        sub.account.unsubscribe(sub)
        if sub.shadows:
            for shadow in sub.shadows:
                (<Subscription>shadow).closed = True
                (<Subscription>shadow).account.unsubscribe(shadow)

    # --- from inside ----------------------------------------------------------------------------

    def publish(self, Account account, bytes subject, bytes payload, bytes reply=b"", bytes headers=b"",
                Client origin=None, bint capture=True, bytes shown=None):
        """Publish one message from inside; how many took it (a stream counts).

        It goes to those who listen to `subject`; what they see is `shown`, if that is given.
        """
        cdef Message m
        cdef Route route
        cdef int taken, kind
        m.subject = PyBytes_AS_STRING(subject)
        m.subject_len = PyBytes_GET_SIZE(subject)
        m.reply = PyBytes_AS_STRING(reply)
        m.reply_len = PyBytes_GET_SIZE(reply)
        m.headers = PyBytes_AS_STRING(headers)
        m.headers_len = PyBytes_GET_SIZE(headers)
        m.payload = PyBytes_AS_STRING(payload)
        m.payload_len = PyBytes_GET_SIZE(payload)
        kind = _special_kind(&m) if account.on_acks is not None else ORDINARY
        if kind != ORDINARY:
            self._special(account, kind, origin, Batch.of([(subject, reply, headers, payload)]), 0, 1)
            return 1
        route = account.route(m.subject, m.subject_len, False)
        if route.nobody:
            return 0
        if shown is None:
            taken = self.deliver(route, origin, &m)
        else:
            m.subject = PyBytes_AS_STRING(shown)
            m.subject_len = PyBytes_GET_SIZE(shown)
            taken = self.deliver_as(route, subject, origin, &m)
        if capture and route.sink is not None:
            route.sink.capture(origin, Batch.of([(subject, reply, headers, payload)]), 0, 1)
            taken += 1
        return taken

    # --- from a connection ----------------------------------------------------------------------

    def walk(self, Client client, Batch batch, Py_ssize_t start=0):
        """Handle the operations of one read, from `start` on. Returns the index behind the last one."""
        cdef Py_ssize_t i = start, acks = -1
        cdef Route route = None
        cdef Account account = client.account
        cdef const char* last = NULL
        cdef uint32_t last_len = 0
        cdef int kind
        cdef Message m
        cdef char* base = batch.base
        cdef bint remember
        cdef unsigned long long generation = 0
        cdef int special = ORDINARY, wanted
        while i < batch.n:
            kind = batch.kinds[i]
            if kind > K_HPUB or not client.ready:
                if self._caught:
                    self._hand_over(client, batch)
                if acks >= 0:
                    self._special(account, special, client, batch, acks, i)
                    acks = -1
                if client.on_operation(kind, batch, i):
                    return i + 1
                account = client.account
                last = NULL
                i += 1
                continue
            m.subject = base + batch.subject_at[i]
            m.subject_len = batch.subject_len[i]
            m.reply = base + batch.reply_at[i]
            m.reply_len = batch.reply_len[i]
            m.headers = base + batch.body_at[i]
            m.headers_len = batch.header_len[i]
            m.payload = m.headers + m.headers_len
            m.payload_len = batch.total_len[i] - m.headers_len
            client.in_msgs += 1
            client.in_bytes += batch.total_len[i]
            self.in_msgs += 1
            self.in_bytes += batch.total_len[i]
            if client.pedantic:
                client.bad_publish_subject(PyBytes_FromStringAndSize(m.subject, m.subject_len))
            if client.permissions is not None or _is_reserved(&m):
                if not self._permitted(client, &m):
                    # What was captured so far must not swallow the refused one.
                    if self._caught:
                        self._hand_over(client, batch)
                    if acks >= 0:
                        self._special(account, special, client, batch, acks, i)
                        acks = -1
                    i += 1
                    continue
            if client.verbose:
                client.put(b"+OK\r\n")
                self._mark(client)
            wanted = _special_kind(&m) if account.on_acks is not None else ORDINARY
            if wanted != ORDINARY:
                if self._caught:
                    self._hand_over(client, batch)
                if acks >= 0 and special != wanted:
                    self._special(account, special, client, batch, acks, i)
                    acks = -1
                if acks < 0:
                    acks = i
                    special = wanted
                if account.watched:
                    self._copy_to_clients(account.route(m.subject, m.subject_len, False), client, &m)
                i += 1
                continue
            if acks >= 0:
                self._special(account, special, client, batch, acks, i)
                acks = -1
            if account.mapping is not None:
                if self._caught:
                    self._hand_over(client, batch)
                self._publish_mapped(client, account, &m)
                i += 1
                continue
            if last == NULL or m.subject_len != last_len or memcmp(m.subject, last, last_len) != 0:
                remember = not (m.subject_len > 7 and memcmp(m.subject, b"_INBOX.", 7) == 0)
                route = account.route(m.subject, m.subject_len, remember)
                generation = account.tree.generation
                last = m.subject
                last_len = m.subject_len
            if route.sink is not None:
                self._catch(route.sink, i)
            if route.nobody:
                if m.reply_len and client.no_responders:
                    self._nobody_there(client, &m)
                i += 1
                continue
            if route.handlers is not None and self._caught:
                # A handler may look at what was published before it.
                self._hand_over(client, batch)
            if route.plain is not None or route.groups is not None or route.handlers is not None:
                if self.deliver(route, client, &m) == 0 and route.sink is None:
                    if m.reply_len and client.no_responders:
                        self._nobody_there(client, &m)
                if route.handlers is not None or account.tree.generation != generation:
                    # Something was subscribed or ended meanwhile: ask again.
                    last = NULL
                    generation = account.tree.generation
            i += 1
        if self._caught:
            self._hand_over(client, batch)
        if acks >= 0:
            self._special(account, special, client, batch, acks, batch.n)
        return batch.n

    cdef int _catch(self, object sink, Py_ssize_t i) except -1:
        """Message i belongs to this stream; it is handed over with the others of its stream."""
        cdef Py_ssize_t k
        if self._caught and self._sinks[self._last_sink] is sink:
            k = self._last_sink
        else:
            number = self._sink_numbers.get(id(sink))
            if number is None:
                k = len(self._sinks)
                self._sinks.append(sink)
                self._sink_numbers[id(sink)] = k
            else:
                k = number
            self._last_sink = k
        self._rows[self._caught] = <uint32_t>i
        self._owners[self._caught] = <uint32_t>k
        self._caught += 1
        return 0

    cdef int _hand_over(self, Client client, Batch batch) except -1:
        """Give each stream its messages of this batch, in one run where possible.

        Messages for several streams are usually mixed; sorted by stream (in the order they came)
        they make one run each, so that a stream is asked once however they were mixed.
        """
        cdef Py_ssize_t n = self._caught, i, k, at, start
        cdef list sinks = self._sinks
        cdef Batch sorted_batch
        cdef Py_ssize_t* places
        self._caught = 0
        self._sinks = []
        self._sink_numbers = {}
        if len(sinks) == 1 and self._rows[n - 1] - self._rows[0] == <uint32_t>(n - 1):
            self._capture(sinks[0], client, batch, self._rows[0], self._rows[0] + n)
            return 0
        places = <Py_ssize_t*>malloc((len(sinks) + 1) * sizeof(Py_ssize_t))
        if places == NULL:
            raise MemoryError
        try:
            for k in range(len(sinks) + 1):
                places[k] = 0
            for i in range(n):
                places[self._owners[i] + 1] += 1
            for k in range(len(sinks)):
                places[k + 1] += places[k]
            sorted_batch = Batch(n)
            sorted_batch.base = batch.base
            sorted_batch.owner = batch
            sorted_batch.n = n
            for i in range(n):
                at = places[self._owners[i]]
                places[self._owners[i]] += 1
                sorted_batch.copy_row(at, batch, self._rows[i])
            # Each place has moved to the end of its stream's messages.
            ends = [places[k] for k in range(len(sinks))]
        finally:
            free(places)
        start = 0
        for k in range(len(sinks)):
            self._capture(sinks[k], client, sorted_batch, start, ends[k])
            start = ends[k]
        return 0

    cdef int _capture(self, object sink, Client client, Batch batch, Py_ssize_t start, Py_ssize_t stop) except -1:
        try:
            sink.capture(client, batch, start, stop)
        except Exception as problem:
            if self.on_error is None:
                raise
            self.on_error(problem)
        return 0

    cdef int _special(self, Account account, int kind, Client client, Batch batch, Py_ssize_t start,
                      Py_ssize_t stop) except -1:
        try:
            if kind == ACKS:
                account.on_acks(client, batch, start, stop)
            else:
                account.on_direct_gets(client, batch, start, stop)
        except Exception as problem:
            if self.on_error is None:
                raise
            self.on_error(problem)
        return 0

    cdef int _handle(self, Subscription sub, Client origin, Message* m) except -1:
        cdef bytes subject = PyBytes_FromStringAndSize(m.subject, m.subject_len), to = self._to
        # A handler is told where the message was sent to, and can ask what it is to be shown as.
        self.shown = subject if to is not None else None
        self._to = None
        try:
            answer = sub.handler(
                origin,
                subject if to is None else to,
                PyBytes_FromStringAndSize(m.reply, m.reply_len),
                PyBytes_FromStringAndSize(m.headers, m.headers_len),
                PyBytes_FromStringAndSize(m.payload, m.payload_len),
            )
        except Exception as problem:
            # One request that goes wrong must not take the connection, or the server, with it.
            if self.on_error is None:
                raise
            self.on_error(problem)
            return 1
        finally:
            self._to = to
        return 0 if answer is False else 1

    cdef bint _permitted(self, Client client, Message* m):
        cdef bytes subject = PyBytes_FromStringAndSize(m.subject, m.subject_len)
        cdef bytes reply = PyBytes_FromStringAndSize(m.reply, m.reply_len)
        if client.permissions is not None and not client.permissions.can_publish(subject, self.now()):
            client.refuse_publish(subject, b"")
            return False
        if _is_server_subject(m.subject, m.subject_len):
            client.refuse_publish(subject, b"")
            return False
        if m.reply_len and _is_server_reply(m.reply, m.reply_len):
            client.refuse_publish(subject, reply)
            return False
        return True

    cdef int _publish_mapped(self, Client client, Account account, Message* m) except -1:
        """Through the account's subject mappings; one message at a time."""
        cdef bytes subject = account.mapping(PyBytes_FromStringAndSize(m.subject, m.subject_len))
        cdef bytes reply = PyBytes_FromStringAndSize(m.reply, m.reply_len)
        taken = 0
        if subject is not None:
            taken = self.publish(
                account,
                subject,
                PyBytes_FromStringAndSize(m.payload, m.payload_len),
                reply,
                PyBytes_FromStringAndSize(m.headers, m.headers_len),
                client,
            )
        if taken == 0:
            # What is lost on purpose was meant for a subject without a name.
            self.no_responders(client, subject or b"", reply)
        return 0

    cdef int _nobody_there(self, Client client, Message* m) except -1:
        """Tell a requester that nobody listens, on its own plain subscription to the reply."""
        cdef Message status
        cdef Subscription sub
        cdef Found found = client.account.tree.match_raw(m.reply, m.reply_len)
        cdef bytes block = (
            b"NATS/1.0 503\r\nNats-Subject: "
            + PyBytes_FromStringAndSize(m.subject, m.subject_len)
            + b"\r\n\r\n"
        )
        cdef bint echo = client.echo
        cdef int64_t limit
        status.subject = m.reply
        status.subject_len = m.reply_len
        status.reply = NULL
        status.reply_len = 0
        status.headers = PyBytes_AS_STRING(block)
        status.headers_len = PyBytes_GET_SIZE(block)
        status.payload = NULL
        status.payload_len = 0
        for sub in found.plain:
            if sub.client is client:
                # A status does not count towards the messages after which a subscription ends.
                limit = sub.limit
                sub.limit = 0
                client.echo = True
                sub.delivered -= self.send(sub, None, &status)
                client.echo = echo
                sub.limit = limit
                break
        return 0

    def no_responders(self, Client client, bytes subject, bytes reply):
        """The same, asked from Python: a handler found that nobody can answer."""
        cdef Message m
        m.subject = PyBytes_AS_STRING(subject)
        m.subject_len = PyBytes_GET_SIZE(subject)
        m.reply = PyBytes_AS_STRING(reply)
        m.reply_len = PyBytes_GET_SIZE(reply)
        if m.reply_len and client is not None and client.no_responders:
            self._nobody_there(client, &m)
