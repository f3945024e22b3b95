# SPDX-License-Identifier: MIT
"""`kernelwright xray`: where it says that a file runs, and the causes it names."""

from __future__ import annotations

import json
import tempfile
from pathlib import Path

import pytest

from kernelwright import __main__ as program
from kernelwright.doctor.xray import _code, _place, _serve
from kernelwright.doctor.xray.facts import examine
from tests.doctor.cuda_files import Image, Library, container, cubin, ptx, sass, wheel
from tests.doctor.made_up import H100, ORIN, WORKSTATION

GLIBC = {"/lib/x86_64-linux-gnu/libc.so.6": b"GNU C Library stable release version 2.35.\0"}
LIBC = (("libc.so.6", ("GLIBC_2.17",)),)


def modules(*containers):
    made = [(".nv_fatbin", images) for images in containers]
    return _code.modules_of_library([(where, tuple(_entry(image) for image in images)) for where, images in made])


def _entry(image):
    from kernelwright.doctor.xray import _fatbin
    from kernelwright.doctor.xray._view import View

    ((entry,),) = _fatbin.containers(View(container(image)))
    return entry


@pytest.mark.parametrize(
    ("images", "gpu", "level", "outcome", "code"),
    [
        (sass("90"), (9, 0), (12, 2), "runs", "sm_90"),
        (sass("80"), (8, 9), None, "runs", "sm_80"),
        (sass("80", "86", "89"), (8, 9), None, "runs", "sm_89"),
        (sass("86"), (8, 7), None, "fails", None),  # the table knows that desktop code is not a board's
        (sass("87"), (8, 9), None, "fails", None),
        (sass("90a"), (9, 0), None, "runs", "sm_90a"),
        (sass("90a"), (10, 0), None, "fails", None),
        (sass("100f"), (10, 3), None, "runs", "sm_100f"),
        (sass("100a"), (10, 3), None, "fails", None),
        (sass("101"), (10, 1), (12, 8), "runs", "sm_101"),  # Thor, as it is called before and from CUDA 13 on
        (sass("101"), (11, 0), (13, 0), "fails", None),
        (sass("110"), (10, 1), (12, 8), "fails", None),
        (sass("100"), (10, 1), (12, 8), "fails", None),
        ([ptx("90", (8, 2))], (10, 1), (12, 8), "compiles", "compute_90"),
        (sass("60"), (6, 1), None, "runs", "sm_60"),
        (sass("61"), (6, 0), None, "fails", None),
        ([ptx("80", (8, 2))], (9, 0), (12, 2), "compiles", "compute_80"),
        ([ptx("80", (8, 4))], (9, 0), (12, 2), "fails", None),
        ([ptx("80", (8, 3))], (9, 0), (12, 4), "compiles", "compute_80"),
        ([ptx("80", (99, 9))], (9, 0), (13, 0), "fails", None),
        ([ptx("90a")], (10, 0), None, "fails", None),
        ([ptx("100f")], (10, 3), None, "compiles", "compute_100f"),
        ([ptx("100f")], (12, 0), None, "fails", None),
        ([ptx("90")], (8, 0), None, "fails", None),
        ([*sass("80"), ptx("80")], (8, 0), None, "runs", "sm_80"),
    ],
)
def test_which_image_a_gpu_gets(images, gpu, level, outcome, code):
    found = _serve.serve(modules(images), gpu, level, _place.table())
    assert found.outcome == outcome
    assert found.codes == ((code,) if code else ())
    assert (found.too_new is not None) == (
        outcome == "fails" and images[0].kind == "ptx" and images[0].version > (8, 2)
    )


def test_a_file_whose_modules_differ():
    found = _serve.serve(modules(sass("80"), sass("80", "90"), sass("90a")), (9, 0), None, _place.table())
    assert (found.outcome, found.lacking, found.of, found.codes) == ("partly", 1, 3, ("sm_90", "sm_90a"))


def verdict(path, made=WORKSTATION, target=None):
    machine = made.but(files=GLIBC).at(Path(tempfile.mkdtemp(dir=path.parent)))
    told = examine(path, machine, [target] if target else [])
    found = told["verdicts"][-1]
    return found["outcome"], {
        (one["code"], one["grade"]): one["evidence"] for part in found["parts"] for one in part["findings"]
    }


def made_wheel(tmp_path, **more):
    more = {"fat": container(*sass("80", "90")), "versions": LIBC} | more
    return wheel(tmp_path / "made.whl", {"p/lib.so": Library(**more).bytes()})


