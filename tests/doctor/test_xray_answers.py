# SPDX-License-Identifier: MIT
"""`kernelwright xray WHEEL --gpu h100 --driver 535 --torch 2.9+cu128`: the first line is the answer."""

from __future__ import annotations

import json

import pytest

from kernelwright import __main__ as program
from kernelwright.doctor.xray import _asked, _siblings, _torch
from kernelwright.doctor.xray._place import Torch, UnknownTarget
from tests.doctor.cuda_files import Library, container, ptx, sass, wheel

LIBC = (("libc.so.6", ("GLIBC_2.17",)),)


@pytest.mark.parametrize(
    ("name", "capability"),
    [
        ("h100", (9, 0)), ("H200", (9, 0)), ("NVIDIA H100 80GB HBM3", (9, 0)), ("a100", (8, 0)), ("A10", (8, 6)), ("a30", (8, 0)),
        ("l4", (8, 9)), ("L40", (8, 9)), ("l40s", (8, 9)), ("t4", (7, 5)), ("rtx4090", (8, 9)), ("RTX 4090", (8, 9)), ("4090", (8, 9)),
        ("GeForce RTX 3060", (8, 6)), ("rtx 5090", (12, 0)), ("RTX 2080 Ti", (7, 5)), ("gtx 1080 ti", (6, 1)), ("GTX 1660", (7, 5)),
        ("gtx 970", (5, 2)), ("orin", (8, 7)), ("Jetson Orin Nano", (8, 7)), ("thor", (11, 0)), ("xavier", (7, 2)), ("b200", (10, 0)),
        ("gb300", (10, 3)), ("v100", (7, 0)), ("p100", (6, 0)), ("k80", (3, 7)), ("9.0", (9, 0)), ("sm_90a", (9, 0)), ("120", (12, 0)),
        ("thor (cuda 12)", (10, 1)), ("Jetson AGX Thor", (11, 0)), ("spark", (12, 1)), ("rtx a6000", (8, 6)), ("rtx 6000 ada", (8, 9)),
    ],
)  # fmt: skip
def test_gpus_by_the_names_people_use(name, capability):
    assert _asked.gpu_of(name).capability == capability


@pytest.mark.parametrize("name", ["a9000x", "mi300", "", "l", "rtx", "4"])
def test_what_is_no_gpu_of_the_table(name):
    with pytest.raises(UnknownTarget, match="there is no GPU"):
        _asked.gpu_of(name)


@pytest.mark.parametrize(
    ("driver", "level"),
    [("535", (12, 2)), ("535.154.05", (12, 2)), ("550", (12, 4)), ("546", (12, 3)), ("12.2", (12, 2)), ("cuda 12.9", (12, 9)),
     ("580.65.06", (13, 0)), ("470", (11, 4)), ("999", (13, 1))],
)  # fmt: skip
def test_the_level_of_a_driver(driver, level):
    assert _asked.level_of(driver) == level


@pytest.mark.parametrize("driver", ["390", "new", "5", "12", "-1"])
def test_what_is_no_driver(driver):
    with pytest.raises(UnknownTarget, match="--driver"):
        _asked.level_of(driver)


def asked(capsys, *arguments):
    code = program.main(["xray", *map(str, arguments)])
    printed = capsys.readouterr()
    return code, printed.out.splitlines(), printed.err


def made(tmp_path, name="fused-1.0-py3-none-any.whl", requires=("torch>=2.4",), **more):
    more = {"fat": container(*sass("80", "90"), ptx("90", (8, 2))), "versions": LIBC} | more
    return wheel(tmp_path / name, {"fused/_C.so": Library(**more).bytes()}, requires=requires)


