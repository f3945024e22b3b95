# SPDX-License-Identifier: MIT
"""Whole builds that are killed at random moments, run out of disk, or meet each other; then the bytes are compared.

    python -m tests.toolchain.faults kills --count 100 [--seed N]
    python -m tests.toolchain.faults disk
    python -m tests.toolchain.faults together

In copies of this tree under --place, which use the tools of .kw/. One operator for one code; every build
but the first finds most kernels in the cache, as people's do.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

from kernelwright_toolchain import orphans, source
from kernelwright_toolchain.device.compiler import source_of
from kernelwright_toolchain.request import find_ops
from tests.tree import ROOT

MORE = ("noxfile.py",)
STATE = ("tools/*", "nox-*", "cache/zig", "cache/virtualenv")
WORDS = ("build", "--", "--provider", "pip", "-j", "2", "--archs", "89", "--ops")


@dataclass
class Tree:
    """A copy of the sources in which ./kw works at once."""

    root: Path
    operator: str = field(
        default_factory=lambda: min(
            (op for op, images in find_ops().items() if images == (op,)),
            key=lambda op: (ROOT / source_of(ROOT, op)).stat().st_size,
        )
    )
    log: Path = field(init=False)

    def __post_init__(self) -> None:
        self.log = self.root.with_suffix(".log")
        self.root.mkdir(parents=True)
        for path in [*source.input_files(ROOT), *(ROOT / name for name in MORE)]:
            to = self.root / path.relative_to(ROOT)
            to.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(path, to)
        for path in [path for pattern in STATE for path in (ROOT / ".kw").glob(pattern)]:
            to = self.root / ".kw" / path.relative_to(ROOT / ".kw")
            if "cache" in path.parts:  # zig writes into it
                shutil.copytree(path, to, symlinks=True)
            else:
                to.parent.mkdir(parents=True, exist_ok=True)
                to.symlink_to(path)

    @property
    def mark(self) -> str:
        return orphans.mark_of(self.root / ".kw" / "build.lock")

    def start(self, **variables: str) -> subprocess.Popen[bytes]:
        """A build in a session of its own; what it says goes into the log."""
        with self.log.open("wb") as log:
            return subprocess.Popen(
                ["env", "--default-signal=INT", sys.executable, str(self.root / "kw"), *WORDS, self.operator],
                cwd=self.root, env={**os.environ, **variables}, stdout=log, stderr=log, start_new_session=True,
            )  # fmt: skip

    def build(self, **variables: str) -> int:
        return self.start(**variables).wait()

    def said(self) -> str:
        return self.log.read_text(encoding="utf-8", errors="replace")

    def wheels(self) -> set[str]:
        """sha256 of each wheel that lies in dist/, whoever left it there."""
        return {hashlib.sha256(path.read_bytes()).hexdigest() for path in (self.root / "dist").glob("*.whl")}

    def forget(self, chance: random.Random) -> None:
        """Takes away part of what an earlier build left, so that the next one has something to do."""
        shutil.rmtree(self.root / "dist", ignore_errors=True)
        kept = self.root / ".kw"
        for path in sorted([*kept.glob("cache/images/*/*"), *kept.glob("build/*/cmake/**/*.o")]):
            if chance.random() < 0.5:
                path.unlink()
        if chance.random() < 0.2:
            for path in kept.glob("build/*/cmake"):
                shutil.rmtree(path)


def until_ended(tree: Tree, seconds: float = 30) -> float:
    """Waits for the last process below a build that has ended, and says how long that took."""
    began = time.monotonic()
    while orphans.marked(tree.mark) and time.monotonic() - began < seconds:
        time.sleep(0.005)
    return time.monotonic() - began


def _below(pid: int) -> list[int]:
    """The process and all its descendants."""
    parents: dict[int, list[int]] = {}
    for path in Path("/proc").glob("[0-9]*/stat"):
        try:
            words = path.read_text(encoding="utf-8", errors="replace").rpartition(")")[2].split()
        except OSError:
            continue
        parents.setdefault(int(words[1]), []).append(int(path.parent.name))
    found = [pid]
    for one in found:
        found += parents.get(one, [])
    return found


def _send(pids: Sequence[int], number: int) -> None:
    for pid in pids:
        with suppress(ProcessLookupError):
            os.kill(pid, number)


def strike(child: subprocess.Popen[bytes], chance: random.Random) -> str:
    """Kills some or all of a build; says how."""
    family = _below(child.pid)
    how = chance.choice(["kw KILL", "kw TERM", "kw HUP", "group INT", "group KILL", "one KILL", "one KILL", "all KILL"])
    who, name = how.split()
    number = signal.Signals[f"SIG{name}"]
    if who == "group":
        os.killpg(child.pid, number)
    else:
        _send({"kw": family[:1], "one": [chance.choice(family)], "all": family}[who], number)
    return how


def kills(place: Path, count: int, seed: int) -> int:
    """How many of the builds after a kill gave the right bytes; 0 if all did."""
    chance, tree = random.Random(seed), Tree(place / "tree")
    began = time.monotonic()
    assert tree.build() == 0, tree.said()
    (right,) = tree.wheels()
    lasts = time.monotonic() - began
    print(f"seed {seed}; right is {right}, made in {lasts:.0f} s", flush=True)
    hows: Counter[str] = Counter()
    slowest, wrong = 0.0, 0
    while sum(hows.values()) < count:
        tree.forget(chance)
        child = tree.start()
        time.sleep(chance.uniform(0, lasts))
        if child.poll() is not None:
            lasts = max(lasts * 0.9, 3)
            continue
        hows[how := strike(child, chance)] += 1
        child.wait()
        slowest = max(slowest, until_ended(tree) if how != "all KILL" else 0.0)
        left = orphans.marked(tree.mark) if how != "all KILL" else []
        halves = tree.wheels() - {right}
        code = tree.build()
        fine = code == 0 and tree.wheels() == {right} and not left and not halves
        wrong += not fine
        print(
            f"{sum(hows.values())}: {how}: {'right' if fine else f'WRONG: {code} {left} {halves} {tree.said()}'}",
            flush=True,
        )
    print(
        f"{count} kills ({json.dumps(hows)}), {count - wrong} builds after them right; "
        f"once kw had ended, its last process was gone within {slowest:.2f} s"
    )
    return wrong


def disk(place: Path) -> int:
    """Builds a tree on small file systems, each a little bigger, until one fits; then the bytes are compared."""
    whole = Tree(place / "whole")
    assert whole.build() == 0, whole.said()
    (right,) = whole.wheels()
    wrong = rounds = 0
    for tenths in range(10):
        small = place / "small"
        small.mkdir(exist_ok=True)
        subprocess.run(["mount", "-t", "tmpfs", "-o", "size=2g", "tmpfs", str(small)], check=True)
        try:
            tree = Tree(small / "tree")
            wrong += not _fills(tree, small, tenths, right)
            rounds += 1
        finally:
            subprocess.run(["umount", "--lazy", str(small)], check=True)
    print(f"{rounds} full disks, {rounds - wrong} told as such and followed by a build with the right bytes")
    return wrong


def _fills(tree: Tree, small: Path, tenths: int, right: str) -> bool:
    """With that much room for what a build writes; True if the message was right, and then the bytes."""
    used = (shutil.disk_usage(small).used >> 10) + 64 + tenths * 1500
    subprocess.run(["mount", "-o", f"remount,size={used}k", str(small)], check=True)
    tree.log = small.with_suffix(".log")
    (small / "t").mkdir()
    code = tree.build(TMPDIR=str(small / "t"))
    told = code == 22 and "the disk is full" in tree.said() and f"{small}" in tree.said()
    first = tree.said()
    halves = tree.wheels() - {right}
    subprocess.run(["mount", "-o", "remount,size=2g", str(small)], check=True)
    after = tree.build(TMPDIR=str(small / "t"))
    fine = (told or code == 0) and after == 0 and tree.wheels() == {right} and not halves
    print(
        f"{tenths * 1500 + 64} KiB: exit code {code}, then {after}: {'right' if fine else f'WRONG {halves} {first} {tree.said()}'}",
        flush=True,
    )
    return fine


def together(place: Path) -> int:
    """Two builds at once in one tree, then in two trees that share an empty cache."""
    one, other = Tree(place / "one"), Tree(place / "other")
    pair = [one.start(), one.start()]
    codes = [child.wait() for child in pair]
    first = one.wheels()
    shutil.rmtree(one.root / "dist")
    cache = {"KERNELWRIGHT_CACHE": str(place / "cache")}
    for tree in (one, other):
        for path in (tree.root / ".kw").glob("build/*"):
            shutil.rmtree(path)
    codes += [child.wait() for child in [one.start(**cache), other.start(**cache)]]
    fine = codes == [0] * 4 and len(first) == 1 and one.wheels() == other.wheels() == first
    print(
        f"exit codes {codes}, {'one wheel' if fine else f'WRONG: {first} {one.wheels()} {other.wheels()} {one.said()}'}"
    )
    return 0 if fine else 1


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=["kills", "disk", "together"])
    parser.add_argument("--count", type=int, default=100)
    parser.add_argument("--seed", type=int, default=random.randrange(1 << 30))
    parser.add_argument("--place", type=Path, default=ROOT / ".kw" / "faults")
    given = parser.parse_args()
    given.place.mkdir(parents=True, exist_ok=True)
    place = Path(tempfile.mkdtemp(dir=given.place))
    try:
        if given.what == "kills":
            return kills(place, given.count, given.seed)
        return (disk if given.what == "disk" else together)(place)
    finally:
        shutil.rmtree(place, ignore_errors=True)


if __name__ == "__main__":
    sys.exit(main())
