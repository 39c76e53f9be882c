# shellcheck shell=bash
# SPDX-License-Identifier: MIT
#
# Sourced by the scripts of bench/: mpi_run RANKS COMMAND... starts ranks with Open MPI's mpirun on this node, as any user, with no
# network but loopback. A core each while there are enough; else all may run anywhere, and Open MPI yields while it waits
# (it knows that cores are short).
mpi_run() {
    local ranks=$1 bind=core
    shift
    [ "$ranks" -le "$(nproc)" ] || bind=none
    OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 OMPI_MCA_rmaps_base_oversubscribe=1 \
        OMPI_MCA_btl=self,vader OMPI_MCA_oob_tcp_if_include=lo OMPI_MCA_btl_base_warn_component_unused=0 \
        OMPI_MCA_plm_rsh_agent='' mpirun --bind-to "$bind" -n "$ranks" "$@"
}
