# SPDX-License-Identifier: MIT
"""Gates on the wheel of a project with a build of its own: each fault is planted in a library, and named with its cure."""

from __future__ import annotations

import json
import re
import shutil
import struct
import subprocess
import zipfile
from pathlib import Path

import pytest

from kernelwright_toolchain.__main__ import VERBS, main
from kernelwright_toolchain.classic import finish, gates
from kernelwright_toolchain.errors import GateError, ProvisionError
from kernelwright_toolchain.targets import load
from kernelwright_toolchain.wheel.elf import Needs

RECIPE = {"backend": "b", "build": {"target": "linux-x86_64", "archs": "sm_90,compute_90"}, "inexact": [], "libraries": ["cublas"],
          "torch": {"kind": "none", "release": None}}  # fmt: skip


def image(kind: int, number: int) -> bytes:
    """A container of one image, as nvcc lays it out; `kind` 1 is PTX, 2 machine code."""
    entry = struct.pack("<HHIQIIHHIIIQQQ", kind, 0x101, 64, 8, 0, 0, 0, 0, number, 0, 0, 0, 0, 0)
    return struct.pack("<IHHQ", 0xBA55ED50, 1, 16, 72) + entry + bytes(8)


@pytest.fixture(scope="module")
def shop(tmp_path_factory):
    """name, what it needs -> a library with code for sm_90 in it."""
    compiler = shutil.which("cc")
    if compiler is None:
        pytest.skip("no cc on PATH")
    place = tmp_path_factory.mktemp("shop")

    def made(name: str, *needs: str, code: bytes = image(2, 90) + image(1, 90)) -> bytes:
        for needed in needs:
            command = [compiler, "-shared", "-nostdlib", f"-Wl,-soname,{needed}", "-o", place / needed]
            subprocess.run([*command, "-x", "c", "/dev/null"], check=True)
        text = f'__attribute__((section(".nv_fatbin"), used)) unsigned char code[] = {{{",".join(map(str, code))}}};'
        (place / "a.c").write_text(text)
        given = [str(place / needed) for needed in needs]
        command = [compiler, "-shared", "-fPIC", "-Wl,--no-as-needed", "-o", place / name, place / "a.c", *given]
        subprocess.run(command, check=True)
        return (place / name).read_bytes()

    return made


def test_a_library_that_is_as_it_must_be_passes(shop):
    members = {
        "a/liba.so": shop(
            "liba.so", "libcublas.so.13", "libcublasLt.so.13", "libcudart.so.13", "libtorch_cpu.so", "libcuda.so.1"
        )
    }
    gates.check(members, RECIPE)
    assert gates.codes(members) == {"sm_90", "compute_90"}
    assert gates.aliens(members) == []


@pytest.mark.parametrize(
    ("needs", "code", "recipe", "words"),
    [
        (["libcusparse.so.12"], None, {}, r'a/liba\.so needs libcusparse\.so\.12.*add "cusparse"'),
        ([], image(2, 80), {}, r"compute_90, sm_90 were asked for, and the wheel has sm_80.*COMPUTE_CAPABILITY"),
        ([], b"no image", {}, "the wheel has no GPU code"),
        ([], image(2, 90) + image(1, 90) + b"/tmp/tmpxft_0000", {}, r"holds /tmp/tmpxft_…"),
    ],
    ids=["undeclared", "codes", "none", "temporary"],
)
def test_what_is_wrong_is_named_with_its_cure(shop, needs, code, recipe, words):
    members = {"a/liba.so": shop("liba.so", *needs, **({"code": code} if code else {}))}
    with pytest.raises(GateError, match=words):
        gates.check(members, {**RECIPE, **recipe})


def of_a_board(data: bytes) -> bytes:
    """The same library, for aarch64 as far as its header says."""
    return data[:18] + struct.pack("<H", 183) + data[20:]


@pytest.mark.parametrize("linked", ["libcudart.so.13", "libcublas.so.13", "cudart_static"])
@pytest.mark.parametrize(
    ("target", "userland", "words"),
    [
        (
            "l4t-r36",
            "sbsa",
            r'linked from packages for servers \(SBSA\): l4t-r36 takes .*"named symbol not found".*on the board',
        ),
        ("linux-aarch64", "tegra", r"linked from a board's toolkit \(Tegra\): linux-aarch64 takes .*--provider pip"),
        ("l4t-r36", "tegra", None),
        ("linux-aarch64", "sbsa", None),
    ],
)
def test_boards_and_servers_libraries_of_one_name_are_kept_apart(shop, linked, target, userland, words):
    static = linked == "cudart_static"
    code = image(2, 90) + image(1, 90) + (b"cudaErrorMissingConfiguration\0" if static else b"")
    members = {"a/liba.so": of_a_board(shop("liba.so", *([] if static else [linked]), code=code))}
    recipe = {**RECIPE, "build": {"target": target, "archs": "sm_90"}, "userland": userland}
    if words is None:
        gates.check(members, recipe)
        return
    with pytest.raises(GateError, match=rf"a/liba\.so {'holds cudart' if static else f'needs {linked}'}, {words}"):
        gates.check(members, recipe)