def test_on_this_machine(tmp_path):
    assert verdict(made_wheel(tmp_path)) == ("runs", {})
    outcome, found = verdict(made_wheel(tmp_path, fat=container(*sass("80"))))
    assert outcome == "fails"
    assert found == {("KW-010", "fails"): "nothing for 9.0 (NVIDIA H100); the file has sm_80"}
    outcome, found = verdict(made_wheel(tmp_path, fat=container(ptx("80"))))
    assert (outcome, *found) == ("compiles", ("KW-075", "warns"))
    outcome, found = verdict(made_wheel(tmp_path, fat=container(ptx("80", (99, 0)))))
    assert (outcome, *found) == ("fails", ("KW-005", "fails"))
    outcome, found = verdict(made_wheel(tmp_path, fat=container(*sass("90")) + container(*sass("80"))))
    assert outcome == "partly"
    assert found[("KW-010", "warns")].startswith("1 of 2 modules have nothing for 9.0")


def test_code_that_the_driver_links_anew(tmp_path):
    """Where the linked code does not fit, each of its parts has to have something that does."""
    parts = container(*sass("80"), ptx("80")) + container(*sass("80"), ptx("80"))
    outcome, found = verdict(made_wheel(tmp_path, fat=container(*sass("80")), anew=parts))
    assert (outcome, *found) == ("compiles", ("KW-075", "warns"))
    outcome, _ = verdict(made_wheel(tmp_path, fat=container(*sass("80")), anew=parts + container(*sass("80"))))
    assert outcome == "fails"
    assert verdict(made_wheel(tmp_path, anew=container(*sass("80")))) == ("runs", {})


def test_without_a_gpu_nothing_is_said_of_its_code(tmp_path):
    assert verdict(made_wheel(tmp_path), WORKSTATION.but(driver={"error": "no"}))[0] == "unknown"


def test_what_the_library_needs_here(tmp_path):
    for more, code in (
        ({"machine": "aarch64"}, "KW-036"),
        ({"versions": (("libc.so.6", ("GLIBC_2.38",)),)}, "KW-052"),
        ({"needed": ("libcudart.so.11.0",)}, "KW-050"),
        ({"needed": ("libodd.so.3",)}, "KW-054"),
        ({"needed": ("libcudart.so.14",)}, "KW-003"),
    ):
        outcome, found = verdict(made_wheel(tmp_path, **more))
        assert outcome == "fails"
        assert (code, "fails") in found, (more, found)
    outcome, found = verdict(made_wheel(tmp_path, needed=("libodd.so.3",), runpath="/opt/odd"))
    assert found[("KW-083", "warns")] == "not here: /opt/odd"
    has = WORKSTATION.but(files={"/opt/odd/libodd.so.3": b"", "/usr/lib/x86_64-linux-gnu/libm.so.6": b""})
    assert verdict(made_wheel(tmp_path, needed=("libodd.so.3", "libm.so.6"), runpath="/opt/odd"), has) == ("runs", {})
    outcome, found = verdict(made_wheel(tmp_path, wants=("_ZN2at4_ops3addE",)))
    assert (outcome, *found) == ("runs", ("KW-020", "warns"))


def test_torch_fits_itself(tmp_path):
    """Its own libraries want each other's symbols."""
    core = Library(wants=("_ZN2at4_ops3addE",)).bytes()
    place = wheel(
        tmp_path / "torch-2.8.0-py3-none-any.whl", {"torch/lib/libc10.so": core, "torch/lib/libtorch_cpu.so": core}
    )
    assert verdict(place)[1] == {}


def test_libraries_of_one_wheel_find_each_other(tmp_path):
    files = {
        "p/a.so": Library(fat=container(*sass("90")), needed=("libb-1234.so.1",), runpath="$ORIGIN/../p.libs").bytes(),
        "p.libs/libb-1234.so.1": Library(needed=()).bytes(),
    }
    path = wheel(tmp_path / "a.whl", files)
    assert verdict(path) == ("runs", {})
    (entry,) = examine(path, WORKSTATION.at(tmp_path / "root"))["files"][1]["runpath"]
    assert entry == {"path": "$ORIGIN/../p.libs", "leads_to": "p.libs", "exists": True, "inside": True}


