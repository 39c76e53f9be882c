# SPDX-License-Identifier: MIT
#
# Sourced by the scripts of bench/: mpi_run RANKS COMMAND... starts ranks with Open MPI's mpirun. A core each while there are
# enough, else all may run anywhere and Open MPI yields while it waits (it knows that cores are short).
mpi_run() {
    local ranks=$1 cores bind
    shift
    cores=$(nproc)
    if [ "$ranks" -le "$cores" ]; then
        bind=(--bind-to core)
    else
        bind=(--bind-to none --oversubscribe)
    fi
    if [ "$(id -u)" -eq 0 ]; then
        bind+=(--allow-run-as-root)
    fi
    mpirun "${bind[@]}" -n "$ranks" "$@"
}
