# SPDX-License-Identifier: MIT
"""ptxas's log in the forms that nvcc and NVRTC give it."""

from __future__ import annotations

from kernelwright_toolchain.device.log import Spills, spills, warnings

NVRTC = """ptxas info    : 304 bytes gmem
ptxas info    : Compiling entry function 'k_spill' for 'sm_80'
ptxas info    : Function properties for k_spill
ptxas         .     1032 bytes stack frame, 980 bytes spill stores, 1020 bytes spill loads
ptxas info    : Used 32 registers, 360 bytes cmem[0]
ptxas info    : Compiling entry function 'k_b' for 'sm_80'
ptxas info    : Function properties for k_b
ptxas         .     512 bytes stack frame, 0 bytes spill stores, 0 bytes spill loads
ptxas info    : Used 30 registers, 360 bytes cmem[0]
"""

NVCC = """op.cu(2): warning #177-D: variable "kTab" was declared but never referenced
ptxas info    : 0 bytes gmem
ptxas info    : Compiling entry function 'k_rec' for 'sm_90'
ptxas info    : Function properties for k_rec
    0 bytes stack frame, 8 bytes spill stores, 4 bytes spill loads
ptxas info    : Used 26 registers, used 0 barriers
ptxas info    : Compile time = 6.569 ms
ptxas info    : Function properties for _Z3recPfi
    32 bytes stack frame, 32 bytes spill stores, 32 bytes spill loads
ptxas warning : Stack size for entry function 'k_rec' cannot be statically determined
"""


def test_nvrtcs_form():
    assert spills(NVRTC) == {"k_spill": Spills(980, 1020), "k_b": Spills(0, 0)}
    assert warnings(NVRTC) == []


def test_what_a_function_spills_counts_for_the_kernel_that_calls_it():
    assert spills(NVCC) == {"k_rec": Spills(40, 36)}


def test_warnings_are_found():
    assert [line.partition(":")[0] for line in warnings(NVCC)] == ["op.cu(2)", "ptxas warning "]


def test_a_log_that_names_no_kernel_says_nothing():
    assert spills("0 bytes stack frame, 8 bytes spill stores, 4 bytes spill loads\n") == {}
