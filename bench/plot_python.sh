# shellcheck shell=bash
# SPDX-License-Identifier: MIT
#
# Sourced by what plots or tests the plots.

# plot_python: prints a python3 with matplotlib; the first one in PATH may be another than the distribution's. Status 1: there is none.
plot_python() {
    local python
    for python in python3 /usr/bin/python3; do
        if "$python" -c 'import matplotlib' 2>/dev/null; then
            echo "$python"
            return 0
        fi
    done
    return 1
}
