# SPDX-License-Identifier: MIT
"""Real builds: one under conspicuous circumstances, one with everything planted that must not be in a wheel; what
`verify` says of both, and of kernels that were changed or came from another compiler. One operator, one code; with
--whole the default wheel. Compiled kernels come out of the cache."""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import tiny
from test_statement import problems

from kernelwright_toolchain import source
from kernelwright_toolchain.cubin.elf import Elf
from kernelwright_toolchain.device.compiler import source_of
from kernelwright_toolchain.exact import conditions, rebuild, wheel
from kernelwright_toolchain.exact.compare import compare
from kernelwright_toolchain.exact.verify import verify
from kernelwright_toolchain.exact.wheel import Difference, Wheel, false_claims
from kernelwright_toolchain.providers import machine_of, pip
from kernelwright_toolchain.request import find_ops, settings, settled
from kernelwright_toolchain.targets import load
from tests.tree import ROOT

pytestmark = pytest.mark.slow

TABLE = load()
KERNEL = re.compile(r"(Params \w+\) \{)")  # where an instruction can be planted
ALONE = [
    op
    for op, images in find_ops().items()
    if images == (op,) and KERNEL.search((ROOT / source_of(ROOT, op)).read_text(encoding="utf-8"))
]
SMALLEST, SMALL = sorted(ALONE, key=lambda name: (ROOT / source_of(ROOT, name)).stat().st_size)[:2]
PLANT = """
extern "C" __attribute__((visibility("default"))) const char* kw_planted() { return KW_PLANT " " __DATE__ " " __TIME__; }
"""


@pytest.fixture(scope="module")
def asked(request) -> dict[str, str]:
    if request.config.getoption("--whole"):
        return settings(settled(TABLE, {"provider": "pip", "target": "linux-x86_64"}))
    wanted = settled(TABLE, {"provider": "pip", "ops": SMALLEST, "archs": TABLE.targets["linux-x86_64"].cubins[0]})
    return settings(wanted)


@pytest.fixture(scope="module")
def pair():
    first, second = conditions.pair(jobs=2, quick=True)
    return replace(first, jobs=2), second


def make(tree: Path, asked: dict[str, str], at: conditions.Conditions, keep: Path) -> Path:
    """A wheel of this tree, kept in a directory of the test's."""
    with rebuild.scratch() as base:
        tools = rebuild.provision(tree, asked, at.python)
        copy = rebuild.lay_out(tree, base, tools, at, backwards=True)
        return Path(shutil.copy(rebuild.build(copy, asked, at, tools, base / "out", cached=True), keep))


@pytest.fixture(scope="module")
def made(asked, pair, tmp_path_factory) -> Path:
    """A wheel built as somebody else, in another place, at another time."""
    return make(ROOT, asked, pair[1], tmp_path_factory.mktemp("made"))


def test_no_byte_of_a_wheel_names_who_built_it_or_where(made, pair):
    """The raw archive too: names, comments, what lies between the members."""
    second = pair[1]
    names = ["kwbuild", "Zweite", second.zone, str(ROOT / ".kw"), "/.kw/"]
    contents = {**wheel.read(made).members, "the archive": made.read_bytes()}
    found = [(name, word) for name, data in contents.items() for word in names if word.encode() in data]
    assert second.user.startswith("kwbuild")
    assert "kwbuild" in second.folder
    assert not found


def test_the_bill_of_materials_in_a_wheel_is_one_by_cyclonedx_own_schema(made):
    whole = wheel.read(made)
    (name,) = [name for name in whole.members if name.startswith(f"{whole.info}sboms/")]
    assert problems(whole.members[name]) == []
    listed = {part["name"] for part in json.loads(whole.members[name])["components"] if part["type"] == "file"}
    assert listed == {other for other in whole.members if other.endswith((".so", ".cubin", ".ptx"))}


def test_a_wheel_is_verified_by_making_it_again(made):
    verdict = verify(made, ROOT, cached=True, jobs=2)
    assert verdict.found == ()
    assert [line.split()[0] for line in verdict.lines()] == ["same"] * len(verdict.theirs.members)


@pytest.mark.long
def test_a_build_on_top_of_another_ones_gives_the_same_bytes(asked, made, pair, tmp_path):
    """As ./kw build does it: CMake's directory is one for all that differ in their images alone."""
    other = {**asked, "archs": TABLE.targets["linux-x86_64"].cubins[1], "ops": f"{SMALLEST},{SMALL}"}
    with rebuild.scratch() as base:
        tools = rebuild.provision(ROOT, asked, pair[0].python)
        copy = rebuild.lay_out(ROOT, base, tools, pair[0], backwards=False)
        rebuild.build(copy, other, pair[0], tools, base / "other", cached=True)
        again = rebuild.build(copy, asked, pair[0], tools, base / "again", cached=True)
        assert compare(wheel.read(again), wheel.read(made)) == []


def test_a_kernel_that_was_changed_afterwards_is_named_and_shown(made, tmp_path):
    whole = wheel.read(made)
    name = next(name for name in whole.members if name.endswith(".cubin"))
    image = bytearray(whole.members[name])
    elf = Elf(bytes(image))
    code = min((part for part in elf.sections if part.name.startswith(".text.")), key=lambda part: part.name)
    image[code.offset + 32 : code.offset + 48] = image[code.offset + 48 : code.offset + 64]  # an instruction twice
    changed = tiny.write(tmp_path / made.name, {**whole.members, name: bytes(image)})
    found = [*false_claims(wheel.read(changed)), *compare(wheel.read(changed), whole)]
    kernel = code.name.removeprefix(".text.")
    (words,) = [d.words for d in found if (d.member, d.kind) == (name, "kernel")]
    assert words.startswith(f"kernel {kernel}: ")
    assert "instructions of" in words
    assert [line for line in words.splitlines() if line.startswith("    -")]
    assert {d.kind for d in found if d.member == name} - {"packing"} == {"kernel", "claim"}


