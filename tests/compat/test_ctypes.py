#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Proves that a Python program which opens the library by itself, as vLLM and CuPy do, can use it: the id goes by value, nothing else was loaded before.

Usage: test_ctypes.py LIBRARY
"""
import ctypes
import sys

ID_BYTES, COUNT, INT32 = 128, 1000, 2


class UniqueId(ctypes.Structure):
    _fields_ = [("internal", ctypes.c_byte * ID_BYTES)]


def main():
    nccl = ctypes.CDLL(sys.argv[1])
    nccl.ncclGetErrorString.restype = ctypes.c_char_p
    nccl.ncclGetLastError.restype = ctypes.c_char_p

    def call(name, types, *values):
        function = getattr(nccl, name)
        function.argtypes = types
        rc = function(*values)
        if rc != 0:
            sys.exit(f"{name}: {rc}, {nccl.ncclGetErrorString(rc)}, {nccl.ncclGetLastError(None)}")

    pointer = ctypes.c_void_p
    version, comm, unique_id = ctypes.c_int(), pointer(), UniqueId()
    send, recv = (ctypes.c_int * COUNT)(*range(COUNT)), (ctypes.c_int * COUNT)()
    call("ncclGetVersion", [pointer], ctypes.byref(version))
    call("ncclGetUniqueId", [pointer], ctypes.byref(unique_id))
    call("ncclCommInitRank", [pointer, ctypes.c_int, UniqueId, ctypes.c_int], ctypes.byref(comm), 1, unique_id, 0)
    call("ncclAllGather", [pointer, pointer, ctypes.c_size_t, ctypes.c_int, pointer, pointer], send, recv, COUNT, INT32, comm, None)
    call("cclStreamSynchronize", [pointer], None)
    call("ncclCommDestroy", [pointer], comm)
    wrong = [i for i in range(COUNT) if recv[i] != i]
    print(f"version {version.value}, {len(wrong)} of {COUNT} elements are wrong")
    return int(bool(wrong) or version.value not in (22809, 22707))


if __name__ == "__main__":
    sys.exit(main())
