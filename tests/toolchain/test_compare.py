# SPDX-License-Identifier: MIT
"""Wheels with one planted difference each: found, and named by its cause."""

from __future__ import annotations

import json

import pytest
import tiny
from device_support import Made

from kernelwright_toolchain.errors import RequestError, ToolMissing
from kernelwright_toolchain.exact import compare, image, library, sass, wheel
from kernelwright_toolchain.exact.verify import verify
from kernelwright_toolchain.exact.wheel import false_claims
from kernelwright_toolchain.providers import environment
from tests.tree import ROOT

CODE = "int kw_add(int a) { return a * 3 + 1; }\nint kw_other(int a) { return a - 5; }\n"
HEAD = ".version 8.2\n.target sm_90\n"


@pytest.fixture
def members(tmp_path) -> dict[str, bytes]:
    one = Made(kernel="k_one").bytes()
    return {
        tiny.LIBRARY: tiny.library(tmp_path, CODE),
        "kernelwright/manifest.json": tiny.manifest(("sm_89", "op", one)),
        "kernelwright/kernels/sm_89/op.cubin": one,
        "kernelwright/kernels/compute_90/op.ptx": f"{HEAD}.visible .entry k_one()\n{{ ret; }}\n".encode(),
        "kernelwright/x.py": b"x = 1\n",
    }


@pytest.fixture
def found(members, tmp_path):
    """(member, kind, words) of what differs between a wheel with these changes and the plain one."""

    def act(changes: dict[str, bytes], recipe=None, **how) -> list[tuple[str, str, str]]:
        ours = wheel.read(tiny.write(tmp_path / tiny.NAME, tiny.sealed(members)))
        (tmp_path / "theirs").mkdir(exist_ok=True)
        theirs = tiny.write(tmp_path / "theirs" / tiny.NAME, tiny.sealed({**members, **changes}, recipe), **how)
        made = compare.compare(wheel.read(theirs), ours)
        return [(difference.member, difference.kind, difference.words) for difference in made]

    return act


def kinds(found: list[tuple[str, str, str]], member: str | None = None) -> set[str]:
    return {kind for name, kind, _ in found if kind != "follows" and member in (None, name)}


def test_the_same_wheel_has_no_difference(found):
    assert found({}) == []


def test_what_follows_is_not_taken_for_a_cause(found):
    told = found({"kernelwright/x.py": b"x = 2\n"})
    assert kinds(told) == {"text"}
    assert [words for member, _, words in told if member == "kernelwright/x.py"] == [
        "2 lines differ:\n    -x = 2\n    +x = 1"
    ]
    assert {name.rpartition("/")[2] for name, kind, _ in told if kind == "follows"} == {"RECORD", "statement.json"}


def test_a_path_in_a_file_is_shown(found):
    told = found({"kernelwright/x.py": b"x = 1  # /export/alice/src/x.py\n"})
    assert kinds(told) == {"path"}
    assert "'/export/alice/src/x.py' in the wheel, nothing like it in the rebuilt one" in told[0][2]


def test_a_clock_in_a_file_or_in_the_archive_is_shown(found):
    assert kinds(found({"kernelwright/x.py": b"x = 1  # made 2026-11-21\n"})) == {"clock"}
    dated = found({}, date=(2026, 11, 21, 8, 30, 2))
    assert kinds(dated) == {"clock"}
    assert dated[0][2] == "dated 2026-11-21 08:30:02 in the wheel, 1980-01-01 00:00:00 in the rebuilt one"


@pytest.mark.parametrize(
    ("text", "flags", "expected", "words"),
    [
        ('const char* kw_at = "/export/alice/k/csrc/a.cpp";', (), "path", "'/export/alice/k/csrc/a.cpp' in the wheel"),
        ('const char* kw_at = "Nov 21 2026 08:30:02";', (), "clock", "'Nov 21 2026' in the wheel"),
        ("", ("-Wl,--build-id=0xabcdef0123456789",), "build-id", "abcdef0123456789 in the wheel, none"),
        ('__asm__(".ident \\"clang version 99.1\\"");', (), "compiler", "'clang version 99.1' in the wheel"),
        (
            'static const char* at = "other words"; const char** kw_at = &at;',
            (),
            "exports",
            "kw_at is only in the wheel",
        ),
    ],
)
def test_a_difference_in_the_library_is_named(found, tmp_path, text, flags, expected, words):
    told = found({tiny.LIBRARY: tiny.library(tmp_path, CODE + text, *flags)})
    assert expected in kinds(told)
    assert kinds(told) <= {expected, "exports"}
    assert any(words in said for member, kind, said in told if (member, kind) == (tiny.LIBRARY, expected)), told


