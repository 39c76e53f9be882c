/* SPDX-License-Identifier: MIT
 *
 * Nontemporal copies for x86: whole lines go to memory without being read first, which saves a third of the traffic of data that do not
 * fit the caches. The destination is brought to a line boundary first; the source may have any alignment. */
#include "host_copy.h"

#if defined(__x86_64__) && !defined(__SANITIZE_THREAD__)
#include <immintrin.h>

#define LINE 64u

static size_t head_bytes(const char *dst, size_t bytes)
{
    size_t head = (size_t)(0 - (uintptr_t)dst) % LINE;
    return head < bytes ? head : bytes;
}

__attribute__((target("avx512f"))) static void stream_avx512(char *dst, const char *src, size_t bytes)
{
    size_t head = head_bytes(dst, bytes);
    memcpy(dst, src, head);
    dst += head, src += head, bytes -= head;
    for (; bytes >= 4 * LINE; dst += 4 * LINE, src += 4 * LINE, bytes -= 4 * LINE) {
        __m512i a = _mm512_loadu_si512(src), b = _mm512_loadu_si512(src + LINE);
        __m512i c = _mm512_loadu_si512(src + 2 * LINE), d = _mm512_loadu_si512(src + 3 * LINE);
        _mm512_stream_si512((__m512i *)dst, a);
        _mm512_stream_si512((__m512i *)(dst + LINE), b);
        _mm512_stream_si512((__m512i *)(dst + 2 * LINE), c);
        _mm512_stream_si512((__m512i *)(dst + 3 * LINE), d);
    }
    memcpy(dst, src, bytes);
    _mm_sfence();
}

__attribute__((target("avx"))) static void stream_avx(char *dst, const char *src, size_t bytes)
{
    size_t head = head_bytes(dst, bytes);
    memcpy(dst, src, head);
    dst += head, src += head, bytes -= head;
    for (; bytes >= LINE; dst += LINE, src += LINE, bytes -= LINE) {
        __m256i a = _mm256_loadu_si256((const __m256i *)src), b = _mm256_loadu_si256((const __m256i *)(src + 32));
        _mm256_stream_si256((__m256i *)dst, a);
        _mm256_stream_si256((__m256i *)(dst + 32), b);
    }
    memcpy(dst, src, bytes);
    _mm_sfence();
}

static void stream_sse2(char *dst, const char *src, size_t bytes)
{
    size_t head = head_bytes(dst, bytes);
    memcpy(dst, src, head);
    dst += head, src += head, bytes -= head;
    for (; bytes >= LINE; dst += LINE, src += LINE, bytes -= LINE) {
        for (unsigned i = 0; i < LINE; i += 16) {
            _mm_stream_si128((__m128i *)(dst + i), _mm_loadu_si128((const __m128i *)(src + i)));
        }
    }
    memcpy(dst, src, bytes);
    _mm_sfence();
}

static void stream_first(char *dst, const char *src, size_t bytes)
{
    ccl_host_copy_fn best = stream_sse2;
    if (__builtin_cpu_supports("avx512f")) {
        best = stream_avx512;
    } else if (__builtin_cpu_supports("avx")) {
        best = stream_avx;
    }
    __atomic_store_n(&ccl_host_copy_stream, best, __ATOMIC_RELAXED);
    best(dst, src, bytes);
}

ccl_host_copy_fn ccl_host_copy_stream = stream_first;

#else

static void stream_plain(char *dst, const char *src, size_t bytes)
{
    memcpy(dst, src, bytes);
}

ccl_host_copy_fn ccl_host_copy_stream = stream_plain;

#endif
