# SPDX-License-Identifier: MIT
"""What a program was compiled against stays: a changed function or number is shown, a new one is free."""

from __future__ import annotations

import json

import pytest

from kernelwright_toolchain.abi import promise
from kernelwright_toolchain.abi.read import SHARED
from kernelwright_toolchain.errors import GateError, TableError
from tests.tree import ROOT

BASE = """
typedef int32_t kw_status;
typedef struct kw_pair { int64_t first; const float *second; } kw_pair;
enum { KW_OK = 0, KW_ERROR_CUDA = 9 };
KW_API int32_t kw_abi(void);
KW_API kw_status kw_add(int32_t device, const float *x, int64_t n);
"""


@pytest.fixture
def tree(tmp_path):
    """Version 1.0.0, released with ABI 3, and 1.1.0 in the making; `change` edits a header, `number` the library."""

    class Tree:
        def change(self, old: str, new: str) -> None:
            header = tmp_path / SHARED / "base.h"
            text = header.read_text()
            assert old in text
            header.write_text(text.replace(old, new))

        def number(self, value: int) -> None:
            (tmp_path / promise.NUMBER).write_text(f"int32_t kw_abi(void) {{ return {value}; }}\n")

        def version(self, value: str) -> None:
            (tmp_path / "pyproject.toml").write_text(f'[project]\nname = "k"\nversion = "{value}"\n')

        def write(self) -> None:
            (tmp_path / promise.RECORD).write_bytes(promise.text(tmp_path))

        def check(self) -> promise.Changes:
            return promise.check(tmp_path)

    made = Tree()
    (tmp_path / SHARED).mkdir(parents=True)
    (tmp_path / promise.NUMBER).parent.mkdir(parents=True)
    (tmp_path / SHARED / "base.h").write_text(BASE)
    (tmp_path / promise.RECORD).write_text("[]")
    made.number(3)
    made.version("1.0.0")
    made.write()
    made.version("1.1.0")
    return made


def test_this_tree_keeps_what_it_recorded():
    promise.check(ROOT)  # the error's text says what changed, and what to do


def test_the_same_is_kept_and_so_is_more(tree):
    assert tree.check() == promise.Changes((), ())
    tree.change("KW_API int32_t kw_abi", "KW_API void kw_more(void);\nKW_API int32_t kw_abi")
    tree.change("KW_ERROR_CUDA = 9", "KW_ERROR_CUDA = 9, KW_ERROR_NEW = 10")
    tree.change("const float *x, int64_t n", "const float *values, int64_t count")  # a name is nothing to a program
    assert tree.check() == promise.Changes((), ("KW_ERROR_NEW", "kw_more"))


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ("int64_t first;", "int32_t first;", "kw_pair: was int64_t first; const float * second, is int32_t first"),
        ("int64_t first; const float *second;", "const float *second; int64_t first;", "kw_pair: was int64_t first"),
        ("const float *second; }", "const float *second; int32_t third; }", "kw_pair: was int64_t first"),
        ("typedef struct kw_pair { int64_t first; const float *second; } kw_pair;", "", "kw_pair: was int64_t first"),
        ("int64_t n", "int32_t n", "kw_add: was kw_status (int32_t, const float *, int64_t), is kw_status (int32_t,"),
        ("int64_t n", "int64_t n, double eps", "kw_add: was "),
        ("kw_status kw_add", "int64_t kw_add", "is int64_t (int32_t, const float *, int64_t)"),
        ("kw_add", "kw_sum", "kw_add: was kw_status (int32_t, const float *, int64_t), is gone"),
        ("KW_ERROR_CUDA = 9", "KW_ERROR_CUDA = 8", "KW_ERROR_CUDA: was 9, is 8"),
    ],
)
def test_what_breaks_a_program_is_shown_unless_the_number_is_raised(tree, old, new, said):
    tree.change(old, new)
    for _ in range(2):
        with pytest.raises(GateError, match=r"the C ABI 3 of 1\.0\.0 is not kept") as told:
            tree.check()
        assert said in str(told.value)
        assert "raise the number in csrc/core/version.cpp" in str(told.value)
        tree.write()  # recording it for 1.1.0 does not make it right
    tree.number(4)
    tree.check()
    tree.number(2)
    with pytest.raises(GateError, match=r"kw_abi\(\) returns 2, and 1\.0\.0 had 3"):
        tree.check()


def test_what_is_not_released_yet_may_change_and_is_recorded(tree):
    tree.change("KW_API int32_t kw_abi", "KW_API void kw_more(void);\nKW_API int32_t kw_abi")
    tree.write()
    tree.change("kw_more(void)", "kw_more(int32_t n)")
    with pytest.raises(GateError, match=r"(?s)of 1\.1\.0 is not kept.*1\.1\.0 is not released yet.*abi --write"):
        tree.check()
    tree.write()
    assert tree.check() == promise.Changes((), ())


def test_a_record_that_is_none_is_told(tree, tmp_path):
    for text in ("", "{", '[{"version": "1"}]', json.dumps([1])):
        (tmp_path / promise.RECORD).write_text(text)
        with pytest.raises(TableError, match=r"csrc/include/abi\.json cannot be read"):
            tree.check()
    (tmp_path / promise.NUMBER).write_text("")
    with pytest.raises(TableError, match="where the number of the ABI is read"):
        tree.check()
