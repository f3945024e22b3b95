# SPDX-License-Identifier: MIT
"""What `verify` makes of wheels that say anything: words and an exit code, never a traceback, never a false SUCCESS.

The build itself is stood in for by a wheel that is there already.
"""

from __future__ import annotations

import copy
import hashlib
import json
import random
import struct
import zipfile
from argparse import Namespace
from collections.abc import Callable
from contextlib import contextmanager
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import tiny
from device_support import Made

from kernelwright_toolchain import source
from kernelwright_toolchain.commands import verify as command
from kernelwright_toolchain.errors import KwError, RequestError
from kernelwright_toolchain.exact import conditions, rebuild, verify
from kernelwright_toolchain.exact.verify import Verdict
from kernelwright_toolchain.targets import load
from kernelwright_toolchain.wheel import statement
from tests.tree import ROOT

STATEMENT = f"{tiny.INFO}{statement.NAME}"
PTX = b".version 8.2\n.target sm_90\n.visible .entry k_one()\n{ ret; }\n"
ODD = (None, 0, -1.5, "", [], {}, True, ["x"], {"a": 1}, "../../x", "\x1b[2J\nSUCCESS: the same bytes")
ROUNDS = 300


@pytest.fixture(scope="module")
def pair():
    """It asks every interpreter of this machine, so it is asked for once."""
    return conditions.pair(jobs=1, quick=True)


@pytest.fixture
def members(tmp_path) -> dict[str, bytes]:
    image = Made(kernel="k_one").bytes()
    kept = {
        tiny.LIBRARY: tiny.library(tmp_path, "int kw_add(int a) { return a * 3 + 1; }\n"),
        "kernelwright/manifest.json": tiny.manifest(("sm_89", "op", image)),
        "kernelwright/kernels/sm_89/op.cubin": image,
        "kernelwright/kernels/compute_90/op.ptx": PTX,
        "kernelwright/x.py": b"x = 1\n",
    }
    return tiny.sealed(kept)


@pytest.fixture
def plain(members, pair, tmp_path, monkeypatch) -> Path:
    """The wheel that every build gives."""

    @contextmanager
    def scratch():
        yield tmp_path

    (tmp_path / "ours").mkdir()
    path = tiny.write(tmp_path / "ours" / tiny.NAME, members)
    for name, answer in (("provision", []), ("lay_out", tmp_path), ("build", path)):
        monkeypatch.setattr(rebuild, name, lambda *_, _answer=answer, **__: _answer)
    monkeypatch.setattr(rebuild, "scratch", scratch)
    monkeypatch.setattr(conditions, "pair", lambda **_: pair)
    monkeypatch.setattr(source, "state", cache(source.state))  # reads every input
    return path


def judged(path: Path) -> Verdict:
    return verify.verify(path, ROOT, cached=True, jobs=1)


def with_statement(members: dict[str, bytes], change: Callable[[Any], Any]) -> dict[str, bytes]:
    said = json.loads(members[STATEMENT])
    return {**members, STATEMENT: json.dumps(change(said) or said).encode()}


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda said: said["predicate"].__delitem__("build"), "its statement.predicate has no build"),
        (lambda said: said["predicate"]["build"].update(provider=3), r"predicate\.build\.provider is 3, not a text"),
        (lambda said: said["predicate"]["source"].update(sha256=[]), r"sha256 is \[\], not a text"),
        (lambda said: said["subject"].append("x"), r"subject\[\d+\] is 'x', not an object"),
        (lambda said: said["predicate"]["inputs"].update(a=None), r"inputs\.a is None, not a text"),
        (lambda said: said["predicate"]["host_compiler"].update(compile="-O3"), "compile is '-O3', not a list"),
        (lambda said: said["predicate"]["build"].update(toolkit="cu999"), "toolkit 'cu999'; the table of .* has cu122"),
        (lambda said: said["predicate"]["build"].update(provider="\x1b[2J"), r"made by '\\x1b\[2J' .* there are pip"),
        (lambda said: said.update(predicateType="x" * 10_000), "holds no recipe: .* is of type 'xxx"),
        (lambda _: [1], "holds no recipe"),
    ],
)
def test_a_recipe_that_cannot_be_followed_is_refused_in_words(members, plain, tmp_path, change, words):
    path = tiny.write(tmp_path / tiny.NAME, with_statement(members, change))
    with pytest.raises(RequestError, match=words) as caught:
        judged(path)
    assert len(str(caught.value)) < 500
    assert str(caught.value).isprintable()


def test_a_wheel_whose_compiler_this_machine_lacks_names_the_machines_that_have_it(
    members, plain, tmp_path, monkeypatch
):
    """As where a toolkit's NVRTC is for x86-64 alone."""
    table = load()
    kit = table.toolkits["cu124"]
    lacking = replace(kit, hosts={**kit.hosts, "pip": ("x86_64",)})
    monkeypatch.setattr(verify, "load", lambda _: replace(table, toolkits={**table.toolkits, "cu124": lacking}))
    monkeypatch.setattr("platform.machine", lambda: "aarch64")
    told = with_statement(members, lambda said: said["predicate"]["build"].update(toolkit="cu124"))
    with pytest.raises(RequestError, match=r"build machines of aarch64 do not have; verify it on one of x86_64"):
        judged(tiny.write(tmp_path / tiny.NAME, told))