def test_changed_machine_code_names_its_functions(found, tmp_path):
    told = found({tiny.LIBRARY: tiny.library(tmp_path, CODE.replace("a - 5", "a - 6"))})
    assert kinds(told) == {"code"}
    assert "1 functions of the C ABI among them: kw_other" in told[0][2]


def test_other_flags_and_compilers_are_named_and_explain_the_code(found, tmp_path):
    recipe = json.loads(json.dumps(tiny.RECIPE))
    recipe["host_compiler"]["compile"] = ["-O0", "-fPIC"]
    told = found({tiny.LIBRARY: tiny.library(tmp_path, CODE, "-O0")}, recipe)
    assert kinds(told) == {"flags"}
    assert told[0][2] == "host compiler, to compile: -O0 in the wheel, -O3 in the rebuilt one"
    recipe = {**tiny.RECIPE, "device_compiler": {"driver": "nvrtc", "version": "12.4.127"}}
    told = found({}, recipe)
    assert kinds(told) == {"compiler"}
    assert "nvrtc 12.4.127 in the wheel" in told[0][2]


def test_other_sources_and_locks_are_named(found):
    recipe = {**tiny.RECIPE, "inputs": {"csrc/a.cpp": "b" * 64}, "locks": {"locks/x.txt": "2" * 64}}
    told = found({}, {**recipe, "source": {"sha256": "6" * 64}})
    assert kinds(told) == {"source", "tools"}
    assert "csrc/a.cpp: not the files the wheel was made from" in told[1][2]


def test_packing_alone_is_summed_up(found, members):
    members.update({f"kernelwright/m{number}.py": b"x" for number in range(60)})
    told = found({}, date=(2026, 11, 21, 8, 30, 2))
    (said,) = told
    count = len(tiny.sealed(members))
    assert said[:2] == ("the wheel", "clock")
    assert said[2].startswith(f"{count} members are packed otherwise, as kernelwright")
    assert said[2].endswith("dated 2026-11-21 08:30:02 in the wheel, 1980-01-01 00:00:00 in the rebuilt one")


def test_bytes_before_the_archive_are_named(members, tmp_path):
    """Installers find the archive from its end."""
    plain = tiny.write(tmp_path / tiny.NAME, tiny.sealed(members))
    ours = wheel.read(plain)
    plain.write_bytes(b"#!/bin/sh\nexit 1\n" + plain.read_bytes())
    (said,) = compare.compare(wheel.read(plain), ours)
    assert (said.member, said.kind) == ("the wheel", "packing")
    assert said.words == "17 bytes stand before the archive; no wheel has any"


def test_an_image_in_the_place_of_another_is_named(found, members):
    members["kernelwright/kernels/sm_86/op.cubin"] = Made(kernel="k_other").bytes()
    told = found({"kernelwright/kernels/sm_86/op.cubin": members["kernelwright/kernels/sm_89/op.cubin"]})
    assert kinds(told) == {"image"}
    assert told[0][0] == "kernelwright/kernels/sm_86/op.cubin"
    assert told[0][2] == "it is kernelwright/kernels/sm_89/op.cubin of the rebuilt one, under another's name"


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (
            {"source": {"sha256": "6" * 64}},
            f"its inputs have the sha256 {tiny.RECIPE['source']['sha256']}, and it says 6",
        ),
        ({"build": {**tiny.RECIPE["build"], "toolkit": "cu999"}}, "it says toolkit 'cu999', and the manifest 'cu122'"),
        ({"build": {**tiny.RECIPE["build"], "target": "l4t-r36"}}, "it says target 'l4t-r36', and the manifest 'linux"),
        ({"build": {**tiny.RECIPE["build"], "provider": "nix"}}, "it says provider 'nix', and the manifest 'pip'"),
        ({"device_compiler": {"driver": "nvcc", "version": "1"}}, "it names another device compiler than the manifest"),
    ],
)
def test_a_statement_that_contradicts_itself_or_the_manifest_is_a_false_claim(members, tmp_path, change, words):
    members["kernelwright/manifest.json"] = json.dumps(
        {
            **json.loads(members["kernelwright/manifest.json"]),
            "target": "linux-x86_64",
            "toolkit": "cu122",
            "provider": "pip",
        }
    ).encode()
    assert [*false_claims(wheel.read(tiny.write(tmp_path / tiny.NAME, tiny.sealed(members))))] == []
    wrong = tiny.sealed(members, {**tiny.RECIPE, **change})
    (said,) = false_claims(wheel.read(tiny.write(tmp_path / tiny.NAME, wrong)))
    assert (said.member, said.kind) == (f"{tiny.INFO}statement.json", "claim")
    assert words in said.words


