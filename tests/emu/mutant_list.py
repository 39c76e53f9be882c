# SPDX-License-Identifier: MIT
"""The mutants: kernels with one fault each, that the interpreter or a gate must notice (mutants.py runs them), and some without a fault, which take a way that is
seldom taken and must pass. An edit is (file, text that stands there
exactly once, what takes its place); a kernel that was changed so that a text is no longer found stops the build, not the test."""
from dataclasses import dataclass, field

# Operations of schedules.c.
LL, DIRECT, STAGED, AUTO, PARTITIONED, COPY, BARRIER, MISMATCH, PARTS, REDUCE, P2P = (1 << i for i in range(11))


@dataclass
class Mutant:
    name: str
    what: str
    edits: list
    case: str = "push_3"  # of schedules.c
    only: int = DIRECT
    kernels: list = field(default_factory=lambda: ["push_3"])  # compiled
    schedules: int = 200
    source: str = ""  # compiled; default: the .hip file of the kernels' family
    arch: str = ""  # default: the one of the whole run
    harmless: bool = False  # must pass


def ll(name, what, edits, **more):
    return Mutant(name, what, edits, case="ll_3", only=LL, kernels=["ll_3"], **more)


def parts_ll(name, what, edits, only=PARTS | REDUCE):
    return Mutant(name, what, edits, case="parts_ll", only=only, kernels=["parts_ll"], schedules=40, source="kernels/parts_ll.hip")


def coll(kernel, name, what, edits, **more):
    return Mutant(name, what, edits, case=kernel, only={"parts": PARTS, "reduce": REDUCE, "p2p": P2P}[kernel], kernels=[kernel], **more)


def gemm(name, what, arch, edits, kernel="nk_bf16_256"):
    return Mutant(name, what, edits, case="gemm_hook", kernels=[kernel], source="tests/emu/litmus/gemm_hook.hip", arch=arch)


BLOCK_RELEASE = """    ccl_fence_release_system();
    __builtin_amdgcn_s_barrier();
}
CCL_DEVICE void ccl_flag_release_system(void) {}
"""
WITHOUT_FENCE = BLOCK_RELEASE.replace("    ccl_fence_release_system();\n", "")
RELEASE = """    __builtin_amdgcn_fence(__ATOMIC_RELEASE, "");
#if defined(CCL_ON_CDNA)
    __builtin_amdgcn_s_waitcnt(0x0f70);
#endif
}
"""

