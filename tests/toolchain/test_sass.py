# SPDX-License-Identifier: MIT
"""benchmarks/sass.toml: a kernel that takes more, or less, than is recorded fails the build, which names it."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace

import pytest
from device_support import FakeCompiler, tree

from kernelwright_toolchain import targets
from kernelwright_toolchain.building import Options, run, sass
from kernelwright_toolchain.device import build_images
from kernelwright_toolchain.device.log import Spills
from kernelwright_toolchain.errors import GateError
from kernelwright_toolchain.request import find_images, find_target, resolve
from tests.tree import ROOT

TABLE = targets.load()


@pytest.fixture
def root(tmp_path):
    return tree(tmp_path / "root", rms_norm="int a;", other="int b;")


def made(root, **options):
    """A build by a compiler that is not there: each operator has one kernel of 40 registers."""
    request = resolve(TABLE, root=root, **{"target": find_target(TABLE, machine="x86_64").name, **options})
    return request, build_images(request, FakeCompiler(), root=root, cache_at=root / "cache")


def record(root, request, images):
    path = root / sass.FILE
    path.parent.mkdir(exist_ok=True)
    codes = [code.name for code in request.codes if code.kind == "cubin"]
    path.write_text(sass.text(request.toolkit.name, codes, sass.cells(images)))
    return path


def spilling(image, stores, loads):
    return replace(image, spills=dict.fromkeys(image.spills, Spills(stores, loads)))


def test_rows_are_kernels_and_columns_codes(root):
    request, built = made(root)
    images = [spilling(i, 8, 16) if (i.op, i.code) == ("other", "sm_86") else i for i in built.images]
    lines = record(root, request, images).read_text().splitlines()
    assert 'codes = ["sm_80", "sm_86", "sm_89", "sm_90a"]' in lines
    assert lines[-5:] == [
        "[other]",
        'other_k = ["40", "40 spill 8/16", "40", "40"]',
        "",
        "[rms_norm]",
        'rms_norm_k = ["40", "40", "40", "40"]',
    ]
    assert sass.read(root).cells == sass.cells(images)
    sass.check(request, images, root)


def test_a_kernel_that_another_code_lacks(root):
    request, built = made(root)
    lacking = [image for image in built.images if (image.op, image.code) != ("other", "sm_80")]
    record(root, request, lacking)
    sass.check(request, lacking, root)
    with pytest.raises(GateError, match="other_k for sm_80: not recorded, built 40"):
        sass.check(request, built.images, root)


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ('rms_norm_k = ["40"', 'rms_norm_k = ["39"', "rms_norm_k for sm_80: recorded 39, built 40"),
        ('"40"]', '"40 spill 4/4"]', "other_k for sm_90a: recorded 40 spill 4/4, built 40"),
        ("other_k", "third_k", "third_k for sm_80: recorded 40, not built"),
    ],
)
def test_a_difference_names_kernel_code_both_values_and_the_command(root, old, new, said):
    request, built = made(root)
    path = record(root, request, built.images)
    path.write_text(path.read_text().replace(old, new, 1))
    with pytest.raises(GateError) as caught:
        sass.check(request, built.images, root)
    assert said in str(caught.value)
    assert str(caught.value).endswith("python -m toolchain sass --write")


def test_only_the_default_build_is_held_to_it(root):
    request, built = made(root)
    path = record(root, request, built.images)
    path.write_text(path.read_text().replace('"40"', '"99"'))
    toolkit = next(name for name in TABLE.toolkits if name != request.toolkit.name)
    for options in ({"toolkit": toolkit}, {"debug": True}, {"ops": "other"}, {"archs": "89"}, {"provider": "system"}):
        other, theirs = made(root, **options)
        sass.check(other, theirs.images, root)
    with pytest.raises(GateError):
        sass.check(request, built.images, root)


def test_every_released_target_is_held_to_all_its_codes(root):
    """The cross build too: its own codes are recorded beside those that it shares."""
    toolkit, codes = sass.recorded_set(TABLE)
    _, all_images = made(root, archs=",".join(code.name for code in codes))
    path = root / sass.FILE
    path.parent.mkdir()
    path.write_text(sass.text(toolkit.name, [code.name for code in codes], sass.cells(all_images.images)))
    whole = path.read_text()
    for target in (row for row in TABLE.targets.values() if row.release):
        request, built = made(root, target=target.name, toolkit=toolkit.name)
        sass.check(request, built.images, root)
        for column, code in enumerate(codes):
            others = ["40"] * len(codes)
            others[column] = "99"
            path.write_text(whole.replace(", ".join(['"40"'] * len(codes)), ", ".join(f'"{n}"' for n in others), 1))
            if code in request.codes:
                with pytest.raises(GateError, match=f"other_k for {code.name}: recorded 99, built 40"):
                    sass.check(request, built.images, root)
            else:
                sass.check(request, built.images, root)
        path.write_text(whole)


@pytest.mark.parametrize("text", [None, "<<<<<<< ours", 'codes = ["sm_80"]\n[other]\nother_k = ["1", "2"]\n', ""])
def test_a_file_that_is_missing_or_broken_says_how_to_make_it(root, text):
    request, built = made(root)
    if text is not None:
        record(root, request, built.images).write_text(text)
    with pytest.raises(GateError, match=r"python -m toolchain sass --write"):
        sass.check(request, built.images, root)


def test_the_build_ends_there(root, monkeypatch, tmp_path):
    request, built = made(root)
    record(root, request, [spilling(image, 4, 4) for image in built.images])
    monkeypatch.setattr(run, "compiled", lambda *_, **__: built)
    monkeypatch.setattr(run.host, "tools", lambda *_: SimpleNamespace(zig=None))
    monkeypatch.setattr(run.stamp, "inputs", lambda _: "")
    monkeypatch.setattr(run, "build_wheel", lambda *_: pytest.fail("the wheel was packed nevertheless"))
    check = sass.check
    monkeypatch.setattr(sass, "check", lambda request, images: check(request, images, root))
    with pytest.raises(GateError, match="rms_norm_k for sm_89: recorded 40 spill 4/4, built 40"):
        run._build(Options(), request, TABLE, tmp_path)


def test_this_trees_file_has_its_operators_and_the_codes_of_every_release():
    recorded = sass.read()
    toolkit, codes = sass.recorded_set(TABLE)
    assert recorded.toolkit == toolkit.name
    assert recorded.codes == tuple(code.name for code in codes)
    planned = {name for target in TABLE.targets.values() if target.release for name in target.cubins}
    known = {code.name for code in TABLE.codes.values() if code.toolkits.knows(toolkit.release)}
    assert set(recorded.codes) == planned & known
    assert {key[0] for key in recorded.cells} == set(find_images())
    assert {key[2] for key in recorded.cells} == set(recorded.codes)
    families = {path.stem: path.parent for path in ROOT.glob("csrc/ops/*/*.cu")}
    for image, kernel, _ in recorded.cells:
        # An image that its family's operators share is not named as an operator is; its kernels are.
        names = [path.stem for path in families[image].glob("api/*.h")]
        assert kernel.startswith(tuple(f"{name}_" for name in names)), (image, kernel)
    assert (ROOT / sass.FILE).read_text().startswith(sass.HEAD)
