# SPDX-License-Identifier: MIT
"""The public headers are read strictly; what they say is what Python binds and C programs include."""

from __future__ import annotations

import json
import re
import shutil
import subprocess

import pytest

from kernelwright_toolchain.abi import AbiError, header_directories, read_headers, signatures, umbrella
from tests.tree import ROOT

HEADERS = header_directories(ROOT)


@pytest.fixture
def headers(tmp_path):
    """A directory of headers: base.h and whatever else a test gives."""

    def make(base="", **others):
        (tmp_path / "base.h").write_text(base)
        for name, text in others.items():
            (tmp_path / f"{name}.h").write_text(text)
        return read_headers(tmp_path)

    return make


def test_declarations_and_constants(headers):
    abi = headers(
        "#ifndef G\n#define G\n/* KW_API int32_t kw_commented(void); */\n"
        "typedef int32_t kw_status;\nenum { KW_A = 0, KW_B = -1, /* c */ KW_C = 12 };\n"
        "KW_API const char *kw_name(void);\n#endif\n",
        zeta="KW_API kw_status kw_zeta(const void *x, int64_t x_stride,\n   float *out, double eps,\n const char **s);\n",
        alpha="KW_API void kw_alpha(size_t n, uint8_t *bytes);\n",
    )
    assert abi.constants == {"KW_A": 0, "KW_B": -1, "KW_C": 12}
    assert abi.headers == ["base.h", "alpha.h", "zeta.h"]
    found = json.loads(signatures(abi))
    assert found == {
        "schema": 1,
        "constants": abi.constants,
        "structs": {},
        "functions": {
            "kw_name": {"header": "base.h", "returns": "const char *", "arguments": []},
            "kw_alpha": {
                "header": "alpha.h",
                "returns": "void",
                "arguments": [["n", "size_t"], ["bytes", "uint8_t *"]],
            },
            "kw_zeta": {
                "header": "zeta.h",
                "returns": "kw_status",
                "arguments": [
                    ["x", "const void *"],
                    ["x_stride", "int64_t"],
                    ["out", "float *"],
                    ["eps", "double"],
                    ["s", "const char **"],
                ],
            },
        },
    }


@pytest.mark.parametrize(
    ("text", "line", "words"),
    [
        ("KW_API int kw_f(void);", 1, "type 'int' of 'kw_f' is not known; there are"),
        ("\nKW_API void kw_f(\n  half x);", 3, "type 'half' of 'x'"),
        ("KW_API void kw_f(half *x);", 1, "type 'half' of 'x' is not known behind *"),
        ("KW_API void kw_f(uint8_t x);", 1, "type 'uint8_t' of 'x'"),
        ("KW_API void kw_f(void x);", 1, "cannot be void"),
        ("KW_API void kw_f(int32_t);", 1, "'int32_t' is not a type and a name"),
        ("KW_API void kw_f();", 1, "is not a type and a name"),
        ("KW_API void kw_f(int32_t a, int32_t a);", 1, "two arguments are called 'a'"),
        ("KW_API void kw_f(int32_t a, ...);", 1, "is not"),
        ("KW_API void kw_f(int32_t a[4]);", 1, "is not a type and a name"),
        ("KW_API void kw_f(void (*f)(void));", 1, "without function pointers"),
        ("KW_API void kw_f(int32_t const *a);", 1, "is not of the form"),
        ("KW_API void kw_f(void *const a);", 1, "is not of the form"),
        ("KW_API void kw_f(unsigned int a);", 1, "is not of the form"),
        ("KW_API void f(void);", 1, "does not begin with kw_"),
        ("KW_API void kw_f(void)", 1, "no ';' after this"),
        ("KW_API void kw_f(void)\nKW_API void kw_g(void);", 1, "a declaration is KW_API"),
        ("KW_API void kw_f(void);\nKW_API void kw_f(void);", 2, "declared in base.h already"),
        ("\nvoid kw_f(void);", 2, "'void' begins neither"),
        ("struct S { int32_t a; };", 1, "'struct' begins neither"),
        ("typedef struct kw_s { int32_t a; } kw_t;", 1, "a struct is written typedef struct kw_name"),
        ("typedef struct { int32_t a; } kw_s;", 1, "a struct is written typedef struct kw_name"),
        ("typedef struct s { int32_t a; } s;", 1, "a struct is written typedef struct kw_name"),
        ("typedef struct kw_s { } kw_s;", 1, "a struct is written typedef struct kw_name"),
        ("typedef struct kw_s {\n half a; } kw_s;", 2, "type 'half' of 'a'"),
        ("typedef struct kw_s { int32_t a[2]; } kw_s;", 1, "is not a type and a name"),
        ("KW_API void kw_f(kw_s *x);\ntypedef struct kw_s { int32_t a; } kw_s;", 1, "type 'kw_s' of 'x' is not known"),
        ("typedef struct kw_s { int32_t a; } kw_s;\nKW_API void kw_f(kw_s x);", 2, "type 'kw_s' of 'x' is not known"),
        ("enum Named { KW_A = 0 };", 1, "without a name"),
        ("enum { KW_A };", 1, "is not KW_NAME = number"),
        ("enum {\n KW_A = 1 << 2 };", 2, "is not KW_NAME = number"),
        ("enum { A = 1 };", 1, "is not KW_NAME = number"),
        ("enum { KW_A = 1 };\nenum { KW_A = 2 };", 2, "defined already"),
    ],
)
def test_what_is_not_understood_is_refused_at_its_line(headers, text, line, words):
    with pytest.raises(AbiError) as caught:
        headers(text)
    assert str(caught.value).startswith(f"base.h:{line}: ")
    assert words in str(caught.value)