def test_a_board_and_the_builds_of_servers(tmp_path):
    """What bitsandbytes 0.50.2 is: it installs on a Jetson and fails at its first kernel."""
    servers = {"machine": "aarch64", "fat": container(*sass("80")), "needed": ("libcudart.so.12",), "stubs": True}
    path = made_wheel(tmp_path, **servers, runpath="/usr/local/cuda-12.4/targets/sbsa-linux/lib")
    outcome, found = verdict(path, target="l4t-r36")
    assert outcome == "fails"
    assert "sbsa-linux" in found[("KW-030", "fails")]
    outcome, found = verdict(made_wheel(tmp_path, **servers), target="l4t-r36")
    assert (outcome, ("KW-030", "warns") in found) == ("runs", True)
    assert verdict(made_wheel(tmp_path, **servers), ORIN)[1].keys() >= {("KW-030", "warns")}
    assert verdict(path, target="linux-aarch64")[0] == "fails"  # no code for its newer GPUs, and nothing of KW-030
    assert ("KW-030", "fails") not in verdict(path, target="linux-aarch64")[1]


@pytest.mark.parametrize(
    ("more", "code"),
    [
        ({"versions": (("libc.so.6", ("GLIBC_2.38",)),)}, "KW-052"),
        ({"needed": ("libcudart.so.13",)}, "KW-003"),
        ({"fat": container(Image("sass", "87", packing="zstd", unpacked=100))}, "KW-053"),
        ({"fat": container(*sass("86"))}, "KW-010"),
        ({"fat": container(ptx("87", (8, 4)))}, "KW-005"),
        ({"machine": "x86_64"}, "KW-036"),
    ],
)
def test_a_board_of_one_system(tmp_path, more, code):
    right = {"machine": "aarch64", "fat": container(*sass("87")), "versions": (("libc.so.6", ("GLIBC_2.35",)),)}
    assert verdict(made_wheel(tmp_path, **right), target="l4t-r36") == ("runs", {})
    outcome, found = verdict(made_wheel(tmp_path, **right | more), target="l4t-r36")
    assert (outcome, (code, "fails") in found) == ("fails", True)


def test_images_in_files_need_their_library(tmp_path):
    files = {"p/lib.so": Library().bytes(), "p/sm_87/a.cubin": cubin("87")}
    assert verdict(wheel(tmp_path / "a.whl", files), target="l4t-r36")[0] == "fails"
    files["p/lib.so"] = Library(machine="aarch64").bytes()
    assert verdict(wheel(tmp_path / "a.whl", files), target="l4t-r36") == ("runs", {})


def test_a_library_for_others_does_not_decide(tmp_path):
    files = {
        "p/cuda.so": Library(fat=container(*sass("90"))).bytes(),
        "p/rocm.so": Library(needed=("libhipblas.so.3",)).bytes(),
    }
    outcome, found = verdict(wheel(tmp_path / "a.whl", files))
    assert (outcome, *found) == ("runs", ("KW-054", "warns"))


def test_libraries_of_which_one_is_loaded(tmp_path):
    files = {
        "p/new.so": Library(fat=container(*sass("90"))).bytes(),
        "p/old.so": Library(fat=container(*sass("70"))).bytes(),
    }
    assert verdict(wheel(tmp_path / "a.whl", files))[0] == "partly"


def test_every_target_of_the_table_can_be_asked_for(tmp_path):
    path = made_wheel(tmp_path, machine="aarch64")
    told = examine(path, WORKSTATION.at(tmp_path / "root"), list(_place.table()["targets"]))
    assert [one["place"] for one in told["verdicts"][1:]] == list(_place.table()["targets"])
    for one in told["verdicts"][1:]:
        judged = [gpu["capability"] for part in one["parts"] for gpu in part["gpus"]]
        codes = [_place.table()["codes"][code] for code in _place.table()["targets"][one["place"]]["codes"]]
        own = sorted({code["runs_on"][0] for code in codes if code["kind"] == "cubin"})
        assert sorted(judged) == own or one["place"] == "linux-x86_64"


@pytest.mark.parametrize(
    ("tag", "needs", "wrong"),
    [
        ("py3-none-manylinux_2_24_x86_64", "GLIBC_2.32", True),
        ("py3-none-manylinux_2_34_x86_64", "GLIBC_2.32", False),
        ("cp311-cp311-manylinux_2_17_x86_64.manylinux2014_x86_64", "GLIBC_2.17", False),
        ("cp311-cp311-manylinux2014_x86_64", "GLIBC_2.18", True),
        ("cp311-cp311-linux_x86_64", "GLIBC_2.39", False),
    ],
)
def test_what_the_tag_promises(tmp_path, tag, needs, wrong):
    path = wheel(tmp_path / "a.whl", {"p/x.so": Library(versions=(("libc.so.6", (needs,)),)).bytes()}, tag)
    found = [one["code"] for one in examine(path, WORKSTATION.at(tmp_path / "root"))["findings"]]
    assert found == (["KW-110"] if wrong else [])


