#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""A GPU client that does something wrong, to see what becomes of its neighbours and which words it leaves.

    python3 culprit.py assert|address|trap|busy

assert: an index out of range, which PyTorch's kernels check on the device. address: a store to an address that is not
mapped. trap: a trap instruction. busy: always work in flight, for two minutes unless somebody ends it.
"""
import ctypes
import os
import sys

# Three kernels for the driver's own compiler: nothing to install. The last one spins for as many clocks as it is told.
PTX = b"""
.version 6.0
.target sm_70
.address_size 64
.visible .entry address(.param .u64 p) {
    .reg .u64 %a; .reg .u32 %v;
    ld.param.u64 %a, [p]; mov.u32 %v, 1; st.global.u32 [%a], %v; ret;
}
.visible .entry trapped(.param .u64 p) {
    trap; ret;
}
.visible .entry spin(.param .u64 p) {
    .reg .u64 %n; .reg .u64 %begin; .reg .u64 %now; .reg .pred %more;
    ld.param.u64 %n, [p];
    mov.u64 %begin, %clock64;
again:
    mov.u64 %now, %clock64; sub.u64 %now, %now, %begin; setp.lt.u64 %more, %now, %n;
    @%more bra again;
    ret;
}
"""


def launch(entry, argument):
    """Runs one of the kernels above in PyTorch's context, which must exist."""
    cuda = ctypes.CDLL("libcuda.so.1")

    def call(name, *args):
        code = getattr(cuda, name)(*args)
        if code:
            sys.exit(f"culprit.py: {name}: CUDA error {code}")
    module, function = ctypes.c_void_p(), ctypes.c_void_p()
    call("cuModuleLoadData", ctypes.byref(module), PTX)
    call("cuModuleGetFunction", ctypes.byref(function), module, entry)
    value = ctypes.c_uint64(argument)
    params = (ctypes.c_void_p * 1)(ctypes.addressof(value))
    call("cuLaunchKernel", function, 1, 1, 1, 1, 1, 1, 0, None, params, None)


def main():
    kinds = ("assert", "address", "trap", "busy")
    if len(sys.argv) != 2 or sys.argv[1] not in kinds:
        sys.exit(f"usage: culprit.py {'|'.join(kinds)}")
    import torch
    kind, x = sys.argv[1], torch.ones(1024, device="cuda")
    torch.cuda.synchronize()
    print(f"culprit: pid {os.getpid()}, now: {kind}", flush=True)
    if kind == "assert":
        x[torch.tensor([1 << 20], device="cuda")].sum()
    elif kind == "address":
        launch(b"address", 16)
    elif kind == "trap":
        launch(b"trapped", 0)
    else:
        print("culprit: work in flight", flush=True)
        for _ in range(120):  # of about a second: bounded, should nobody end it
            launch(b"spin", 1_500_000_000)
            torch.cuda.synchronize()
    torch.cuda.synchronize()  # PyTorch raises here, in its own words
    print("culprit: no error came", flush=True)


if __name__ == "__main__":
    main()