@pytest.mark.parametrize(
    ("options", "code", "first"),
    [
        (("--gpu", "h100"), 0, "yes: it runs on h100 (sm_90)"),
        (("--gpu", "rtx4090", "--driver", "535"), 0, "yes: it runs on rtx4090, driver 535 (sm_80)"),
        (("--gpu", "b200", "--driver", "570"), 0, "yes: it runs on b200, driver 570, once the driver has compiled it (compute_90)"),
        (("--gpu", "b200", "--driver", "525"), 1, "no: it does not run on b200, driver 525: only PTX 8.2 would serve 10.0 (b200), and"),
        (("--gpu=t4",), 1, "no: it does not run on t4: nothing for 7.5 (t4); the file has sm_80 sm_90 compute_90 (KW-010)"),
        (("--gpu", "orin"), 1, "no: it does not run on orin, JetPack 6: the file is for x86_64, orin, JetPack 6 is aarch64 (KW-036)"),
        (("--gpu", "h100", "--torch", "2.9+cu128"), 0, "yes: it runs on h100, torch 2.9+cu128 (sm_90)"),
        (("--gpu", "h100", "--torch", "2.3"), 1, "no: it does not run on h100, torch 2.3: it requires torch>=2.4; torch 2.3 is asked about (KW-096)"),
    ],
)  # fmt: skip
def test_the_first_line_is_the_answer(tmp_path, capsys, options, code, first):
    result, printed, _ = asked(capsys, *options, made(tmp_path))
    assert (result, printed[0][: len(first)]) == (code, first)


def test_a_wheel_without_gpu_code_does_not_run_on_a_gpu(tmp_path, capsys):
    code, printed, _ = asked(capsys, "--gpu", "h100", made(tmp_path, fat=b""))
    assert (code, printed[0]) == (0, "yes: nothing in it speaks against h100; it has no GPU code of its own")


def test_several_gpus_in_one_call(tmp_path, capsys):
    code, printed, _ = asked(
        capsys, "--gpu", "h100", "--gpu", "t4", "--jetpack", "6", made(tmp_path, machine="aarch64")
    )
    assert code == 1
    assert [line.partition(":")[0] for line in printed[:2]] == ["yes", "no"]
    assert (
        printed[:2] == asked(capsys, "--gpu", "h100, t4", "--jetpack=6", tmp_path / "fused-1.0-py3-none-any.whl")[1][:2]
    )
    code, printed, _ = asked(capsys, "--jetpack", "7", made(tmp_path, machine="aarch64"))
    assert printed[0] == "yes: it runs on Jetson AGX Thor, JetPack 7, once the driver has compiled it (compute_90)"
    assert printed[1].startswith("yes: it runs on Jetson AGX Orin, JetPack 7")
    code, printed, _ = asked(
        capsys, "--gpu", "jetpack5", made(tmp_path, machine="aarch64", versions=(("libc.so.6", ("GLIBC_2.34",)),))
    )
    assert "it needs glibc 2.34, Jetson AGX Xavier, JetPack 5 has 2.31 (KW-052)" in printed[0]


def test_which_file(tmp_path, capsys):
    """As of bitsandbytes, which brings a library for each CUDA release: the one that serves is named."""
    files = {
        "p/lib_cuda118.so": Library(fat=container(*sass("80")), versions=LIBC).bytes(),
        "p/lib_cuda128.so": Library(fat=container(*sass("80", "120")), versions=LIBC).bytes(),
    }
    path = wheel(tmp_path / "p-1-py3-none-any.whl", files)
    code, printed, _ = asked(capsys, "--gpu", "rtx5090", path)
    assert (code, printed[0]) == (1, "which file: on rtx5090 lib_cuda128.so (sm_120) runs; not lib_cuda118.so")
    assert "12.0  RTX 50, RTX PRO 6000                                 runs (sm_120), in 1 of 2 files" in printed


def test_the_file_that_torch_takes(tmp_path, capsys):
    """Of builds for several CUDA releases a package loads the one of torch's; what the others lack is nobody's trouble."""
    new = {"fat": container(*sass("80", "120")), "needed": ("libcudart.so.13",), "versions": LIBC}
    files = {
        "p/lib_cuda118.so": Library(fat=container(*sass("80")), versions=LIBC).bytes(),
        "p/lib_cuda128.so": Library(fat=container(*sass("80", "120")), versions=LIBC).bytes(),
        "p/lib_cuda130.so": Library(**new).bytes(),
    }
    path = wheel(tmp_path / "p-1-py3-none-any.whl", files)
    code, printed, _ = asked(capsys, "--gpu", "rtx5090", "--torch", "2.9+cu128", path)
    expected = "yes: it runs on rtx5090, torch 2.9+cu128 (sm_120), by lib_cuda128.so"
    assert (code, printed[0]) == (0, expected)
    assert not any("fails" in line for line in printed)
    _, printed, _ = asked(
        capsys, "--gpu", "rtx5090", "--torch", "2.9+cu126", path
    )  # which of them it loads is not known
    assert printed[0].startswith("which file:")


