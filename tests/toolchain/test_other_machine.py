# SPDX-License-Identifier: MIT
"""Another kind of machine's own NVRTC and zig, run under emulation, make the bytes that this one's make; and with its own
torch, refusals there keep their class and no memory.

With a toolkit whose NVRTC PyPI has for both kinds of machine. The root has that machine's Debian in it, unpacked and
not set up; the kernel runs its programs by qemu-user in namespaces of their own, so that nothing is left behind.
"""

from __future__ import annotations

import hashlib
import os
import platform
import shlex
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from kernelwright_toolchain import source, start, targets
from kernelwright_toolchain.locking import resolve, wanted
from kernelwright_toolchain.providers import pip
from kernelwright_toolchain.testing import locked_torch
from kernelwright_toolchain.workflows import render
from tests.toolchain.test_boards import built
from tests.tree import ROOT

pytestmark = [pytest.mark.slow, pytest.mark.long]

TABLE = targets.load()
OTHER = next(name for name in ("aarch64", "x86_64") if name != platform.machine())
DEBIAN = {"aarch64": "arm64", "x86_64": "amd64"}  # as Debian calls them
MAGIC = {"aarch64": "b7", "x86_64": "3e"}  # e_machine of an ELF file
KIT = next(kit for kit in TABLE.toolkits.values() if all(path.endswith(".txt") for path in kit.locks.values()))
TARGET = next(target for target in TABLE.targets.values() if target.release and target.machine == platform.machine())
FEW = ["--toolkit", KIT.name, "--target", TARGET.name, "--ops", "swiglu", "--archs", "80"]
PROGRAMS = (f"qemu-{OTHER}-static", "debootstrap", "dpkg-deb", "unshare")

ENTER = r"""
set -e
mount -t binfmt_misc none /proc/sys/fs/binfmt_misc
printf '%s' ':other:M::\x7fELF\x02\x01\x01\x00\x00\x00\x00\x00\x00\x00\x00\x00\x02\x00\xMAGIC\x00'\
':\xff\xff\xff\xff\xff\xff\xff\x00\xff\xff\xff\xff\xff\xff\xff\xff\xfe\xff\xff\xff:QEMU:F' \
> /proc/sys/fs/binfmt_misc/register
root=$1; shift
mount --rbind /proc "$root/proc"
mount --rbind /dev "$root/dev"
exec chroot "$root" "$@"
"""


class Root:
    """A directory with the other machine's programs in it."""

    def __init__(self, place: Path) -> None:
        self.place = place

    def run(self, *command: str, **variables: str) -> subprocess.CompletedProcess[str]:
        qemu = str(shutil.which(PROGRAMS[0]))
        script = ENTER.replace("MAGIC", MAGIC[OTHER]).replace("QEMU", qemu)
        inside = ["unshare", "--user", "--map-root-user", "--mount", "--propagation", "private"]
        return subprocess.run(
            [*inside, "sh", "-c", script, "sh", str(self.place), *command],
            env={"PATH": "/usr/sbin:/usr/bin:/sbin:/bin", "HOME": "/", "LC_ALL": "C.UTF-8", **variables},
            capture_output=True,
            text=True,
            check=False,
        )


@pytest.fixture(scope="module")
def root(tmp_path_factory) -> Root:
    """Debian's packages of the other machine, unpacked; its Python is the one that the locked tools are for."""
    if missing := [name for name in PROGRAMS if not shutil.which(name)]:
        pytest.skip(f"no {', '.join(missing)}; on Debian: apt-get install qemu-user-static debootstrap")
    place = tmp_path_factory.mktemp("root") / OTHER
    more = "--include=python3,libgomp1,libstdc++6"  # torch is linked with the last two
    made = ["debootstrap", "--foreign", "--variant=minbase", f"--arch={DEBIAN[OTHER]}", more]
    done = subprocess.run([*made, "bookworm", str(place)], capture_output=True, text=True, check=False)
    if done.returncode:
        pytest.skip(f"debootstrap cannot make a root of {OTHER}: {done.stdout[-300:]}{done.stderr[-300:]}")
    for package in sorted((place / "var/cache/apt/archives").glob("*.deb")):
        subprocess.run(["dpkg-deb", "-x", str(package), str(place)], check=True)
    found = Root(place)
    asked = found.run("python3", "-c", "import platform; print(platform.machine())")
    if asked.returncode:
        pytest.skip(f"the kernel runs no programs of {OTHER} in namespaces here: {asked.stderr[-300:]}")
    assert asked.stdout.strip() == OTHER
    return found


def python_of(root: Root) -> str:
    (python,) = {path.name.removeprefix("python") for path in (root.place / "usr/bin").glob("python3.[0-9]*")}
    return python


def of_it(python: str) -> list[str]:
    """What pip is told of that Python and the other machine."""
    glibc = {target.machine: target.glibc.parts for target in TABLE.targets.values()}
    tags = resolve.platforms(OTHER, (glibc[OTHER][0], glibc[OTHER][1]))
    abis = (f"cp{python.replace('.', '')}", "abi3", "none")
    names = [f"--platform={one}" for one in tags] + [f"--abi={abi}" for abi in abis]
    return [*names, f"--python-version={python}", "--implementation=cp"]


def provide(root: Root) -> None:
    """The locked packages of the other machine, where KW_TOOLS of a build in that root finds them."""
    python = python_of(root)
    tag = python.replace(".", "")
    for lock in (KIT.locks[OTHER], TABLE.tools.locks[OTHER], f"locks/{wanted.lock_of('audit').name}"):
        name = pip.home(ROOT / lock).name + (f"-cpython-{tag}" if lock == TABLE.tools.locks[OTHER] else "")
        place = root.place / "tools" / name
        pip.run_pip([*pip.FLAGS, *of_it(python), "--target", str(place), "-r", str(ROOT / lock)], f"fetching {lock}")