def test_members_that_came_or_went_are_named(found, members):
    assert kinds(found({"kernelwright/y.py": b""}), "kernelwright/y.py") == {"extra"}
    del members["kernelwright/x.py"]
    assert kinds(found({"kernelwright/x.py": b""}), "kernelwright/x.py") == {"extra"}


def test_a_changed_kernel_is_named_with_its_machine_code(found, members, monkeypatch):
    before, after = Made(kernel="k_one").bytes(), Made(kernel="k_one").bytes().replace(b"\x90" * 16, b"\x91" * 16)
    listings = {before: {"k_one": ["MOV R1, R2", "FADD R0, R1, R1", "EXIT"]}, after: {"k_one": ["MOV R1, R2", "EXIT"]}}
    monkeypatch.setattr(sass, "listing", listings.__getitem__)
    told = found({"kernelwright/kernels/sm_89/op.cubin": after})
    assert kinds(told) == {"kernel"}
    (words,) = [words for _, kind, words in told if kind == "kernel"]
    assert words.startswith("kernel k_one: 0 instructions of 2 are others (1 of 3):")
    assert "\n    +FADD R0, R1, R1" in words
    manifest = [kind for member, kind, _ in told if member.endswith("manifest.json")]
    assert manifest == []  # the wheel's manifest was not changed with it: a claim, which verify reports


def test_a_changed_ptx_kernel_is_named(found):
    text = f"{HEAD}.visible .entry k_one()\n{{ add.f32; ret; }}\n".encode()
    told = found({"kernelwright/kernels/compute_90/op.ptx": text})
    assert kinds(told) == {"kernel"}
    assert "kernel k_one: 2 lines of PTX differ:" in told[0][2]
    assert [kind for kind, _ in image.ptx(b"// Cuda compilation tools, V12.4\n" + text, text)] == ["compiler"]


def test_what_is_no_library_or_image_is_said(members):
    assert [kind for kind, _ in library.differences(b"MZ", members[tiny.LIBRARY], explained=False)] == ["code"]
    assert [kind for kind, _ in image.cubin(b"MZ", Made().bytes())] == ["image"]


@pytest.mark.parametrize("provider", environment.HOW)
def test_outside_of_its_environment_a_wheel_of_its_compilers_is_refused_in_words(members, tmp_path, provider):
    """Nobody there can make it again, and half a check would look like a whole one."""
    recipe = {**tiny.RECIPE, "build": {**tiny.RECIPE["build"], "provider": provider}}
    path = tiny.write(tmp_path / tiny.NAME, tiny.sealed(members, recipe))
    with pytest.raises(
        ToolMissing, match=f"takes the compilers of this tree's {provider} environment, and none is active"
    ):
        verify(path, ROOT, cached=True, jobs=1)


def test_a_wheel_without_a_recipe_is_refused_in_words(members, tmp_path):
    path = tiny.write(tmp_path / tiny.NAME, members)
    with pytest.raises(RequestError, match=r"holds no recipe: .*statement\.json is not in it"):
        verify(path, ROOT, cached=True, jobs=1)
    (tmp_path / "x.whl").write_bytes(b"PK")
    with pytest.raises(RequestError, match="cannot be read as a wheel"):
        verify(tmp_path / "x.whl", ROOT, cached=True, jobs=1)


def test_a_member_that_was_changed_later_belies_record_and_statement(members, tmp_path):
    whole = tiny.sealed(members)
    assert list(false_claims(wheel.read(tiny.write(tmp_path / tiny.NAME, whole)))) == []
    forged = {**whole, "kernelwright/x.py": b"import os\n"}
    del forged["kernelwright/kernels/compute_90/op.ptx"]
    told = [*false_claims(wheel.read(tiny.write(tmp_path / tiny.NAME, forged)))]
    assert [(d.member, d.kind) for d in told] == [
        ("kernelwright/x.py", "claim"), ("kernelwright/kernels/compute_90/op.ptx", "claim"),
    ]  # fmt: skip
    assert "RECORD and statement" in told[0].words
    resigned = {**forged, f"{tiny.INFO}RECORD": tiny.record(forged)}
    told = [*false_claims(wheel.read(tiny.write(tmp_path / tiny.NAME, resigned)))]
    assert "own statement says" in told[0].words