def test_a_library_that_links_nothing_of_cuda_serves_boards_and_servers(shop):
    members = {"a/liba.so": of_a_board(shop("liba.so", "libcuda.so.1"))}
    for target in ("l4t-r36", "linux-aarch64"):
        gates.check(members, {**RECIPE, "build": {"target": target, "archs": "sm_90"}, "userland": "sbsa"})


def test_another_machines_library_and_too_new_a_c_library_are_refused(shop, monkeypatch):
    library = shop("liba.so")
    recipe = {**RECIPE, "build": {"target": "linux-aarch64", "archs": "sm_90"}}
    with pytest.raises(
        GateError, match=r"a/liba\.so is for x86_64, and linux-aarch64 is aarch64: .*CXX, CC and CUDAHOSTCXX"
    ):
        gates.check({"a/liba.so": library}, recipe)
    board = {**recipe, "build": {"target": "l4t-r36", "archs": "sm_90"}}
    monkeypatch.setattr(gates, "parse", lambda _: Needs(("libc.so.6",), (("libc.so.6", "GLIBC_2.36"),)))
    with pytest.raises(GateError, match=r"asks for glibc 2\.36, and l4t-r36 has 2\.35"):
        gates.check({"a/liba.so": of_a_board(library)}, board)
    gates.check({"a/liba.so": of_a_board(library)}, recipe)


def test_nvidias_libraries_are_linked_and_never_packed(shop):
    for name in ("a/libcublas.so.13", "a.libs/libcudart.so.13", "a/libnvJitLink.so.13.0.1"):
        with pytest.raises(GateError, match=f"{re.escape(name)} is NVIDIA's"):
            gates.check({"a/liba.so": shop("liba.so"), name: b""}, RECIPE)


def test_a_wheel_that_needs_what_not_every_linux_has_is_not_called_manylinux(shop, capsys):
    target = load().targets["linux-x86_64"]
    assert finish._platform({"a/liba.so": shop("liba.so")}, target).startswith("manylinux_")
    members = {"a/liba.so": shop("liba.so", "libjpeg.so.62"), "b/libb.so": b""}
    assert finish._platform(members, target) == f"linux_{target.machine}"
    assert "needs libjpeg.so.62, which not every Linux has" in capsys.readouterr().err
    own = {"a/liba.so": shop("liba.so", "libb.so"), "b/libb.so": b""}
    assert gates.aliens(own) == []


@pytest.mark.parametrize(
    ("asked", "tag"),
    [
        ((), "manylinux_2_17_x86_64"),
        (("GLIBC_2.2.5", "GLIBCXX_3.4.11", "GCC_3.0", "libcublas.so.13"), "manylinux_2_17_x86_64"),
        (("GLIBC_2.28",), "manylinux_2_28_x86_64"),
        (("GLIBC_2.2.5", "GLIBCXX_3.4.30"), "manylinux_2_35_x86_64"),  # an old C library, and a GCC of now
        (("GLIBC_9.9",), "linux_x86_64"),
    ],
)
def test_the_tag_has_every_version_that_is_asked_of_libstdcxx_too(asked, tag):
    needs = Needs((), tuple(("libany.so", version) for version in asked))
    try:
        assert finish.policy([needs], "x86_64") == tag
    except ProvisionError as error:
        pytest.skip(f"auditwheel's table cannot be had: {str(error).splitlines()[-1]}")


def test_kwt_gates_tells_them_all_and_whether_it_can_be_uploaded(shop, tmp_path, capsys):
    for name, needs, code in (("a-1-py3-none-manylinux_2_17_x86_64.whl", (), 0),
                              ("a-1+inexact-py3-none-linux_x86_64.whl", ("libnccl.so.2",), GateError.exit_code)):  # fmt: skip
        recipe = {**RECIPE, "inexact": ["no namespaces here"] if code else []}
        with zipfile.ZipFile(tmp_path / name, "w") as archive:
            archive.writestr("a/liba.so", shop("liba.so", *needs))
            archive.writestr("a-1.dist-info/statement.json", json.dumps({"predicate": recipe}))
        assert main(["gates", str(tmp_path / name)], VERBS) == code
        said = capsys.readouterr().out
        assert said.count("\nok") + said.startswith("ok") == len(gates.GATES) - bool(code)
        assert ("PyPI  no: the version 1+inexact has a label" if code else "PyPI  yes") in said
    assert "inexact: no namespaces here" in said


def test_a_device_only_package_is_told_where_its_gates_are(tmp_path: Path, capsys):
    with zipfile.ZipFile(tmp_path / "a.whl", "w") as archive:
        archive.writestr("a-1.dist-info/statement.json", '{"predicate": {"toolchain": "1"}}')
    assert main(["gates", str(tmp_path / "a.whl")], VERBS) == 11
    assert "kwt verify" in capsys.readouterr().err
