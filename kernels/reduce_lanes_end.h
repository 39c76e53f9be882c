/* SPDX-License-Identifier: MIT
 *
 * The end of one type of reduce_types.h on a GPU. */
#undef LANES
#undef NAME
#undef T
#undef A
#undef LOAD
#undef STORE
#undef ADD
#undef MUL
#undef DIVIDE
#undef NOT_NUMBER