@pytest.mark.parametrize(
    ("names", "left"),
    [
        (["libx_cuda118.so", "libx_cuda128.so"], ["libx_cuda118.so"]),
        (["x.cu12.8.so", "x.cu12.6.so", "y.cu12.6.so"], ["x.cu12.6.so"]),
        (["libx_cuda128.so"], []),
        (["libx_cuda118.so", "libx_cuda1280.so"], []),
        (["liba.so", "libb.so"], []),
    ],
)
def test_builds_for_other_releases(names, left):
    assert _siblings.not_taken(names, _asked.torch_of("2.9+cu128")) == set(left)
    assert not _siblings.not_taken(names, _asked.torch_of("2.9"))


def test_modules_for_other_gpus_are_no_failure(tmp_path, capsys):
    """Kernels of one generation alone, as FlashAttention 3's are, lack nothing for another."""
    both = made(tmp_path, fat=container(*sass("80")) + container(*sass("90a")) + container(*sass("90a")))
    code, printed, _ = asked(capsys, "--gpu", "a100", both)
    assert (code, printed[0]) == (0, "yes: it runs on a100 (sm_80)")
    assert (
        "8.0   A100, A30                                            runs (sm_80); 2 modules are for other GPUs"
        in printed
    )
    code, printed, _ = asked(capsys, "--gpu", "h100", both)
    assert (code, printed[0].partition(":")[0]) == (1, "partly")  # the first module has no code for it, and is older
    only = made(tmp_path, fat=container(*sass("90a")))
    assert asked(capsys, "--gpu", "a100", only)[1][0].startswith("no: ")


def test_advice_is_about_the_package(tmp_path, capsys):
    for name in ("t4", "b200", "k80"):
        _, printed, _ = asked(capsys, "--all", "--gpu", name, made(tmp_path))
        assert "./kw" not in "\n".join(printed)
    _, printed, _ = asked(capsys, "--gpu", "t4", made(tmp_path))
    assert (
        '    fix: TORCH_CUDA_ARCH_LIST="7.5" python -m pip install --no-deps --no-build-isolation --no-binary fused fused'
        in printed
    )


OLD = "_ZN3c105ErrorC2ENS_14SourceLocationESs"
NEW = "_ZN3c105ErrorC2ENS_14SourceLocationENSt7__cxx1112basic_stringIcSt11char_traitsIcESaIcEEE"


@pytest.mark.parametrize(
    ("wants", "words", "fits", "fails"),
    [
        ((OLD, "_ZN3c104cuda9SetDeviceEi"), "torch 2.2 or older", "2.2", "2.3"),
        ((OLD, "_ZN3c104cuda9SetDeviceEa"), "torch 2.3 to 2.6", "2.5.1", "2.8"),
        ((NEW, "_ZN3c104cuda9SetDeviceEa"), "torch 2.3 to 2.7", "2.7", "2.8.0+cu128"),
        ((NEW, "_ZN3c104cuda9SetDeviceEab"), "torch 2.8 or newer", "2.9", "2.7"),
        ((OLD,), "torch 2.6 or older", "2.4", "2.9+cu130"),
    ],
)
def test_the_torch_that_symbols_fit(tmp_path, capsys, wants, words, fits, fails):
    path = made(tmp_path, wants=wants, requires=())
    assert f"its symbols fit {words}" in asked(capsys, "--gpu", "h100", path)[1]
    assert asked(capsys, "--gpu", "h100", "--torch", fits, path)[1][0].startswith("yes: ")
    code, printed, _ = asked(capsys, "--gpu", "h100", "--torch", fails, path)
    assert (code, f"its symbols are those of {words}; torch {fails} is asked about (KW-020)" in printed[0]) == (1, True)


def test_symbols_that_tell_little(tmp_path, capsys):
    printed = asked(capsys, "--gpu", "h100", made(tmp_path, wants=("_ZN2at4_ops3addE",), requires=()))[1]
    assert not any(line.startswith("its symbols fit") for line in printed)
    newer = made(tmp_path, wants=(NEW,), requires=())
    assert any("torch 2.7 or newer of PyPI, or" in line for line in asked(capsys, "--gpu", "h100", newer)[1])
    assert asked(capsys, "--gpu", "h100", "--torch", "2.5", newer)[0] == 0  # conda's and NVIDIA's have it too


