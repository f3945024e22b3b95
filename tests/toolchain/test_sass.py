# SPDX-License-Identifier: MIT
"""benchmarks/sass.toml: a kernel that takes more, or less, than is recorded fails the build, which names it."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace

import pytest
from device_support import FakeCompiler, tree

from kernelwright_toolchain import targets
from kernelwright_toolchain.building import Options, run, sass
from kernelwright_toolchain.commands import sass as command_sass
from kernelwright_toolchain.device import build_images
from kernelwright_toolchain.device.build import cached_images
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


@pytest.fixture
def command(root, monkeypatch):
    """`sass` with these arguments in that tree, which asks for two codes; it must not compile."""
    request, built = made(root, archs="80,86")
    monkeypatch.setattr(command_sass, "settled", lambda *_, **__: request)
    monkeypatch.setattr(command_sass.providers, "device_compiler", lambda *_: FakeCompiler())
    monkeypatch.setattr(command_sass, "compiled", lambda *_: pytest.fail("something was compiled"))
    monkeypatch.setattr(sass, "recorded_set", lambda _: (request.toolkit, request.codes))
    monkeypatch.setattr(command_sass, "project", lambda: SimpleNamespace(root=root))
    monkeypatch.setattr(sass, "project", lambda: SimpleNamespace(root=root))
    monkeypatch.setattr(command_sass, "cached_images", lambda *a: cached_images(*a, root=root, cache_at=root / "cache"))
    record(root, request, built.images)
    return lambda: command_sass.run(SimpleNamespace(write=True, all=False, jobs=None))


def test_writing_takes_what_builds_compiled_and_keeps_the_rest(root, command, capsys):
    path = root / sass.FILE
    path.write_text(path.read_text().replace('other_k    = ["40", "40"]', 'other_k = ["41", "42"]').replace("40", "39"))
    (root / "csrc/ops/toy/rms_norm.cu").write_text("int changed;")
    before = sass.read(root).cells
    command()
    after = sass.read(root).cells
    assert {key: cell for key, cell in after.items() if key[0] == "other"} == dict.fromkeys(
        [("other", "other_k", "sm_80"), ("other", "other_k", "sm_86")], "40"
    )
    kept = {key: cell for key, cell in before.items() if key[0] == "rms_norm"}
    assert kept == {key: cell for key, cell in after.items() if key[0] == "rms_norm"}
    assert set(kept.values()) == {"39"}
    said = capsys.readouterr().out
    assert "  sm_80: rms_norm\n  sm_86: rms_norm\n" in said
    assert "--all" in said


def test_writing_without_a_file_and_without_all_images_is_refused(root, command):
    (root / sass.FILE).unlink()
    command()  # every image is there
    (root / "csrc/ops/toy/rms_norm.cu").write_text("int changed;")
    (root / sass.FILE).unlink()
    with pytest.raises(GateError, match="--all"):
        command()


def test_a_kernel_that_an_image_lost_is_not_kept_for_a_code_that_was_not_compiled():
    recorded = {("op", "old", "sm_80"): "1", ("op", "old", "sm_87"): "2", ("op", "new", "sm_87"): "3"}
    built = {("op", "new", "sm_80"): "4"}
    assert sass.merged(recorded, built, [("op", "sm_87")]) == {**built, ("op", "new", "sm_87"): "3"}


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
