/* SPDX-License-Identifier: MIT
 *
 * Kernels of test_program.c: what a workitem learns about its launch, once through hidden arguments (code object v5) and once through the
 * dispatch packet (v4); and constant data, which is reached from the program counter. */
struct row {
    unsigned group, item, group_size, grid_size, value, table;
};

__attribute__((device)) const unsigned table[8] = {3, 1, 4, 1, 5, 9, 2, 6};
__attribute__((device)) const unsigned *const pointers[2] = {table + 1, table + 4}; /* needs a relocation */

extern "C" __attribute__((global, amdgpu_flat_work_group_size(1, 256))) void where(struct row *out, unsigned value)
{
    unsigned group = __builtin_amdgcn_workgroup_id_x(), item = __builtin_amdgcn_workitem_id_x(), size = __builtin_amdgcn_workgroup_size_x();
    struct row *r = out + group * size + item;

    r->group = group;
    r->item = item;
    r->group_size = size;
    r->grid_size = __builtin_amdgcn_grid_size_x();
    r->value = value;
    r->table = pointers[value & 1][item & 3];
}

extern "C" __attribute__((global, amdgpu_flat_work_group_size(1, 64))) void nothing(void)
{
}
