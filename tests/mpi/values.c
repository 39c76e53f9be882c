/* SPDX-License-Identifier: MIT
 *
 * Numbers of every type; see values.h. */
#include "values.h"

#include <math.h>
#include <string.h>

const char *const tv_op_names[TV_NUM_OPS] = {"sum", "prod", "max", "min", "avg", "premulsum"};
const struct tv_type tv_types[cclNumTypes] = {
    {cclInt8, "int8", 1},       {cclUint8, "uint8", 1},     {cclInt32, "int32", 4},       {cclUint32, "uint32", 4},
    {cclInt64, "int64", 8},     {cclUint64, "uint64", 8},   {cclFloat16, "float16", 2},   {cclFloat32, "float32", 4},
    {cclFloat64, "float64", 8}, {cclBfloat16, "bfloat16", 2}, {cclFloat8e4m3, "e4m3", 1}, {cclFloat8e5m2, "e5m2", 1},
};

/* Bits of a small floating type: largest finite value, and whether what is beyond becomes infinite. */
static unsigned encode(double x, int mantissa, int bias, double most, bool infinite)
{
    unsigned sign = signbit(x) ? 1u << (15 - (mantissa == 3 || mantissa == 2 ? 8 : 0)) : 0, bits;
    int e;
    double a = fabs(x);

    if (a == 0) {
        return sign;
    }
    frexp(a, &e);
    e = e - 1 < 1 - bias ? 1 - bias : e - 1; /* a = m * 2^e, 1 <= m < 2, or a denormal */
    a = ldexp(nearbyint(ldexp(a, mantissa - e)), e - mantissa);
    if (a > most) {
        if (infinite) {
            return sign | (mantissa == 10 ? 0x7c00u : 0x7f80u);
        }
        a = most;
    }
    frexp(a, &e);
    if (e - 1 < 1 - bias) {
        bits = (unsigned)ldexp(a, bias - 1 + mantissa);
    } else {
        bits = ((unsigned)(e - 1 + bias) << mantissa) + (unsigned)ldexp(a - ldexp(1, e - 1), mantissa - (e - 1));
    }
    return sign | bits;
}

static double decode(unsigned bits, int width, int mantissa, int bias)
{
    int e = (int)(bits >> mantissa & ((1u << (width - 1 - mantissa)) - 1));
    unsigned m = bits & ((1u << mantissa) - 1);
    double a = e == 0 ? ldexp(m, 1 - bias - mantissa) : ldexp((1u << mantissa) + m, e - bias - mantissa);

    return bits >> (width - 1) & 1 ? -a : a;
}

void tv_put(cclDataType_t type, void *to, double value)
{
    int64_t i = (int64_t)value;
    uint16_t h;
    uint8_t b;
    float f = (float)value;

    switch (type) {
    case cclInt8:
    case cclUint8: b = (uint8_t)i, memcpy(to, &b, 1); break;
    case cclInt32:
    case cclUint32: memcpy(to, &i, 4); break; /* little endian */
    case cclInt64:
    case cclUint64: memcpy(to, &i, 8); break;
    case cclFloat32: memcpy(to, &f, 4); break;
    case cclFloat64: memcpy(to, &value, 8); break;
    case cclFloat16: h = (uint16_t)encode(value, 10, 15, 65504, true), memcpy(to, &h, 2); break;
    case cclBfloat16: h = (uint16_t)encode(value, 7, 127, 3.38953138925153547590470800371487866880e38, true), memcpy(to, &h, 2); break;
    case cclFloat8e4m3: b = (uint8_t)encode(value, 3, 7, 448, false), memcpy(to, &b, 1); break;
    default: b = (uint8_t)encode(value, 2, 15, 57344, false), memcpy(to, &b, 1); break;
    }
}

double tv_get(cclDataType_t type, const void *from)
{
    int64_t i = 0;
    uint16_t h = 0;
    float f;
    double d;

    switch (type) {
    case cclInt8: return *(const int8_t *)from;
    case cclUint8: return *(const uint8_t *)from;
    case cclInt32: memcpy(&i, from, 4); return (int32_t)i;
    case cclUint32: memcpy(&i, from, 4); return (double)i;
    case cclInt64: memcpy(&i, from, 8); return (double)i;
    case cclUint64: memcpy(&i, from, 8); return (double)(uint64_t)i;
    case cclFloat32: memcpy(&f, from, 4); return f;
    case cclFloat64: memcpy(&d, from, 8); return d;
    case cclFloat16: memcpy(&h, from, 2); return decode(h, 16, 10, 15);
    case cclBfloat16: memcpy(&h, from, 2); return decode(h, 16, 7, 127);
    case cclFloat8e4m3: return decode(*(const uint8_t *)from, 8, 3, 7);
    default: return decode(*(const uint8_t *)from, 8, 2, 15);
    }
}

double tv_scalar(int rank)
{
    return 1 + rank % 3;
}

double tv_value(cclDataType_t type, int op, uint64_t seed, int rank, size_t index)
{
    uint64_t state = seed * 1000003u + index * 8191u + (uint64_t)rank, dice = tm_random(&state);
    bool negative = type != cclUint8 && type != cclUint32 && type != cclUint64 && dice >> 32 & 1;
    int most = type == cclFloat8e4m3 || type == cclFloat8e5m2 ? 5 : 100; /* every value is one of the type */
    int v = op == TV_PROD ? 1 + (int)(dice % 2) : (int)(dice % (uint64_t)most);

    return negative ? -v : v;
}

double tv_result(cclDataType_t type, int op, uint64_t seed, int n, size_t index)
{
    double all = 0;
    bool integer = type <= cclUint64;

    for (int r = 0; r < n; r++) {
        double v = tv_value(type, op, seed, r, index);

        if (op == TV_PREMUL) {
            uint8_t rounded[8] = {0};
            tv_put(type, rounded, v * tv_scalar(r));
            v = tv_get(type, rounded);
        }
        switch (op) {
        case TV_PROD: all = r == 0 ? v : all * v; break;
        case TV_MAX: all = r == 0 || v > all ? v : all; break;
        case TV_MIN: all = r == 0 || v < all ? v : all; break;
        default: all += v; break;
        }
    }
    if (op == TV_AVG) {
        if (integer) { /* the sum wraps before it is divided */
            uint8_t wrapped[8] = {0};
            tv_put(type, wrapped, all);
            all = tv_get(type, wrapped);
        }
        all = integer ? trunc(all / n) : type == cclFloat64 ? all / n : (double)((float)all / (float)n);
    }
    return all;
}
