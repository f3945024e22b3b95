# SPDX-License-Identifier: MIT
"""The rules on device sources: what is refused, where, and what is fine; and which headers the cache key covers."""

from __future__ import annotations

from pathlib import Path

import pytest
from device_support import tree

from kernelwright_toolchain.device.sources import read_sources
from kernelwright_toolchain.errors import DeterminismError

FINE = {
    "function static": "inline int f() { static int y; return y; }",
    "member static": "struct S { static int f(); static constexpr int v = 3; };",
    "static assert": "static_assert(sizeof(int) == 4);",
    "comments": "/* static int a; */ // static int b; __FILE__ #include <x>\nint c;",
    "strings": 'const char* s = "static __FILE__"; const char* r = R"x(static " namespace { )x";',
    "digit separators": "constexpr int n = 1'000; inline int m = 2'0;",
    "named namespaces": "namespace a::b { namespace c __attribute__((unused)) { inline int d; } }",
    "using": "namespace a {} using namespace a; namespace z = a;",
    "template": "template <int N> __device__ int f() { return N; }",
    "kernel": 'extern "C" __global__ void k(float* p) { if (true) { static __shared__ float s[2]; } }',
    "extern block": 'extern "C" { __global__ void k() {} }',
    "macro": "#define HOST static\nint a;",
}

REFUSED = {
    "static int x;": (1, "`static`"),
    "int a;\n\n  static __device__ void f() {}": (3, "`static`"),
    "template <int N>\nstatic void f() {}": (2, "`static`"),
    "namespace a::b { static int c; }": (1, "`static`"),
    "namespace a {\ninline namespace b {\nstatic int c;\n}}": (3, "`static`"),
    'extern "C" {\nstatic int q; }': (2, "`static`"),
    "struct S { int a; };\nstatic S s;": (2, "`static`"),
    "int f() { return 0; } static int b;": (1, "`static`"),
    "char c = '\"'; static int b;": (1, "`static`"),
    "/* a\n b */ static int b;": (2, "`static`"),
    "#define M(x) \\\n  x\nstatic int b;": (3, "`static`"),
    "st\\\natic int b;": (1, "`static`"),
    "using namespace x; static int b;": (1, "`static`"),
    "namespace {\nint a;\n}": (1, "unnamed namespace"),
    "namespace [[deprecated]] {}": (1, "unnamed namespace"),
    "namespace __attribute__((unused)) {}": (1, "unnamed namespace"),
    "namespace a { inline namespace { int b; } }": (1, "unnamed namespace"),
    "\nauto d = __DATE__;": (2, "__DATE__"),
    "#define W __TIME__": (1, "__TIME__"),
    "auto f = __FI\\\nLE__;": (1, "__FILE__"),
    "auto f = __builtin_FILE();": (1, "__builtin_FILE"),
    "#if __has_include(<cuda.h>)\n#endif": (1, "__has_include"),
    "#include <cuda_fp16.h>": (1, "cuda_fp16.h is neither beside the file nor in csrc"),
    '\n#include "nothere.cuh"': (2, "nothere.cuh is neither beside the file nor in csrc"),
    "#define H <x.h>\n#include H": (2, "cannot be followed"),
    "%:include <cuda.h>": (1, "cuda.h is neither beside"),
    "#inc\\\nlude <cuda.h>": (1, "cuda.h is neither beside"),
    "#/* c */include <cuda.h>": (1, "cuda.h is neither beside"),
    '#include_next "x.cuh"': (1, "include_next"),
    '#include "host/plan.h"': (1, "csrc/ops/toy/host/plan.h, which is no device code"),
    '#include "../../secret.h"': (1, "csrc/secret.h, which is no device code"),
    '#include "core/launch.h"': (1, "csrc/core/launch.h, which is no device code"),
}


@pytest.fixture
def root(tmp_path):
    place = tree(tmp_path)
    for name in ("ops/toy/host/plan.h", "core/launch.h", "secret.h"):
        (place / "csrc" / name).parent.mkdir(exist_ok=True)
        (place / "csrc" / name).write_text("")
    return place


def read(root, text):
    (root / "csrc/ops/toy/op.cu").write_text(text, encoding="utf-8")
    return read_sources(root, Path("csrc/ops/toy/op.cu"))


@pytest.mark.parametrize("what", FINE)
def test_what_is_fine_is_not_refused(root, what):
    assert [str(file.path) for file in read(root, FINE[what])] == ["csrc/ops/toy/op.cu"]


@pytest.mark.parametrize("text", REFUSED)
def test_what_breaks_a_rule_is_refused_at_its_line(root, text):
    line, words = REFUSED[text]
    with pytest.raises(DeterminismError) as caught:
        read(root, text)
    assert str(caught.value).startswith(f"csrc/ops/toy/op.cu:{line}: ")
    assert words in str(caught.value)


def test_windows_line_ends_do_not_move_lines(root):
    with pytest.raises(DeterminismError, match=r"op\.cu:3: "):
        read(root, "int a;\r\nint b;\r\nstatic int c;\r\n")


def test_headers_are_followed_to_the_end_once_each(root):
    include = root / "csrc/ops/toy"
    (include / "a.cuh").write_text('#pragma once\n#include "device/sub/b.cuh"\n#include <ops/toy/c.cuh>\n')
    (root / "csrc/device/sub").mkdir(parents=True)
    (root / "csrc/device/sub/b.cuh").write_text('#pragma once\n#include "near.cuh"\n#include "ops/toy/c.cuh"\n')
    (root / "csrc/device/sub/near.cuh").write_text("// beside its includer\n")
    (include / "c.cuh").write_text('#include "a.cuh"\n')
    found = [
        file.path.as_posix()
        for file in read(root, '#include "a.cuh" // first\n#if 0\n#include <ops/toy/c.cuh>\n#endif\n')
    ]
    names = ["ops/toy/op.cu", "ops/toy/a.cuh", "ops/toy/c.cuh", "device/sub/b.cuh", "device/sub/near.cuh"]
    assert found == [f"csrc/{name}" for name in names]


def test_a_header_may_be_a_link_to_device_code_only(root):
    include = root / "csrc/ops/toy"
    (include / "real.cuh").write_text("// real\n")
    (include / "link.cuh").symlink_to("real.cuh")
    assert [file.path.name for file in read(root, '#include "link.cuh"')] == ["op.cu", "link.cuh"]
    (include / "out.cuh").symlink_to(root / "csrc/secret.h")
    with pytest.raises(DeterminismError, match="which is no device code"):
        read(root, '#include "out.cuh"')


def test_a_rule_holds_in_headers_too(root):
    (root / "csrc/ops/toy/a.cuh").write_text("#pragma once\nstatic int x;\n")
    with pytest.raises(DeterminismError, match=r"csrc/ops/toy/a\.cuh:2: "):
        read(root, '#include "a.cuh"')


def test_text_in_another_encoding_is_refused(root):
    (root / "csrc/ops/toy/op.cu").write_bytes("// größe".encode("latin-1"))
    with pytest.raises(DeterminismError, match="not UTF-8"):
        read_sources(root, Path("csrc/ops/toy/op.cu"))