def test_gpus_of_the_machine_are_those_of_its_driver(tmp_path):
    two = {"level": 12020, "init": 0, "gpus": [H100, {"name": "old", "capability": 61}]}
    outcome, found = verdict(made_wheel(tmp_path), WORKSTATION.but(driver=two))
    assert (outcome, found) == ("fails", {("KW-010", "fails"): "nothing for 6.1 (old); the file has sm_80 sm_90"})


def asked(capsys, path, *options):
    code = program.main(["xray", "--json", *options, str(path)])
    told = json.loads(capsys.readouterr().out)
    return code, [one["code"] for one in told["findings"] if one["grade"] == "fails"], told


@pytest.mark.parametrize(
    ("name", "content", "code", "words"),
    [
        ("notes.txt", b"hello\n", "KW-120", "it is a text; no wheel, ELF library"),
        ("x.bin", bytes(range(200, 256)) * 9, "KW-120", "504 bytes that begin with c8 c9 ca cb"),
        ("src.tar.gz", b"\x1f\x8b\x08" + bytes(99), "KW-120", "packed by gzip"),
        ("empty", b"", "KW-120", "it is empty"),
        ("empty.so", b"", "KW-112", "empty.so is called a library and is empty"),
        ("lfs.so", b"version https://git-lfs.github.com/spec/v1\noid sha256:00\n", "KW-112", "a pointer of Git LFS"),
        ("a-1-py3-none-any.whl", b"<!DOCTYPE html><p>404", "KW-112", "no archive: it is a page"),
        ("cut.whl", b"PK\x03\x04" + bytes(60), "KW-112", "cut off"),
    ],
)
def test_what_is_nothing_to_judge(tmp_path, capsys, name, content, code, words):
    (tmp_path / name).write_bytes(content)
    result, codes, told = asked(capsys, tmp_path / name)
    assert (result, codes) == (2, [code])
    assert words in told["findings"][0]["evidence"]
    assert [one["outcome"] for one in told["verdicts"]] == ["unknown"]
    assert program.main(["xray", str(tmp_path / name)]) == 2
    assert f"fails {code}" in capsys.readouterr().out


def test_directories_and_archives_without_libraries(tmp_path, capsys):
    (tmp_path / "none").mkdir()
    assert asked(capsys, tmp_path / "none")[:2] == (2, ["KW-120"])
    (tmp_path / "none" / "a.py").write_text("1\n")
    result, codes, told = asked(capsys, tmp_path / "none")
    assert (result, codes) == (2, ["KW-120"])
    assert "the directory has 1 files (a.py)" in told["findings"][0]["evidence"]
    for_windows = wheel(tmp_path / "a-1-cp311-cp311-win_amd64.whl", {"a/_c.pyd": b"MZ" + bytes(99)})
    assert asked(capsys, for_windows)[:2] == (2, ["KW-120"])


def test_a_sound_thing_without_gpu_code_is_no_error(tmp_path, capsys):
    """A library of the CPU's, and a wheel that promises to have nothing compiled in it."""
    plain = tmp_path / "plain.so"
    plain.write_bytes(Library().bytes())
    result, codes, told = asked(capsys, plain, "--for", "linux-x86_64")
    assert (result, codes, told["code"]) == (0, [], [])
    said = {"a-1.dist-info/WHEEL": b"Wheel-Version: 1.0\nTag: py3-none-any\n", "a/__init__.py": b"\n"}
    pure = wheel(tmp_path / "a-1-py3-none-any.whl", said)
    result, codes, told = asked(capsys, pure)
    assert (result, codes, [one["outcome"] for one in told["verdicts"]]) == (0, [], ["runs"])
    assert program.main(["xray", str(pure)]) == 0
    assert "yes: nothing in it is compiled, this machine or any other\n" in capsys.readouterr().out
    broken = wheel(tmp_path / "b-1-py3-none-any.whl", {**said, "a/_c.so": b""})
    assert asked(capsys, broken)[:2] == (2, ["KW-112"])


def test_a_part_that_cannot_be_read_is_told_by_the_exit_code(tmp_path, capsys):
    good = Library(versions=LIBC).bytes()
    both = wheel(tmp_path / "c.whl", {"a.so": good, "b.so": b"version https://git-lfs.github.com/spec/v1\n"})
    result, codes, told = asked(capsys, both)
    assert (result, codes) == (1, [])
    assert [one["code"] for one in told["findings"]] == ["KW-112"]
