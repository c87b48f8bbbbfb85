# crc32c (Castagnoli), in hardware where the processor has SSE 4.2, by table elsewhere. The C lives
# here so that every kernel that cimports it gets its own inlined copy.

from libc.stdint cimport uint32_t

cdef extern from *:
    """
    #ifndef JS_CRC32C
    #define JS_CRC32C
    #include <stddef.h>
    #include <stdint.h>
    #include <string.h>

    static uint32_t js_crc_table[8][256];
    static int js_crc_mode = 0;   /* 0 not set up, 1 table, 2 hardware */

    static void js_crc_setup(void) {
        for (uint32_t n = 0; n < 256; n++) {
            uint32_t c = n;
            for (int k = 0; k < 8; k++) c = (c & 1) ? (c >> 1) ^ 0x82f63b78u : c >> 1;
            js_crc_table[0][n] = c;
        }
        for (uint32_t n = 0; n < 256; n++)
            for (int k = 1; k < 8; k++)
                js_crc_table[k][n] = (js_crc_table[k - 1][n] >> 8)
                    ^ js_crc_table[0][js_crc_table[k - 1][n] & 0xff];
        js_crc_mode = 1;
    #if defined(__x86_64__) && defined(__GNUC__)
        if (__builtin_cpu_supports("sse4.2")) js_crc_mode = 2;
    #endif
    }

    static uint32_t js_crc_soft(uint32_t crc, const unsigned char* p, size_t n) {
        while (n >= 8) {
            uint64_t w;
            memcpy(&w, p, 8);
            w ^= crc;
            crc = js_crc_table[7][w & 0xff] ^ js_crc_table[6][(w >> 8) & 0xff]
                ^ js_crc_table[5][(w >> 16) & 0xff] ^ js_crc_table[4][(w >> 24) & 0xff]
                ^ js_crc_table[3][(w >> 32) & 0xff] ^ js_crc_table[2][(w >> 40) & 0xff]
                ^ js_crc_table[1][(w >> 48) & 0xff] ^ js_crc_table[0][(w >> 56) & 0xff];
            p += 8; n -= 8;
        }
        while (n--) crc = (crc >> 8) ^ js_crc_table[0][(crc ^ *p++) & 0xff];
        return crc;
    }

    #if defined(__x86_64__) && defined(__GNUC__)
    __attribute__((target("sse4.2")))
    static uint32_t js_crc_hard(uint32_t crc, const unsigned char* p, size_t n) {
        uint64_t c = crc;
        while (n >= 8) {
            uint64_t w;
            memcpy(&w, p, 8);
            c = __builtin_ia32_crc32di(c, w);
            p += 8; n -= 8;
        }
        crc = (uint32_t)c;
        while (n--) crc = __builtin_ia32_crc32qi(crc, *p++);
        return crc;
    }
    #endif

    static inline uint32_t js_crc32c(uint32_t seed, const char* p, size_t n) {
        if (!js_crc_mode) js_crc_setup();
        uint32_t c = ~seed;
    #if defined(__x86_64__) && defined(__GNUC__)
        if (js_crc_mode == 2) return ~js_crc_hard(c, (const unsigned char*)p, n);
    #endif
        return ~js_crc_soft(c, (const unsigned char*)p, n);
    }

    static uint32_t js_crc32c_table(uint32_t seed, const char* p, size_t n) {
        if (!js_crc_mode) js_crc_setup();
        return ~js_crc_soft(~seed, (const unsigned char*)p, n);
    }
    #endif
    """
    uint32_t js_crc32c(uint32_t seed, const char* p, size_t n) nogil
    uint32_t js_crc32c_table(uint32_t seed, const char* p, size_t n) nogil
