/* SPDX-License-Identifier: MIT
 *
 * The loops over the elements of one type (included by host_reduce_body.h once a type). NAME(x): function name of the type; T: as stored; A: as joined;
 * LOAD(T) -> A, STORE(A) -> T; ADD, MUL: of A, wrapping; DIVIDE(A, n);
 * NOT_NUMBER(A): gives way to any other value in max and min. */

static HR_TARGET void NAME(join)(uint32_t redop, char *dst, const uint64_t *in, uint32_t n, uint64_t count)
{
    A acc[HR_BLOCK];
    T value;
    for (uint64_t done = 0; done < count; done += HR_BLOCK) {
        const uint32_t k = (uint32_t)(count - done < HR_BLOCK ? count - done : HR_BLOCK);
        const uint64_t at = done * sizeof(T);
        const char *from = (const char *)in[0] + at;
        for (uint32_t i = 0; i < k; i++) {
            memcpy(&value, from + i * sizeof(T), sizeof(T));
            acc[i] = LOAD(value);
        }
        for (uint32_t r = 1; r < n; r++) {
            from = (const char *)in[r] + at;
            switch (redop) {
            case 1:
                for (uint32_t i = 0; i < k; i++) {
                    memcpy(&value, from + i * sizeof(T), sizeof(T));
                    acc[i] = MUL(acc[i], LOAD(value));
                }
                break;
            case 2:
                for (uint32_t i = 0; i < k; i++) {
                    memcpy(&value, from + i * sizeof(T), sizeof(T));
                    const A x = LOAD(value);
                    acc[i] = x > acc[i] || NOT_NUMBER(acc[i]) ? x : acc[i];
                }
                break;
            case 3:
                for (uint32_t i = 0; i < k; i++) {
                    memcpy(&value, from + i * sizeof(T), sizeof(T));
                    const A x = LOAD(value);
                    acc[i] = x < acc[i] || NOT_NUMBER(acc[i]) ? x : acc[i];
                }
                break;
            default:
                for (uint32_t i = 0; i < k; i++) {
                    memcpy(&value, from + i * sizeof(T), sizeof(T));
                    acc[i] = ADD(acc[i], LOAD(value));
                }
                break;
            }
        }
        if (redop == 4) {
            for (uint32_t i = 0; i < k; i++) {
                acc[i] = DIVIDE(acc[i], n);
            }
        }
        for (uint32_t i = 0; i < k; i++) {
            value = STORE(acc[i]);
            memcpy(dst + at + i * sizeof(T), &value, sizeof(T));
        }
    }
}

static HR_TARGET void NAME(scale)(char *dst, const char *src, uint64_t count, const void *scalar)
{
    T value;
    memcpy(&value, scalar, sizeof(T));
    const A factor = LOAD(value);
    for (uint64_t i = 0; i < count; i++) {
        memcpy(&value, src + i * sizeof(T), sizeof(T));
        value = STORE(MUL(LOAD(value), factor));
        memcpy(dst + i * sizeof(T), &value, sizeof(T));
    }
}

#undef NAME
#undef T
#undef A
#undef LOAD
#undef STORE
#undef ADD
#undef MUL
#undef DIVIDE
#undef NOT_NUMBER
