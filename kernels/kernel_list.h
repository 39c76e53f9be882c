/* SPDX-License-Identifier: MIT
 *
 * Every kernel of the library, one row each: CCL_K(name, args struct). The rows make the enum, the host's function table and the
 * names that the gpu backend looks up in its code objects (ccl_k_<name>). */
#ifndef CCL_KERNEL_LIST_H
#define CCL_KERNEL_LIST_H

#define CCL_WORLDS(X, family, args) \
    X(family##_2, args)             \
    X(family##_3, args)             \
    X(family##_4, args)             \
    X(family##_5, args)             \
    X(family##_6, args)             \
    X(family##_7, args)             \
    X(family##_8, args)             \
    X(family##_n, args)

/* ll_W, push_W: worlds 2..8 with the world size compiled in; _n: any world. push_part: one peer a block (partitioned).
 * barrier: adverts only. copy_open, copy_close: before and behind the copies of variant copy. */
#define CCL_KERNEL_LIST(X)                        \
    CCL_WORLDS(X, ll, struct ccl_k_coll_args)     \
    CCL_WORLDS(X, push, struct ccl_k_coll_args)   \
    X(push_part, struct ccl_k_coll_args)          \
    X(barrier, struct ccl_k_coll_args)            \
    X(copy_open, struct ccl_k_coll_args)          \
    X(copy_close, struct ccl_k_coll_args)

enum ccl_kernel {
#define CCL_K(name, args) CCL_KERNEL_##name,
    CCL_KERNEL_LIST(CCL_K)
#undef CCL_K
        CCL_NUM_KERNELS
};

#endif
