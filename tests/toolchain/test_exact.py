# SPDX-License-Identifier: MIT
"""Real builds: one under conspicuous circumstances, one with everything planted that must not be in a wheel; what
`verify` says of both, and of a kernel that was changed. One operator, one code, compiled kernels out of the cache."""

from __future__ import annotations

import shutil
from dataclasses import replace
from pathlib import Path

import pytest
import tiny

from toolchain import pep517, source
from toolchain.cubin.elf import Elf
from toolchain.exact import conditions, rebuild, wheel
from toolchain.exact.compare import compare
from toolchain.exact.verify import verify
from toolchain.exact.wheel import false_claims
from toolchain.request import find_ops
from toolchain.targets import ROOT, load
from toolchain.wheel.recipe import settings

pytestmark = pytest.mark.slow

TABLE = load()
PLANT = """
extern "C" __attribute__((visibility("default"))) const char* kw_planted() { return KW_PLANT " " __DATE__ " " __TIME__; }
"""


@pytest.fixture(scope="module")
def asked() -> dict[str, str]:
    op = min(find_ops(), key=lambda name: (ROOT / f"csrc/cuda/{name}.cu").stat().st_size)
    wanted = pep517.settled(TABLE, {"provider": "pip", "ops": op, "archs": TABLE.targets["linux-x86_64"].cubins[0]})
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


def test_a_wheel_is_verified_by_making_it_again(made):
    verdict = verify(made, ROOT, cached=True, jobs=2)
    assert verdict.found == ()
    assert [line.split()[0] for line in verdict.lines()] == ["same"] * len(verdict.theirs.members)


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


@pytest.fixture(scope="module")
def planted(tmp_path_factory) -> Path:
    """This tree with a path, a clock, a build id, and another level of optimisation."""
    tree = tmp_path_factory.mktemp("planted") / "tree"
    for path in source.input_files(ROOT):
        (tree / path.relative_to(ROOT)).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(path, tree / path.relative_to(ROOT))
    library = min((tree / "csrc/host").glob("*.cpp"))
    library.write_text(library.read_text(encoding="utf-8") + PLANT, encoding="utf-8")
    flags = tree / "cmake/flags.cmake"
    more = 'target_compile_definitions(kw_flags INTERFACE KW_PLANT="${PROJECT_SOURCE_DIR}")\n'
    text = flags.read_text(encoding="utf-8").replace("    -fno-rtti\n", "    -fno-rtti\n    -O1\n    -Wno-date-time\n")
    flags.write_text(text + more, encoding="utf-8")
    host = tree / "cmake/host.cmake"
    host.write_text(host.read_text(encoding="utf-8").replace("--build-id=none", "--build-id=sha1"), encoding="utf-8")
    return tree


@pytest.fixture(scope="module")
def leaking(planted, asked, pair, tmp_path_factory) -> list[Path]:
    return [make(planted, asked, at, tmp_path_factory.mktemp("leaking")) for at in pair]


def test_what_two_builds_must_not_see_is_found_and_named(leaking):
    told = compare(wheel.read(leaking[0]), wheel.read(leaking[1]))
    assert {difference.kind for difference in told} == {"path", "clock", "build-id", "follows"}
    (path,) = [difference.words for difference in told if difference.kind == "path"]
    assert "Zweite" in path


def test_a_wheel_of_other_sources_and_flags_is_not_verified(leaking):
    verdict = verify(leaking[0], ROOT, cached=True, jobs=2)
    told: dict[str, str] = {}
    for difference in verdict.found:
        told[difference.kind] = told.get(difference.kind, "") + difference.words
    assert {"source", "flags", "path", "clock", "build-id"} <= told.keys()
    assert "cmake/flags.cmake" in told["source"]
    assert "-O1" in told["flags"]
    assert told["exports"] == "kw_planted is only in the wheel"
