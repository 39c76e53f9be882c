/* SPDX-License-Identifier: MIT
 *
 * Environment variables. config.def lists all of them; they are read once, at the first use, and never again. getenv is
 * called nowhere else. docs/env.md is compared with the table by a test. */
#ifndef CCL_UTIL_CONFIG_H
#define CCL_UTIL_CONFIG_H

#include "util/base.h"

struct ccl_env {
#define CCL_ENV_STR(field, name, dflt, help) const char *field;
#define CCL_ENV_INT(field, name, dflt, min, max, help) int64_t field;
#include "util/config.def"
#undef CCL_ENV_STR
#undef CCL_ENV_INT
};

/* The parsed environment; a malformed or out-of-range value is warned about by name once, and its default holds. */
const struct ccl_env *ccl_env_get(void);

#endif
