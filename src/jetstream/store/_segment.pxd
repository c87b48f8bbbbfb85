from libc.stdint cimport int64_t, uint8_t, uint32_t, uint64_t

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