def test_what_a_wheel_says_cannot_look_like_a_verdict(members, plain, tmp_path, capsys):
    """Neither a name of a member nor a word of its recipe moves the cursor or begins a line of its own."""
    evil = "\x1b[2J\rsame       x\nSUCCESS: the same bytes\n\u202e"
    told = with_statement(members, lambda said: said["predicate"]["source"].update(sha256=evil))
    path = tiny.write(tmp_path / tiny.NAME, {**told, f"kernelwright/{evil}": b"1", "kernelwright/x.py": evil.encode()})
    beside = {path.name: hashlib.sha256(path.read_bytes()).hexdigest()}
    made = {"made": {"commit": evil, "dirty": True}}
    path.with_name(path.name + statement.ABOUT_WHEEL).write_bytes(statement.statement(beside, made, statement.BESIDE))
    given = Namespace(wheel=path, source=ROOT, cached=True, jobs=1, quick=False)
    assert command.run(given) == 1
    shown = capsys.readouterr()
    assert not {"\x1b", "\r", "\u202e"} & {*shown.out, *shown.err}
    lines = [*shown.out.split("\n"), *shown.err.split("\n")]
    assert not [line for line in lines if line.startswith("SUCCESS")]
    assert [line for line in lines if line.startswith("DIFFERENT")]


def test_an_archive_that_unpacks_to_more_than_any_wheel_has_is_not_unpacked(plain, tmp_path):
    path = tmp_path / tiny.NAME
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for number in range(5):
            archive.writestr(f"{number}", bytes(1 << 20))
    raw = path.read_bytes()
    size = (1 << 20).to_bytes(4, "little")
    path.write_bytes(raw.replace(size, (1 << 29).to_bytes(4, "little")))
    with pytest.raises(RequestError, match="would unpack to 2,684,354,560 bytes"):
        judged(path)


def test_an_archive_that_holds_a_member_twice_is_refused(members, plain, tmp_path):
    """Which of them is installed is the installer's choice, and only one of them is compared."""
    path = tiny.write(tmp_path / tiny.NAME, members)
    with zipfile.ZipFile(path, "a") as archive, pytest.warns(UserWarning, match="Duplicate name"):
        archive.writestr("kernelwright/x.py", members["kernelwright/x.py"])
    with pytest.raises(RequestError, match=r"'kernelwright/x\.py' is in it 2 times"):
        judged(path)


def _places(value: Any, here: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    inside = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    return [here, *(place for key, item in inside for place in _places(item, (*here, key)))]


def _odd(document: bytes, chance: random.Random) -> bytes:
    """One value of a JSON document is another."""
    whole = [json.loads(document)]
    at = whole
    *way, last = (0, *chance.choice(_places(whole[0])))
    for key in way:
        at = at[key]
    at[last] = copy.deepcopy(chance.choice(ODD))
    return json.dumps(whole[0]).encode()


def _damaged(data: bytes, chance: random.Random) -> bytes:
    made = bytearray(data)
    for _ in range(chance.choice((1, 1, 2, 8))):
        at = chance.randrange(len(made))
        how = chance.random()
        if how < 0.6:
            made[at] = chance.randrange(256)
        elif how < 0.8:
            del made[at : at + chance.randrange(1, 64)]
        else:
            made[at:at] = chance.randbytes(chance.randrange(1, 16))
        made = made or bytearray(b"x")
    return bytes(made)


def _changed(members: dict[str, bytes], plain: Path, chance: random.Random) -> bytes:
    """The bytes of a wheel in which something is not as it should be."""
    where, how = chance.choice(sorted(members)), chance.random()
    if how < 0.3:
        return _damaged(plain.read_bytes(), chance)
    if how < 0.6:
        where = chance.choice(sorted(name for name in members if name.endswith(".json")))
        changed = _odd(members[where], chance)
    else:
        changed = _damaged(members[where], chance)
    made = tiny.write(plain.with_name("made.whl"), {**members, where: changed})
    return made.read_bytes()


@pytest.mark.parametrize(
    ("part", "field", "form", "value"),
    [("symbols", 4, "<I", 5), ("symbols", 32, "<Q", 25), ("symbols", 40, "<I", 200), ("file", 40, "<Q", 1 << 63)],
    ids=["type", "size", "link", "offset"],
)
def test_a_library_that_cannot_be_read_is_told(members, plain, tmp_path, part, field, form, value):
    """By one field of the file's own header, or of that of the section of its symbols."""
    data = bytearray(members[tiny.LIBRARY])
    (start,), (count,) = struct.unpack_from("<Q", data, 40), struct.unpack_from("<H", data, 60)
    symbols = next(n for n in range(count) if struct.unpack_from("<I", data, start + 64 * n + 4) == (11,))
    struct.pack_into(form, data, (start + 64 * symbols if part == "symbols" else 0) + field, value)
    changed = tiny.write(tmp_path / tiny.NAME, {**members, tiny.LIBRARY: bytes(data)})
    (words,) = [d.words for d in judged(changed).found if (d.member, d.kind) == (tiny.LIBRARY, "code")]
    assert words.startswith("it cannot be read as a library: ")


@pytest.mark.filterwarnings("ignore:Duplicate name")
def test_damage_of_any_kind_is_a_difference_or_a_refusal(members, plain, tmp_path):
    seed = random.randrange(1 << 30)
    chance = random.Random(seed)
    for number in range(ROUNDS):
        path = tmp_path / tiny.NAME
        path.write_bytes(_changed(members, plain, chance))
        same = path.read_bytes() == plain.read_bytes()
        try:
            verdict = judged(path)
        except KwError:
            continue
        except Exception as error:
            raise AssertionError(f"seed {seed}, round {number}") from error
        assert bool(verdict.found) != same, f"seed {seed}, round {number}"
        assert [*verdict.lines()]
