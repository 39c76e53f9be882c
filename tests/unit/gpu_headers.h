/* SPDX-License-Identifier: MIT
 *
 * How a test compares the rows of src/runtime/gpu_api.def with a vendor's header: each row becomes the number, the sizes and the register
 * classes of its parameters, once from our declaration and once from the vendor's. */
#ifndef GPU_HEADERS_H
#define GPU_HEADERS_H

#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "runtime/gpu_api.h"
#include "runtime/gpu_constants.h"
#include "test.h"

#define MAX_PARAMS 12

struct gpu_row {
    const char *field, *symbol;
    size_t size[MAX_PARAMS + 1]; /* bytes, ends with 0 */
    char class[MAX_PARAMS + 1];  /* 'i' integer register, 'f' float, 'm' memory */
};

/* F(x) for each of 1 to 12 arguments. */
#define EACH_1(F, a) F(a)
#define EACH_2(F, a, ...) F(a) EACH_1(F, __VA_ARGS__)
#define EACH_3(F, a, ...) F(a) EACH_2(F, __VA_ARGS__)
#define EACH_4(F, a, ...) F(a) EACH_3(F, __VA_ARGS__)
#define EACH_5(F, a, ...) F(a) EACH_4(F, __VA_ARGS__)
#define EACH_6(F, a, ...) F(a) EACH_5(F, __VA_ARGS__)
#define EACH_7(F, a, ...) F(a) EACH_6(F, __VA_ARGS__)
#define EACH_8(F, a, ...) F(a) EACH_7(F, __VA_ARGS__)
#define EACH_9(F, a, ...) F(a) EACH_8(F, __VA_ARGS__)
#define EACH_10(F, a, ...) F(a) EACH_9(F, __VA_ARGS__)
#define EACH_11(F, a, ...) F(a) EACH_10(F, __VA_ARGS__)
#define EACH_12(F, a, ...) F(a) EACH_11(F, __VA_ARGS__)
#define EACH_PICK(_1, _2, _3, _4, _5, _6, _7, _8, _9, _10, _11, _12, name, ...) name
#define EACH(F, ...)                                                                                             \
    EACH_PICK(__VA_ARGS__, EACH_12, EACH_11, EACH_10, EACH_9, EACH_8, EACH_7, EACH_6, EACH_5, EACH_4, EACH_3, EACH_2, EACH_1, ) \
    (F, __VA_ARGS__)

/* decl: a parameter with its name, or a type alone (then with a name behind it). */
#define DECL_SIZE(decl) sizeof(struct { decl; }),
#define DECL_CLASS(decl) \
    _Generic((void (*)(decl))0, void (*)(float): 'f', void (*)(double): 'f', default: sizeof(struct { decl; }) > 8 ? 'm' : 'i'),
#define TYPE_SIZE(type) DECL_SIZE(type x)
#define TYPE_CLASS(type) DECL_CLASS(type x)

#define OUR_PARAMS(...) {EACH(DECL_SIZE, __VA_ARGS__)}, {EACH(DECL_CLASS, __VA_ARGS__)}
#define VENDOR_ROW(field, name, ...) {#field, name, {EACH(TYPE_SIZE, __VA_ARGS__)}, {EACH(TYPE_CLASS, __VA_ARGS__)}},
#define STRING_OF(x) #x
#define STRING(x) STRING_OF(x) /* of what a macro maps to */

static const struct gpu_row *find_row(const struct gpu_row *rows, const char *field)
{
    for (; rows->field != NULL; rows++) {
        if (strcmp(rows->field, field) == 0) {
            return rows;
        }
    }
    return NULL;
}

static void compare_params(const struct gpu_row *ours, const struct gpu_row *vendors)
{
    for (int i = 0; i < MAX_PARAMS; i++) {
        size_t want = vendors->size[i];
        /* cuMemsetD8Async takes an unsigned char, for which every ABI reads the low byte of an int's register. */
        if (strcmp(vendors->symbol, "cuMemsetD8Async") == 0 && i == 1) {
            TEST_EQ(want, 1);
            want = sizeof(int);
        }
        if (ours->size[i] != want || ours->class[i] != vendors->class[i]) {
            TEST_FAIL("%s (%s), parameter %d: ours has %zu bytes of class '%c', the vendor's %zu of class '%c'", ours->field,
                      ours->symbol, i + 1, ours->size[i], ours->class[i], want, vendors->class[i]);
        }
    }
}

/* absent: fields that this version of the header does not have, ended by NULL. */
static void compare_rows(const struct gpu_row *ours, const struct gpu_row *vendors, const char *const *absent)
{
    int compared = 0, missing = 0;
    for (const struct gpu_row *row = ours; row->field != NULL; row++) {
        const struct gpu_row *other = find_row(vendors, row->field);
        int expected = 0;
        for (const char *const *name = absent; *name != NULL; name++) {
            expected |= strcmp(*name, row->field) == 0;
        }
        if (other == NULL) {
            if (!expected) {
                TEST_FAIL("%s (%s) is in gpu_api.def but was not compared with the header", row->field, row->symbol);
            }
            printf("not in this header: %s\n", row->symbol);
            missing++;
            continue;
        }
        if (expected) {
            TEST_FAIL("%s is compared although it is listed as absent", row->field);
        }
        if (strcmp(row->symbol, other->symbol) != 0) {
            TEST_FAIL("%s: gpu_api.def names %s, the header %s", row->field, row->symbol, other->symbol);
        }
        compare_params(row, other);
        compared++;
    }
    for (const struct gpu_row *row = vendors; row->field != NULL; row++) {
        if (find_row(ours, row->field) == NULL) {
            TEST_FAIL("%s (%s) is compared here but is not in gpu_api.def", row->field, row->symbol);
        }
    }
    printf("%d rows compared, %d absent\n", compared, missing);
}

static inline void compare_constant(const char *name, long long ours, const char *vendor, long long theirs)
{
    if (ours != theirs) {
        TEST_FAIL("%s is %lld, %s is %lld", name, ours, vendor, theirs);
    }
}

#endif