def test_structs(headers):
    """Members keep their order: it is where they lie."""
    text = "typedef struct kw_s { int64_t b; const void *a; } kw_s;\nKW_API void kw_f(const kw_s *x, kw_s *y);\n"
    abi = headers(text)
    assert json.loads(signatures(abi))["structs"] == {"kw_s": [["b", "int64_t"], ["a", "const void *"]]}
    assert abi.functions["kw_f"].arguments == (("x", "const kw_s *"), ("y", "kw_s *"))


def test_a_directory_without_base_is_refused(tmp_path):
    with pytest.raises(AbiError, match=r"no base\.h"):
        read_headers(tmp_path)


def test_the_umbrella_includes_every_header_and_not_itself(tmp_path, headers):
    headers(zeta="", alpha="")
    (tmp_path / "kernelwright.h").write_text("garbage")
    text = umbrella(read_headers(tmp_path)).decode()
    assert re.findall(r"#include <(.*)>", text) == [f"kernelwright/{name}.h" for name in ("base", "alpha", "zeta")]


def test_the_headers_of_this_tree(tmp_path):
    """Every KW_API line of the tree is in the table, and the umbrella is C that compiles."""
    abi = read_headers(*HEADERS)
    declared = {
        name
        for folder in HEADERS
        for path in folder.glob("*.h")
        for name in re.findall(r"^KW_API.*?\b(kw_\w+)\(", path.read_text(), re.MULTILINE)
    }
    assert declared == set(abi.functions)
    assert abi.functions["kw_rms_norm"].arguments[0] == ("device", "int32_t")
    assert abi.functions["kw_rms_norm"].arguments[-1] == ("eps", "double")
    assert len(abi.functions["kw_rms_norm"].arguments) == 17
    assert (abi.constants["KW_OK"], abi.constants["KW_CPU"], abi.constants["KW_ERROR_SYSTEM"]) == (0, -1, 12)
    compiler = shutil.which("cc") or shutil.which("gcc") or shutil.which("clang")
    if not compiler:
        pytest.skip("no C compiler on PATH to include the umbrella with")
    (tmp_path / "kernelwright").mkdir()
    for path in (path for folder in HEADERS for path in folder.glob("*.h")):
        shutil.copy(path, tmp_path / "kernelwright")
    (tmp_path / "kernelwright/kernelwright.h").write_bytes(umbrella(abi))
    uses = "\n".join(f"void *use_{name} = (void *){name};" for name in abi.functions)
    (tmp_path / "main.c").write_text(f"#include <kernelwright/kernelwright.h>\n{uses}\n")
    subprocess.run([compiler, "-Wall", "-Werror", "-I", ".", "-c", "main.c"], cwd=tmp_path, check=True)