def copied(tree: Path) -> Path:
    for path in source.input_files(ROOT):
        (tree / path.relative_to(ROOT)).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(path, tree / path.relative_to(ROOT))
    return tree


@pytest.fixture(scope="module")
def planted(tmp_path_factory) -> Path:
    """This tree with a path, a clock, a build id, another level of optimisation, and an instruction in the kernels of
    its smallest operator."""
    tree = copied(tmp_path_factory.mktemp("planted") / "tree")
    library = min((tree / "csrc/core").glob("*.cpp"))
    library.write_text(library.read_text(encoding="utf-8") + PLANT, encoding="utf-8")
    flags = tree / "cmake/flags.cmake"
    more = 'target_compile_definitions(kw_flags INTERFACE KW_PLANT="${PROJECT_SOURCE_DIR}")\n'
    text = flags.read_text(encoding="utf-8").replace("    -fno-rtti\n", "    -fno-rtti\n    -O1\n    -Wno-date-time\n")
    flags.write_text(text + more, encoding="utf-8")
    host = tree / "cmake/host.cmake"
    host.write_text(host.read_text(encoding="utf-8").replace("--build-id=none", "--build-id=sha1"), encoding="utf-8")
    kernels = tree / source_of(ROOT, SMALLEST)
    text, count = KERNEL.subn(r"\1 __nanosleep(20);", kernels.read_text(encoding="utf-8"))
    assert count, f"{kernels.name} has no kernel of the form that this plants into"
    kernels.write_text(text, encoding="utf-8")
    return tree


@pytest.fixture(scope="module")
def leaking(planted, asked, pair, tmp_path_factory) -> list[Path]:
    return [make(planted, asked, at, tmp_path_factory.mktemp("leaking")) for at in pair]


@pytest.mark.long
def test_what_two_builds_must_not_see_is_found_and_named(leaking):
    told = compare(wheel.read(leaking[0]), wheel.read(leaking[1]))
    assert {difference.kind for difference in told} == {"path", "clock", "build-id", "follows"}
    (path,) = [difference.words for difference in told if difference.kind == "path"]
    assert "Zweite" in path


@pytest.mark.long
def test_a_wheel_of_other_sources_and_flags_is_not_verified(leaking):
    verdict = verify(leaking[0], ROOT, cached=True, jobs=2)
    told: dict[str, str] = {}
    for difference in verdict.found:
        told[difference.kind] = told.get(difference.kind, "") + difference.words
    assert {"source", "flags", "path", "clock", "build-id", "kernel"} <= told.keys()
    assert "cmake/flags.cmake" in told["source"]
    assert str(source_of(ROOT, SMALLEST)) in told["source"]
    assert "-O1" in told["flags"]
    assert told["exports"] == "kw_planted is only in the wheel"
    every_kernel_is_shown(verdict.theirs, verdict.found)
    assert re.search(r"^    -NANOSLEEP 0x14", told["kernel"], re.MULTILINE), told["kernel"]


def manifest(given: Wheel) -> dict[str, Any]:
    return dict(json.loads(given.members["kernelwright/manifest.json"]))


def every_kernel_is_shown(given: Wheel, found: Iterable[Difference]) -> None:
    """Those of the planted operator, each for each code, with instructions that differ; and no other operator's."""
    images = {i["path"]: {k["name"] for k in i["kernels"]} for i in manifest(given)["images"] if i["op"] == SMALLEST}
    named = {(d.member, m[1]) for d in found if d.kind == "kernel" and (m := re.match(r"kernel (\w+): ", d.words))}
    assert named == {(f"kernelwright/{path}", name) for path, names in images.items() for name in names}
    assert all("\n    -" in d.words for d in found if d.kind == "kernel")


@pytest.mark.long
def test_kernels_of_another_compiler_are_traced_to_it(asked, pair, tmp_path):
    """A wheel that calls itself one of this toolkit, made with the compiler of another."""
    mine, machine = TABLE.toolkits[asked["toolkit"]].locks, machine_of(TABLE)
    others = [kit for kit in TABLE.toolkits.values() if machine in kit.locks and kit.locks != mine]
    here = [kit for kit in others if pip.home(ROOT / kit.locks[machine]).is_dir()]
    if not here:
        pytest.skip(f"no other compiler is here; ./kw provision -- --toolkit {others[-1].name} brings one")
    theirs = here[-1].locks
    tree = copied(tmp_path / "tree")
    text = (tree / "targets.toml").read_text(encoding="utf-8").replace(mine[machine], "swapped")
    text = text.replace(theirs[machine], mine[machine]).replace("swapped", theirs[machine])
    (tree / "targets.toml").write_text(text, encoding="utf-8")
    verdict = verify(make(tree, asked, pair[0], tmp_path), ROOT, cached=True, jobs=2)
    told = {(d.member, d.kind): d.words for d in verdict.found}
    compiler = told["the wheel", "compiler"]
    assert f"nvrtc {here[-1].components['nvrtc']} " in compiler
    assert f"nvrtc {TABLE.toolkits[asked['toolkit']].components['nvrtc']} " in compiler
    assert theirs[machine] in told["the wheel", "tools"]
    images = {f"kernelwright/{image['path']}" for image in manifest(verdict.theirs)["images"]}
    assert {member for member, kind in told if kind == "kernel"} <= images
    assert images <= {member for member, _ in told}
