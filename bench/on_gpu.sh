#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
#
# on_gpu.sh COMMAND...: put between mpirun and a program, it makes the GPUs of a node the ranks' in turn. A rank's own GPU becomes its device 0 and the others
# stay visible behind it, so that programs which know of one device only run a rank a GPU. GPUS: how many there are.
set -euo pipefail
: "${GPUS:?the number of GPUs}"
rank=${OMPI_COMM_WORLD_LOCAL_RANK:-${PMI_RANK:-0}}
order=""
for ((i = 0; i < GPUS; i++)); do
    order+=${order:+,}$(((rank + i) % GPUS))
done
export CUDA_VISIBLE_DEVICES=$order HIP_VISIBLE_DEVICES=$order
exec "$@"