def copied(tree: Path) -> Path:
    for path in source.input_files(ROOT):
        to = tree / path.relative_to(ROOT)
        to.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(path, to)
    return tree


@pytest.fixture(scope="module")
def trees(root, tmp_path_factory) -> tuple[Path, Path]:
    """This machine's tree and the other's, in each of them what its own NVRTC made."""
    provide(root)
    own, other = copied(tmp_path_factory.mktemp("own") / "tree"), copied(root.place / "tree")
    words = ["kernelwright_toolchain", "device", "--out", "made", *FEW]
    done = subprocess.run(
        start.command(sys.executable, own, *words),
        cwd=own,
        env={**os.environ, pip.GIVEN: str(ROOT / ".kw" / "tools"), "KERNELWRIGHT_CACHE": str(own / "cache")},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    inside = f"cd /tree && exec python3 -m toolchain device --out made {' '.join(FEW)}"
    done = root.run("sh", "-c", inside, **{pip.GIVEN: "/tools", "KERNELWRIGHT_CACHE": "/cache"})
    assert done.returncode == 0, done.stdout + done.stderr
    return own, other


def test_nvrtc_of_another_machine_makes_the_same_image(trees):
    """And all else that is laid out for the library: what it says of the images, the table, the hashes it checks."""
    own, other = ({path.relative_to(tree / "made").as_posix(): path.read_bytes()
                   for path in (tree / "made").rglob("*") if path.is_file()} for tree in trees)  # fmt: skip
    (image,) = [name for name in own if name.endswith(".cubin")]
    assert len(own[image]) > 10_000
    print(f"{image}: sha256 {hashlib.sha256(own[image]).hexdigest()}")
    del own["report.json"], other["report.json"]  # seconds and memory
    assert {name for name in own.keys() | other.keys() if own.get(name) != other.get(name)} == set()


# Of one operator: what checks and launches, and what computes on a CPU. Without debug information, which names zig's
# folder and is stripped from the library.
OBJECTS = {
    "csrc/ops/gated/host/swiglu.cpp": [],
    "csrc/ops/gated/cpu/swiglu.cpp": ["-DKW_ISA=avx2", "-mavx2", "-mfma", "-mf16c"],
}
FLAGS = ["-O3", "-std=gnu++17", "-fPIC", "-fno-exceptions", "-fno-rtti", "-g0", "-Imade", "-Icsrc/include", "-Icsrc"]


def test_zig_of_another_machine_makes_the_same_machine_code(root, trees):
    own, other = trees
    folder = "ziglang/zig"
    (theirs,) = (root.place / "tools").glob(f"*/{folder}")
    ours = pip.install(ROOT / TABLE.tools.locks[platform.machine()], per_python=True) / folder
    target = f"{TARGET.zig}.{TARGET.glibc}"
    for number, (file, more) in enumerate(OBJECTS.items()):
        words = ["c++", "-target", target, *FLAGS, *more, "-c", file, "-o", f"{number}.o"]
        env = {**os.environ, "ZIG_GLOBAL_CACHE_DIR": str(own / "zig"), "ZIG_LOCAL_CACHE_DIR": str(own / "zig")}
        subprocess.run([str(ours), *words], cwd=own, env=env, check=True)
        inside = f"cd /tree && exec /{theirs.relative_to(root.place)} {shlex.join(words)}"
        done = root.run("sh", "-c", inside, ZIG_GLOBAL_CACHE_DIR="/cache", ZIG_LOCAL_CACHE_DIR="/cache")
        assert done.returncode == 0, done.stderr
        made = (own / f"{number}.o").read_bytes()
        print(f"{file}: sha256 {hashlib.sha256(made).hexdigest()}")
        assert (other / f"{number}.o").read_bytes() == made, file


@pytest.fixture(scope="module")
def with_torch(root, tmp_path_factory) -> Root:
    """The same with a locked torch of that machine and our operators' library, of one GPU's code."""
    pinned = render.pins()["torch"]
    version, row = pinned["earlier"][-1], f"{python_of(root)} {OTHER}"
    if row not in locked_torch.known()[version]:
        pytest.skip(f"locks/torch.json has no torch {version} for Python {row}")
    scratch = tmp_path_factory.mktemp("torch")
    lock = f"torch==={version} --hash=sha256:{locked_torch.known()[version][row]}\n"
    needs = wanted.lock_of(locked_torch.NEEDS).read_text(encoding="utf-8")
    (scratch / "lock.txt").write_text(lock + needs, encoding="utf-8")
    site = ["--target", str(root.place / "site"), "-r", str(scratch / "lock.txt")]
    pip.run_pip([*pip.FLAGS, *of_it(python_of(root)), *site], f"fetching torch {version} of {OTHER}")
    target = next(target for target in TABLE.targets.values() if target.release and target.machine == OTHER)
    wheel = built(target, scratch, ops="rms_norm,quantize_4bit,dequantize_4bit", archs="80")
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(root.place / "site")
    return root


def test_refusals_of_another_machine_keep_their_class_and_nothing_else(with_torch):
    """torch's exception goes through frames that zig compiled for that machine."""
    program = (ROOT / "tests/python/refusals_program.py").read_text(encoding="utf-8")
    done = with_torch.run("python3", "-W", "ignore", "-c", program, PYTHONPATH="/site")
    assert done.returncode == 0, done.stdout + done.stderr
