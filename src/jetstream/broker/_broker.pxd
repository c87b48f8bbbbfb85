from libc.stdint cimport int64_t, uint32_t, uint64_t

from jetstream.subjects._tree cimport Found, SubjectTree
from jetstream.wire._outbox cimport Outbox
from jetstream.wire._parser cimport Batch


cdef class Subscription:
    cdef readonly Client client      # whose it is; None for one of the server's own
    cdef readonly Account account
    cdef readonly bytes subject
    cdef readonly bytes queue
    cdef readonly bytes sid
    cdef public int64_t limit        # messages after which it ends by itself; 0 = never
    cdef public int64_t delivered
    cdef public bint closed
    cdef public object handler       # own: called with (origin, subject, reply, headers, payload)
    cdef public object sink          # own: the stream that captures this subject
    cdef public object rename        # subject as the receiver knows it (imports)
    cdef public bint filtered        # wider than a deny rule: each subject is asked
    cdef public list shadows         # the same wish in accounts this one imports from
    cdef public Subscription parent  # of a shadow: the wish it repeats, which counts for both


cdef class Client:
    cdef public uint64_t cid
    cdef readonly Outbox outbox
    cdef public Account account
    cdef readonly dict subscriptions
    cdef public bint headers
    cdef public bint echo
    cdef public bint verbose
    cdef public bint pedantic
    cdef public bint no_responders
    cdef public bint dirty
    cdef public bint gone            # nothing is delivered any more
    cdef public bint overflowing
    cdef public bint stalled         # published to somebody whose buffer is nearly full
    cdef public bint draining        # its peer reads: waiting for it is worth while
    cdef public Client waits_for     # published more than this one has read so far
    cdef public bint ready           # may publish and subscribe
    cdef public size_t pending_max
    cdef public size_t in_transport
    cdef public uint64_t in_msgs
    cdef public uint64_t in_bytes
    cdef public uint64_t out_msgs
    cdef public uint64_t out_bytes
    cdef public object permissions
    cdef public bint tracks_replies  # allow_responses: notes which replies it may answer


cdef class Account:
    cdef readonly str name
    cdef readonly SubjectTree tree
    cdef dict routes
    cdef public object mapping       # subject → subject, or None
    cdef public object on_acks       # JetStream: (client, batch, start, stop) of `$JS.ACK.` messages
    cdef public object on_direct_gets  # JetStream: the same for `$JS.API.DIRECT.GET.` requests
    cdef public object on_interest   # told about subjects whose interest came or went
    cdef public bint watched         # somebody subscribes to `$JS.…` or to everything
    cdef public object spec
    cdef public object jetstream
    cdef public set clients
    cdef public uint64_t in_msgs
    cdef public uint64_t in_bytes
    cdef public uint64_t out_msgs
    cdef public uint64_t out_bytes
    cdef bytes _front_prefix  # whose route `_front_route` is; the very object, not an equal one
    cdef Route _front_route
    cdef Route route(self, const char* p, Py_ssize_t n, bint remember)


cdef class Route:
    cdef list plain        # Subscriptions of clients
    cdef list groups       # lists of Subscriptions, one list per queue group
    cdef list handlers     # own Subscriptions with a handler
    cdef object sink
    cdef bint nobody


cdef struct Message:
    const char* subject
    uint32_t subject_len
    const char* reply
    uint32_t reply_len
    const char* headers
    uint32_t headers_len
    const char* payload
    uint32_t payload_len


cdef class Broker:
    cdef readonly list dirty
    cdef public object wake           # called when the first connection becomes dirty
    cdef public object on_error
    cdef public object now            # the time, for permissions that end
    cdef public object on_overflow
    cdef bytes _to                    # where a message goes that shows another subject
    cdef readonly bytes shown         # for a handler: the subject shown, if it is another one
    cdef uint64_t _chance
    cdef list _ended
    # Messages of the batch at hand that streams capture: row, and which of `_sinks` it is for.
    cdef uint32_t _rows[8192]
    cdef uint32_t _owners[8192]
    cdef Py_ssize_t _caught
    cdef Py_ssize_t _last_sink
    cdef list _sinks
    cdef dict _sink_numbers
    cdef readonly uint64_t in_msgs
    cdef readonly uint64_t in_bytes
    cdef readonly uint64_t out_msgs
    cdef readonly uint64_t out_bytes

    cdef int send(self, Subscription sub, Client origin, Message* m) except -1
    cdef int deliver(self, Route route, Client origin, Message* m) except -1
    cdef int deliver_as(self, Route route, bytes to, Client origin, Message* m) except -1
    cdef int _one_of(self, list group, Client origin, Message* m) except -1
    cdef int _nobody_there(self, Client client, Message* m) except -1
    cdef int _end_finished(self) except -1
    cdef int _copy_to_clients(self, Route route, Client origin, Message* m) except -1
    cdef int _mark(self, Client client) except -1
    cdef int _catch(self, object sink, Py_ssize_t i) except -1
    cdef int _hand_over(self, Client client, Batch batch) except -1
    cdef int _capture(self, object sink, Client client, Batch batch, Py_ssize_t start, Py_ssize_t stop) except -1
    cdef int _special(self, Account account, int kind, Client client, Batch batch, Py_ssize_t start,
                      Py_ssize_t stop) except -1
    cdef int _handle(self, Subscription sub, Client origin, Message* m) except -1
    cdef bint _permitted(self, Client client, Message* m)
    cdef int _publish_mapped(self, Client client, Account account, Message* m) except -1