def test_the_runtime_of_the_torch(tmp_path, capsys):
    path = made(tmp_path, needed=("libcudart.so.12",), requires=())
    assert asked(capsys, "--gpu", "h100", "--torch", "2.9+cu128", path)[0] == 0
    code, printed, _ = asked(capsys, "--gpu", "h100", "--torch", "2.9+cu130", path)
    assert (code, "it is linked to the runtime of CUDA 12, torch 2.9+cu130 brings that of 13" in printed[0]) == (
        1,
        True,
    )


@pytest.mark.parametrize(
    ("requirement", "release", "taken"),
    [
        ("torch==2.8.0", (2, 8), True), ("torch==2.8.0", (2, 9), False), ("torch (==2.8.*)", (2, 8, 1), True),
        ("torch>=2.4,<2.9", (2, 9), False), ("torch>=2.4,<2.9", (2, 8, 0), True), ("torch<2.9.1", (2, 9), True),
        ("torch~=2.4", (2, 9), True), ("torch~=2.4.0", (2, 5), False), ("torch!=2.5.0", (2, 5), True), ("torch", (1, 0), True),
        ("torch>2.3", (2, 3, 1), True), ("torchvision==0.1", (2, 9), True), ("torch[opt]>=3", (2, 9), False),
    ],
)  # fmt: skip
def test_what_a_requirement_takes(requirement, release, taken):
    assert (not list(_torch.requirement([requirement], Torch(release, None, "x")))) is taken


@pytest.mark.parametrize(
    "options",
    [
        ("--gpu", "mi300"), ("--driver", "abc"), ("--torch", "nightly"), ("--jetpack", "4"), ("--jetpack", "x"), ("--gpu", "jetpack9"),
        ("--driver", "535", "--driver", "550"), ("--gpu",),
    ],
)  # fmt: skip
def test_questions_that_cannot_be_understood(tmp_path, capsys, options):
    code, _, error = asked(capsys, made(tmp_path), *options)
    assert code == 2
    assert error


def test_everything_is_behind_all(tmp_path, capsys):
    path = made(tmp_path)
    _, short, _ = asked(capsys, "--gpu", "h100", path)
    _, whole, _ = asked(capsys, "--all", "--gpu", "h100", path)
    assert short[0] == whole[0]
    assert len(short) < 25
    assert not any(line.startswith("  needs") for line in short)
    assert any(line.startswith("  needs") for line in whole)


def test_the_data_has_the_answer(tmp_path, capsys):
    _, printed, _ = asked(capsys, "--json", "--gpu", "h100", made(tmp_path))
    told = json.loads("\n".join(printed))
    assert [one["answer"]["word"] for one in told["verdicts"]] == ["yes"]
    rows = {one["capability"]: one for one in told["gpus"]}
    assert rows["9.0"]["codes"] == ["sm_90"]
    assert rows["7.5"]["outcome"] == "fails"


def test_several_wheels_side_by_side(tmp_path, capsys):
    first = made(tmp_path, wants=(OLD, "_ZN3c104cuda9SetDeviceEa"), needed=("libcudart.so.12",))
    second = made(tmp_path, "other-2.0-py3-none-any.whl", requires=(), fat=container(*sass("75")), stubs=True)
    code, printed, _ = asked(capsys, "--table", first, second)
    assert code == 0
    rows = [[cell.strip() for cell in line.strip("|").split("|")] for line in printed]
    assert rows[0] == ["wheel", "size", "machine code for", "PTX", "no code for", "CUDA runtime", "glibc", "torch"]
    assert rows[2][0] == "fused-1.0"
    assert rows[2][2:4] == ["80 90", "90"]
    assert rows[2][5:] == ["libcudart.so.12", "2.17", "requires torch>=2.4; symbols of torch 2.3 to 2.6"]
    assert rows[3][5:] == ["inside", "2.17", "none"]
    assert "H100" in rows[3][4]
    code, printed, error = asked(capsys, "--table", first, tmp_path / "none.whl")
    assert (code, len(printed)) == (2, 3)
    assert "none.whl" in error
