from libc.stdint cimport int64_t, uint8_t, uint32_t, uint64_t

from jetstream.store._record cimport Record
from jetstream.store._view cimport View

cdef enum:
    WORD_BITS = 3                       # a record in Segment.lens: length << WORD_BITS | bits
    CONTROL_BIT = 4                     # not a message; else WITH_HEADERS, WITH_EXPIRY

cdef class Segment:
    cdef public uint64_t first_seq      # the name of the segment; no record below it
    cdef public uint64_t last_seq       # the highest sequence it speaks of
    cdef public uint64_t start          # offset of the first record
    cdef public uint64_t end            # offset after the last record
    cdef public uint64_t limit          # when to begin the next segment
    cdef public uint64_t written        # handed to the OS up to here
    cdef public uint64_t synced         # on disk up to here
    cdef public uint64_t allocated      # size of the file
    cdef public uint64_t live           # messages that still exist
    cdef public uint64_t live_bytes
    cdef public uint64_t listed         # messages its footer lists
    cdef public int64_t min_time
    cdef public int64_t max_time
    cdef public uint32_t seed
    cdef public bint sealed
    cdef public bint whole              # allocate its memory at once: it lives only there
    cdef public bint checked            # every record was read back and its checksum compared
    cdef public object file
    cdef public str path
    cdef public object extra            # what the file store keeps about it
    cdef char* mem                      # bytes [mem_from, end) of the segment
    cdef uint64_t mem_from
    cdef uint64_t mem_room
    cdef uint32_t* lens                 # one word per record, for the footer
    cdef uint32_t* seqs                 # low half of its sequence
    cdef uint32_t records
    cdef uint32_t records_room
    cdef int note(self, uint32_t length, uint8_t kind, uint8_t flags, uint64_t seq) except -1
    cdef int hold(self, size_t need) except -1

cdef struct Window:
    char* data
    uint64_t start
    uint64_t end
    uint64_t room
    uint64_t used_at

cdef class LogBase(View):
    cdef public list segments
    cdef public Segment active
    cdef Segment found                  # where the last look-up ended
    cdef readonly int64_t max_msgs_per_subject
    cdef uint64_t* evicted
    cdef size_t evicted_used
    cdef size_t evicted_room
    cdef size_t evicted_said            # how many of them stand in a record already
    cdef public object trouble
    cdef readonly list lost_ranges
    cdef readonly uint64_t lost_bytes
    cdef Window windows[4]
    cdef list window_segments
    cdef uint64_t window_clock
    cdef readonly object expiries       # heap of (time, sequence)
    cdef uint64_t age_cursor
    cdef uint64_t first_ts_of
    cdef int64_t first_ts_value

    cdef Segment segment_of(self, uint64_t seq)
    cdef int record(self, uint64_t seq, Record* out) except -1
    cdef char* _room(self, uint64_t seq, size_t need) except NULL
    cdef int _store(self, uint64_t seq, int64_t now, int64_t expires_at, const char* subject, uint32_t subject_len,
                    const char* body, uint32_t headers_len, uint32_t total_len, uint32_t sid) except -1
    cdef int _evict_over(self, uint32_t sid) except -1
    cdef int _forget(self, uint64_t seq) except -1
    cdef const char* _bytes_at(self, Segment segment, uint64_t offset, uint64_t want) except? NULL
    cdef int _lose(self, uint64_t seq, uint64_t size) except -1
    cdef int _index_message(self, Segment segment, uint64_t offset, Record* r) except -1