MUTANTS = [
    # release, acquire, scope
    Mutant("release_removed", "a block publishes without a release", [("kernels/kernel.h", BLOCK_RELEASE, WITHOUT_FENCE)]),
    Mutant("release_by_one_wave", "only the first wave of a block releases",
           [("kernels/kernel.h", BLOCK_RELEASE, BLOCK_RELEASE.replace("    ccl_fence", "    if (ccl_tid() < 64) ccl_fence"))]),
    Mutant("publish_barrier_removed", "no block barrier between the stores and the word",
           [("kernels/kernel.h", BLOCK_RELEASE, BLOCK_RELEASE.replace("    __builtin_amdgcn_s_barrier();\n", ""))]),
    Mutant("write_back_wait_removed", "the write-back of a release is not waited for",
           [("include/ccl/device.h", RELEASE, RELEASE.replace("    __builtin_amdgcn_s_waitcnt(0x0f70);\n", ""))],
           case="copy_open", only=COPY, kernels=["copy_open", "copy_close"]),
    Mutant("release_agent", "releases reach the own device only",
           [("include/ccl/device.h", RELEASE, RELEASE.replace('RELEASE, ""', 'RELEASE, "agent"'))]),
    Mutant("acquire_removed", "words are polled without acquire",
           [("include/ccl/device.h", "return __hip_atomic_load(CCL_PTR(const uint64_t, addr), __ATOMIC_ACQUIRE, __HIP_MEMORY_SCOPE_SYSTEM);",
             "return __hip_atomic_load(CCL_PTR(const uint64_t, addr), __ATOMIC_RELAXED, __HIP_MEMORY_SCOPE_SYSTEM);")], only=STAGED),
    Mutant("acquire_agent", "words are polled with an acquire of the own device",
           [("include/ccl/device.h", "return __hip_atomic_load(CCL_PTR(const uint64_t, addr), __ATOMIC_ACQUIRE, __HIP_MEMORY_SCOPE_SYSTEM);",
             "return __hip_atomic_load(CCL_PTR(const uint64_t, addr), __ATOMIC_ACQUIRE, __HIP_MEMORY_SCOPE_AGENT);")], only=STAGED),
    Mutant("flags_agent", "words for peers are stored for the own device only",
           [("include/ccl/device.h", "__hip_atomic_store(CCL_PTR(uint64_t, addr), v, __ATOMIC_RELAXED, __HIP_MEMORY_SCOPE_SYSTEM);",
             "__hip_atomic_store(CCL_PTR(uint64_t, addr), v, __ATOMIC_RELAXED, __HIP_MEMORY_SCOPE_AGENT);")]),
    Mutant("loads_not_waited_for", "input vectors are used before they have arrived",
           [("kernels/kernel.h", "CCL_DEVICE ccl_vec16 ccl_load_stream_vec16(uint64_t addr) { return *CCL_PTR(const ccl_vec16, addr); }",
             """CCL_DEVICE ccl_vec16 ccl_load_stream_vec16(uint64_t addr)
{
    ccl_vec16 v;
    asm volatile("global_load_dwordx4 %0, %1, off" : "=&v"(v) : "v"(addr));
    return v;
}"""), ("kernels/kernel.h", """CCL_DEVICE void ccl_wait_loads(void)
{
#if defined(CCL_ON_CDNA)
    __builtin_amdgcn_s_waitcnt(0x0f70);
#endif
}""", "CCL_DEVICE void ccl_wait_loads(void) {}")]),
    # places
    Mutant("destination_shifted", "data land 16 bytes further on",
           [("kernels/push_direct_tiles.h", "to[i]) + off, v);", "to[i]) + off + 16, v);")]),
    Mutant("rotation_wrong", "the rotation does not wrap at the last rank",
           [("kernels/protocol.h", "return r >= n ? r - n : r;", "return r > n ? r - n : r;")]),
    Mutant("peer_skipped", "the last peer gets no vectors",
           [("kernels/push_direct_tiles.h", '_Pragma("unroll") for (uint32_t i = 0; i < side; i++)', '_Pragma("unroll") for (uint32_t i = 0; i + 1 < side; i++)')]),
    Mutant("own_part_missing", "the own part is not copied",
           [("kernels/push_gpu_begin.h", "b->end[0].base = own == a->src ? 0 : own;", "b->end[0].base = 0;")]),
    Mutant("tail_ignored", "the bytes behind the last vector of a row are left out",
           [("kernels/push_direct_tiles.h", "(w.bytes & 15) != 0 && d < d_last", "(w.bytes & 15) > 15 && d < d_last")]),
    Mutant("tail_overrun", "the last piece of a row is as long as the others",
           [("kernels/push_direct_tiles.h", "w->bytes = right < bytes ? (uint32_t)right : bytes;", "w->bytes = bytes + 0 * (uint32_t)right;")]),
    Mutant("tail_rows_wrapped", "the last row of pieces is as high as the others",
           [("kernels/push_direct_tiles.h", "w->rows = below < rows ? (uint32_t)below : rows;", "w->rows = rows + 0 * (uint32_t)below;")]),
    Mutant("tail_misaligned", "byte tails begin a byte late",
           [("kernels/move.h", "ccl_move_tail(dst, ld_dst, src, ld_src, rows, body, (uint32_t)bytes);",
             "ccl_move_tail(dst, ld_dst, src, ld_src, rows, body + (body != bytes), (uint32_t)bytes);")]),
    Mutant("offset_truncated", "offsets in the output lose their high bits (a 32-bit offset, made small enough to see)",
           [("kernels/push_direct_tiles.h", "w->off = w->row * a->ld_dst + w->col;", "w->off = (w->row * a->ld_dst + w->col) & 0x1ff;")]),
    Mutant("lanes_beyond_the_end", "lanes beyond the end of a piece go on instead of repeating its last vector",
           [("kernels/push_direct_tiles.h", "i = mine < w->vectors ? mine : w->vectors - 1;", "i = mine;")]),
    # numbers and words
    Mutant("tag_off_by_one", "DONE carries the next operation's number",
           [("kernels/push_gpu_steps.h", "CCL_TAGGED(b->job.n, step));", "CCL_TAGGED(b->job.n + 1, step));")]),
    Mutant("number_not_drawn", "the last block in does not make room for the next operation",
           [("kernels/protocol.h", "ccl_add_relaxed_agent_u64(op_addr, (1ull << 32) - grid);", "ccl_add_relaxed_agent_u64(op_addr, 1ull << 32);")]),
    Mutant("flag_before_payload", "DONE is said before the data are stored",
           [("kernels/push_gpu_body.h", "        push_direct(a, sides, b, done, heard);\n        CCL_AFRESH(a);\n        done = heard;\n",
             """        if (heard == to_last) {
            ccl_block_release_system();
            if (ccl_tid() < CCL_WARP) {
                push_post(a, b, b->job.ch.to_first, to_last, CCL_STEP_DONE);
            }
        }
        push_direct(a, sides, b, done, heard);
        CCL_AFRESH(a);
        done = heard;
""")]),
    Mutant("done_early", "a block that also stages says DONE with its first chunk",
           [("kernels/push_gpu_steps.h", "if (to && pushes && (b->end[d].base == 0 || s + 1 == chunks)) {",
             "if (to && pushes && (b->end[d].base == 0 || s == 0)) {")], only=AUTO),
    Mutant("done_not_awaited", "a block leaves though a peer that stores directly is not done",
           [("kernels/push_gpu_body.h", "if (pushes || b->sh->late) {", "if (0) {")], only=AUTO),
    Mutant("credit_ahead", "a slot is called free before it has been read",
           [("kernels/push_gpu_steps.h", "CCL_TAGGED(b->job.n, s - lag + 1));", "CCL_TAGGED(b->job.n, s - lag + 2));")], only=AUTO),
    Mutant("credit_not_awaited", "slots are written again without asking",
           [("kernels/push_gpu_steps.h", "if (to ? pushes && s >= slots && b->end[d].base == 0 :", "if (to ? 0 :")], only=AUTO),
    Mutant("chunk_not_awaited", "the first chunk is read before it is there",
           [("kernels/push_gpu_steps.h", ": s >= lag && b->end[d].at < want) {", ": s > lag && b->end[d].at < want) {")], only=STAGED),
    Mutant("slot_wrong", "chunks do not go round the slots",
           [("kernels/push_common.h", "+ c % a->lay.slots) * a->lay.slot_bytes;", "+ c / 2 % a->lay.slots) * a->lay.slot_bytes;")], only=STAGED),
    Mutant("advert_words_untagged", "words of an advert are used whichever operation they are of",
           [("kernels/advert_packets.h", "all &= CCL_LANE(q[i], 1) == n && CCL_LANE(q[i], 3) == n;", "all &= 1;")], only=DIRECT | AUTO),
    ll("advert_parity", "adverts of two operations share a place",
       [("kernels/protocol.h", "return ctl + a->lay.adv + ((uint64_t)(n & 1) * a->n + src) * 64;",
         "return ctl + a->lay.adv + ((uint64_t)(n & 0) * a->n + src) * 64;")], schedules=400),
    Mutant("advert_not_compared", "ranks that disagree are not told apart",
           [("kernels/advert_packets.h", "if (CCL_TAG(w) == n && CCL_VALUE(w) != a->sig) {", "if (CCL_TAG(w) == n && CCL_VALUE(w) == CCL_SIG_REVOKED) {"),
            ("kernels/advert_packets.h", "return same ? CCL_BAD_NONE : CCL_BAD_MISMATCH;", "return CCL_BAD_NONE;")],
           case="mismatch", only=MISMATCH),
    Mutant("drain_missing", "a block that has failed leaves while a peer may store into its rank's memory",
           [("kernels/fail.h", "while (d != 0 && !ccl_drained(a, n, block, src, waited)) {", "while (0 && !ccl_drained(a, n, block, src, waited)) {")],
           case="mismatch", only=MISMATCH),
    # shared memory
    Mutant("begin_barrier_removed", "threads read what the first warp found out before it has",
           [("kernels/push_gpu_begin.h", "            push_hear(a, world, b, words, first, last);\n        }\n    }\n    ccl_block_sync();\n",
             "            push_hear(a, world, b, words, first, last);\n        }\n    }\n")]),
    Mutant("step_barrier_removed", "threads do not wait for the waits of the first warp",
           [("kernels/push_gpu_steps.h", "        ccl_block_sync();\n        if (ccl_uniform(b->sh->bad) != CCL_BAD_NONE) {\n            return !pushes",
             "        if (ccl_uniform(b->sh->bad) != CCL_BAD_NONE) {\n            return !pushes")], only=STAGED),
    ll("ll_barrier_removed", "data threads read the operation number before it is drawn",
       [("kernels/ll_packet_body.h", "        ccl_block_sync();\n        n = CCL_TAG(sh.entry);", "        n = CCL_TAG(sh.entry);"),
        ("kernels/ll_packet_body.h", "    ccl_block_sync();\n    const uint32_t n = CCL_TAG(sh->entry);", "    const uint32_t n = CCL_TAG(sh->entry);")]),
    # LL
    ll("ll_parity", "packets of two operations share a place",
       [("kernels/protocol.h", "return ctl + a->lay.ll + ((uint64_t)(n & 1) * a->n + src) * CCL_LL_SRC(a->n);",
         "return ctl + a->lay.ll + ((uint64_t)(n & 0) * a->n + src) * CCL_LL_SRC(a->n);")]),
    ll("ll_tag_before_data", "a packet's number is stored before its data",
       [("include/ccl/device.h", "    ccl_store_relaxed_system_u64(addr, (uint64_t)b << 32 | a);\n",
         """    __hip_atomic_store(CCL_PTR(uint32_t, addr + 4), b, __ATOMIC_RELAXED, __HIP_MEMORY_SCOPE_SYSTEM);
    __hip_atomic_store(CCL_PTR(uint32_t, addr), a, __ATOMIC_RELAXED, __HIP_MEMORY_SCOPE_SYSTEM);
""")]),
    ll("ll_second_tag_ignored", "the second packet of a pair is not looked at",
       [("kernels/ll_packet_body.h", "!(CCL_LANE(q[u], 1) == n && CCL_LANE(q[u], 3) == n)", "!(CCL_LANE(q[u], 1) == n)")]),
    ll("ll_tag_off_by_one", "packets of the last operation are taken too",
       [("kernels/ll_packet_body.h", "!(CCL_LANE(q[u], 1) == n && CCL_LANE(q[u], 3) == n)", "!(CCL_LANE(q[u], 1) - n + 2 <= 2 && CCL_LANE(q[u], 3) - n + 2 <= 2)")]),
    ll("ll_scrub_in_use", "the scrub takes a line of packets that is in use",
       [("kernels/protocol.h", "i < 8 && at % lines * 64 >= ll_bytes; i++", "i < 8; i++")]),
    ll("ll_tail_overrun", "the last packet writes 8 bytes whatever is left",
       [("kernels/ll_packet_body.h", """    for (uint32_t i = 0; i < 8 && off + i < a->part_bytes; i++) {
        uint32_t o = (uint32_t)off + i, row = a->rows == 1 ? 0 : o / (uint32_t)a->row_bytes;
        uint64_t to""", """    for (uint32_t i = 0; i < 8; i++) {
        uint32_t o = (uint32_t)off + i, row = a->rows == 1 ? 0 : o / (uint32_t)a->row_bytes;
        uint64_t to""")]),
    # the other collectives
    coll("parts", "parts_wrong_part", "all destinations get what the first one gets",
         [("kernels/parts_direct_tiles.h", "parts_pair(p, ccl_rotate(a, d + i))->send_off;", "parts_pair(p, ccl_rotate(a, d))->send_off;")]),
    coll("parts", "parts_unreleased", "DONE without a release of what has been stored directly",
         [("kernels/parts.hip", "    parts_store_direct(p, b, own ? 0 : 1);\n    ccl_block_release_system();\n", "    parts_store_direct(p, b, own ? 0 : 1);\n    ccl_block_sync();\n")]),
    coll("parts", "parts_slot_early", "a slot is written again before it has been read",
         [("kernels/parts.hip", "c - p->slots + 1, peer, 0, &bad);", "c - p->slots, peer, 0, &bad);")]),
    coll("parts", "parts_chunk_early", "a chunk is read before it is there",
         [("kernels/parts.hip", "parts_hear(p, b, d, c + 1,", "parts_hear(p, b, d, c,")]),
    coll("parts", "parts_wait_barrier", "the next wait writes what threads have yet to read",
         [("kernels/parts.hip", "        ccl_block_sync(); /* all threads have read what the next wait writes */\n", "")]),
    coll("parts", "parts_rest_unawaited", "a rank leaves while sources that store directly are at it",
         [("kernels/parts.hip", "return parts_hear_rest(p, b, old + 1);", "return 1;")]),
    coll("reduce", "reduce_order", "contributions are joined in another order",
         [("kernels/reduce.hip", "        r->in[src] = parts_slot(", "        r->in[a->n - 1 - src] = parts_slot("),
          ("kernels/reduce.hip", "    r->in[a->rank] = p->parts", "    r->in[a->n - 1 - a->rank] = p->parts")]),
    coll("reduce", "flat_no_rotation", "an owner reads the shard of every input from where the first one has it",
         [("kernels/reduce_flat.h", "r->in[peer] = r->from[d] + start;", "r->in[peer] = r->from[1] + start;")]),
    coll("reduce", "flat_leaves", "a rank leaves before all have read its input",
         [("kernels/reduce_steps.h", "            reduce_hear(p, r, CCL_STEP_DONE);\n", "")]),
    coll("reduce", "flat_alone", "a rank goes flat though another has said no",
         [("kernels/reduce_flat.h", "uint32_t all = !ccl_uniform(b->sh->odd);", "uint32_t all = !ccl_uniform(b->sh->odd) & (a->rank != 1);"),
          ("kernels/reduce_flat.h", "all &= ccl_uniform(b->end[d].at) == REDUCE_SAYS_YES;", "all &= ccl_uniform(b->end[d].at) >= REDUCE_SAYS_NO;")]),
    coll("reduce", "flat_refused", "one rank has not mapped the windows: rings", harmless=True, edits=
         [("kernels/reduce_flat.h", "uint32_t all = !ccl_uniform(b->sh->odd);", "uint32_t all = !ccl_uniform(b->sh->odd) & (a->rank != 1);")]),
    coll("reduce", "reduce_early", "contributions are joined before they are there",
         [("kernels/reduce_steps.h", "reduce_hear(p, r, s - lag + 1);", "reduce_hear(p, r, s - lag);")]),
    coll("reduce", "reduce_unreleased", "a step, or a flat reduction, is published without a release",
         [("kernels/reduce_steps.h", "    ccl_block_release_system(); /* behind all loads", "    ccl_block_sync(); /* behind all loads")]),
    coll("reduce", "reduce_done_early", "DONE ahead of the last results that are stored directly",
         [("kernels/reduce_steps.h", "(s + lag + 1 == steps &&", "(s + lag + 2 == steps &&")]),
    coll("reduce", "reduce_own_missing", "an owner leaves out its own elements",
         [("kernels/reduce.hip", "    r->in[a->rank] = p->parts & CCL_PARTS_SCALED ?", "    r->in[a->rank] = 1 ?")]),
    coll("p2p", "p2p_unreleased", "a message is announced without a release",
         [("kernels/p2p.hip", "        ccl_block_release_system();\n        if (ccl_afresh(ccl_tid()) == 0) {\n            p2p_moved",
           "        ccl_block_sync();\n        if (ccl_afresh(ccl_tid()) == 0) {\n            p2p_moved")]),
    coll("p2p", "p2p_slot_early", "a slot is written again before it has been read",
         [("kernels/p2p_lane.h", "step < l->chunk - p->lay.slots + 1) {", "step + 1 < l->chunk - p->lay.slots + 1) {")]),
    coll("p2p", "p2p_chunk_early", "a chunk is read before it is there",
         [("kernels/p2p_lane.h", "if (step <= l->chunk || step >= CCL_STEP_DIRECT) {", "if (step < l->chunk || step >= CCL_STEP_DIRECT) {")]),
    coll("p2p", "p2p_next_early", "threads take the next move before all have read the last one",
         [("kernels/p2p.hip", "        p2p_run(&b->move);\n        ccl_block_release_system();",
           "        p2p_run(&b->move);\n        ccl_fence_release_system();")]),
    parts_ll("parts_ll_peer_skipped", "rank 1 gets nothing",
             [("kernels/parts_ll_packets.h", "        if (l.to && l.peer != a->rank) {", "        if (l.to && l.peer != 1 && l.peer != a->rank) {")]),
    parts_ll("parts_ll_tag_off_by_one", "packets of the last operation are taken too",
             [("kernels/parts_ll_packets.h", "CCL_LANE(q, 1) != n || CCL_LANE(q, 3) != n", "CCL_LANE(q, 1) - n + 2 > 2 || CCL_LANE(q, 3) - n + 2 > 2")]),
    parts_ll("parts_ll_second_tag_ignored", "the second packet of a pair is not looked at",
             [("kernels/parts_ll_packets.h", "CCL_LANE(q, 1) != n || CCL_LANE(q, 3) != n", "CCL_LANE(q, 1) != n")]),
    parts_ll("parts_ll_order", "inputs are joined beginning with the last rank",
             [("kernels/reduce_unit_type.h", "    words[0] = ccl_of_lane(unit[0], first);\n    words[1] = ccl_of_lane(unit[1], first);",
               "    words[0] = ccl_of_lane(unit[0], first + n - 1);\n    words[1] = ccl_of_lane(unit[1], first + n - 1);"),
              ("kernels/reduce_unit_type.h", "        words[0] = ccl_of_lane(unit[0], first + r);\n        words[1] = ccl_of_lane(unit[1], first + r);",
               "        words[0] = ccl_of_lane(unit[0], first + r - 1);\n        words[1] = ccl_of_lane(unit[1], first + r - 1);")], only=REDUCE),
    parts_ll("parts_ll_half_wave", "lanes of the second half of a wave are joined with those of the first",
             [("kernels/kernel.h", "    lane |= ccl_tid() & 32;\n", "")], only=REDUCE),
    parts_ll("parts_ll_tail_overrun", "the last unit writes 8 bytes whatever is left",
             [("kernels/parts_ll_packets.h", "l.bytes = !mine ? 0 : left < 8 ? left : 8;", "l.bytes = !mine ? 0 : 8;")]),
    parts_ll("parts_ll_barrier_removed", "data threads read the operation number before it is drawn",
             [("kernels/parts_ll_packets.h", "        ccl_block_sync();\n        n = CCL_TAG(sh.entry);", "        n = CCL_TAG(sh.entry);"),
              ("kernels/parts_ll_packets.h", "            ccl_block_sync();\n            n = CCL_TAG(sh->entry);", "            n = CCL_TAG(sh->entry);")]),
    # the GEMM core
    gemm("gemm_wait_second", "the second half of a block is read before its last loads are waited for", "gfx950",
         [("kernels/gemm_cdna_direct_body.h", "GEMM_WAIT_VM(GEMM_LOADS);", "GEMM_WAIT_VM(GEMM_LOADS + 1);")]),
    gemm("gemm_wait_next", "the first half of the next block is read before its last load is waited for", "gfx950",
         [("kernels/gemm_cdna_direct_body.h", "GEMM_WAIT_VM(GEMM_LOADS + 1);", "GEMM_WAIT_VM(GEMM_LOADS + 2);")], "kn_f16_256"),
    gemm("gemm_barrier_next", "no barrier before the first half of the next block is read", "gfx950",
         [("kernels/gemm_cdna_direct_body.h", "hence its first half, has landed */\n                    GEMM_BARRIER(lds);", "*/\n")], "kn_bf16_128"),
    gemm("gemm_stage_in_use", "loads start into a stage that is still read", "gfx950",
         [("kernels/gemm_cdna_direct_body.h", "gemm_stage_behind(at, 4 * GEMM_STAGE,", "gemm_stage_behind(at, GEMM_STAGE,")]),
    gemm("gemm_halves_swapped", "the halves of chunks are not put right in odd groups of lanes", "gfx950",
         [("kernels/gemm_cdna_store_body.h", "GEMM_KN_DIRECT && (thread >> 4 & 1) != 0", "false")], "kn_f16_256"),
    gemm("gemm_barrier_removed", "no barrier between two stages", "gfx942",
         [("kernels/gemm_cdna_registers_body.h", "            GEMM_BARRIER(lds);                                           \\\n", "")]),
    gemm("gemm_mask_removed", "what lies behind a row of A is multiplied", "gfx942",
         [("kernels/gemm_cdna_loads_body.h", "r->a[i] = gemm_keep_first(GEMM_LOAD16(a, GEMM_ALL, a_valid > 0 ? t->a_off[i] + h * 64 : GEMM_NOWHERE, 0), a_valid);",
           "r->a[i] = GEMM_LOAD16(a, GEMM_ALL, a_valid > 0 ? t->a_off[i] + h * 64 : GEMM_NOWHERE, 0);")]),
    gemm("gemm_asks_too_late", "a block of A is loaded one step before its word is asked for", "gfx942",
         [("kernels/gemm_cdna_body.h", "tile->k0 / GEMM_BLOCK_K + (kb)))", "tile->k0 / GEMM_BLOCK_K + (kb) - ((kb) != 0)))")], "kn_f16_256"),
    gemm("gemm_no_acquire", "the ready word is polled without acquire", "gfx942",
         [("tests/emu/litmus/gemm_hook.hip", '        __builtin_amdgcn_fence(__ATOMIC_ACQUIRE, "agent");\n        return stop;', "        return stop;")]),
]
