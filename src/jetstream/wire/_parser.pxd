from libc.stdint cimport int64_t, uint8_t, uint32_t

cdef class Batch:
    # One operation is one index in these arrays; the offsets count from `base`.
    cdef char* base
    cdef Py_ssize_t n
    cdef Py_ssize_t room
    cdef uint8_t* kinds
    cdef uint32_t* subject_at
    cdef uint32_t* subject_len
    cdef uint32_t* reply_at
    cdef uint32_t* reply_len
    cdef uint32_t* header_len
    cdef uint32_t* body_at
    cdef uint32_t* total_len
    cdef int64_t* numbers
    cdef object owner

    cdef inline void copy_row(self, Py_ssize_t at, Batch source, Py_ssize_t i) noexcept:
        """Take over one operation of another batch on the same bytes."""
        self.kinds[at] = source.kinds[i]
        self.subject_at[at] = source.subject_at[i]
        self.subject_len[at] = source.subject_len[i]
        self.reply_at[at] = source.reply_at[i]
        self.reply_len[at] = source.reply_len[i]
        self.header_len[at] = source.header_len[i]
        self.body_at[at] = source.body_at[i]
        self.total_len[at] = source.total_len[i]
        self.numbers[at] = source.numbers[i]

cdef class Parser:
    cdef readonly int role
    cdef readonly int fault
    cdef public bint headers_agreed
    cdef public uint32_t payload_max
    cdef public uint32_t control_line_max
    cdef char* own            # bytes kept between reads, or the big buffer of a large message
    cdef size_t own_room
    cdef size_t own_len
    cdef bint receiving_own   # the last get_buffer() gave `own`, not the shared buffer
    cdef char* data           # what is being parsed
    cdef size_t data_len
    cdef size_t pos
    cdef size_t need          # length the unfinished operation at `pos` is known to have
    cdef Batch batch
    cdef object shared

    cdef int _keep(self, size_t room) except -1
    cdef int _parse(self, Batch batch) except -1
    cdef int _line(self, Batch batch, char* p, char* end, char** after) except -99
