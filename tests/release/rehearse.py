# SPDX-License-Identifier: MIT
"""`python -m tests.release.rehearse FOLDER`: a release and the one after it, from the tag to the uninstalled wheel.

Needs Linux, root's rights for `chroot`, git, debootstrap with Debian's packages, and pip's index for torch's wheels.
FOLDER is empty or not there, but with --again; roots are kept in .kw/roots. It prints each thing that it did.
"""

from __future__ import annotations

import argparse
import hashlib
import platform
import shutil
import subprocess
import sys
from pathlib import Path

from kernelwright_toolchain import targets
from tests.release import cut, index
from tests.release.installed import Trial
from tests.release.roots import SYSTEMS, Root
from tests.tree import ROOT

TORCH_FOR = "3.11"
KEPT = ROOT / ".kw" / "roots"


def did(text: str) -> None:
    print(text, flush=True)


def next_of(version: str) -> str:
    *first, last = version.split(".")
    return ".".join([*first, str(int(last) + 1)])


def fetched(place: Path, *words: str) -> list[Path]:
    """What pip's own index has: those that the extras and the toolchain ask for."""
    command = [sys.executable, "-m", "pip", "download", "--quiet", "--dest", str(place), "--only-binary=:all:", *words]
    subprocess.run(command, check=True)
    return sorted(place.glob("*.whl"))


def releases(folder: Path) -> tuple[cut.Clone, str, str]:
    """Both versions, published into folders of their names; the clone, which has their tags."""
    clone = cut.Clone.of(ROOT, folder / "tree")
    did(f"tag {clone.cut()} in a clone of {cut.said(['git', 'rev-parse', '--short', 'HEAD'], ROOT).strip()}")
    first = clone.version
    wheels = clone.wheels(*cut.released())
    for name, digest in cut.publish(clone, wheels, folder / first).items():
        did(f"  {digest}  {name}")
    second = next_of(first)
    clone.begin(second)
    did(f"tag {clone.cut()}")
    here = [t.name for t in targets.load().targets.values() if t.release and t.machine == platform.machine()]
    (folder / second).mkdir()
    for wheel in clone.wheels(*here):
        wheel.rename(folder / second / wheel.name)
        did(f"  {hashlib.sha256((folder / second / wheel.name).read_bytes()).hexdigest()}  {wheel.name}")
    return clone, first, second


def earlier(folder: Path) -> tuple[cut.Clone, str, str]:
    """What an earlier run made, to try the installs again."""
    clone = cut.Clone(folder / "tree")
    *first, last = clone.version.split(".")
    return clone, ".".join([*first, str(int(last) - 1)]), clone.version


def offer(folder: Path, *versions: str) -> Path:
    """All wheels and sdists of these in an index, beside torch and what it needs."""
    place = folder / "index"
    shutil.rmtree(place, ignore_errors=True)
    for version in versions:
        files = [path for kind in ("*.whl", "*.tar.gz") for path in sorted((folder / version).glob(kind))]
        index.add(place, *files)
    machine = platform.machine()
    for name, version in (
        ("torch", TORCH_FOR),
        ("tomli", "3.10"),
    ):  # the toolchain asks for the latter below 3.11 alone
        asked = ["--python-version", version, "--implementation", "cp"]
        asked += ["--platform", f"manylinux_2_28_{machine}", "--platform", f"manylinux2014_{machine}"]
        (folder / name).mkdir(exist_ok=True)
        index.add(place, *fetched(folder / name, name, *asked))
    return place


def third_party(folder: Path, address: str, version: str, clone: cut.Clone, *, whole: bool) -> None:
    """Somebody who has the wheel from an index and the tag from git, and nothing else."""
    place = folder / "third"
    shutil.rmtree(place, ignore_errors=True)
    place.mkdir()
    asked = ["--quiet", "--no-deps", "--only-binary=:all:", "--isolated", "--index-url", address]
    words = [sys.executable, "-m", "pip", "download", *asked, f"kernelwright=={version}"]
    cut.said(words, place, PIP_NO_CACHE_DIR="1", PIP_CONFIG_FILE="/dev/null")
    (wheel,) = place.glob("*.whl")
    cut.said(["git", "clone", "--quiet", "--branch", f"v{version}", str(clone.tree), "tree"], place)
    how = [] if whole else ["--cached"]
    for options in (["--quick"], how):
        out = cut.Clone(place / "tree").session("verify", *options, str(wheel))
        assert "SUCCESS" in out.splitlines()[-1], out
        did(f"a third party's `verify {' '.join(options)}`: {out.splitlines()[-1]}")


def installs(address: str, first: str, second: str) -> None:
    """Every system with every Python that is there; what is not is named."""
    tested = set()
    for name in SYSTEMS:
        root = Root.made(name, KEPT)
        pythons = root.pythons()
        for version, python in sorted(pythons.items()):
            trial = Trial(root, version, python, address)
            trial.package(first, second)
            trial.two_versions(first, second)
            trial.toolchain(first, f"kernelwright=={first}")
            did(f"{name}, Python {version}: installed, upgraded, two versions, toolchain, nothing stays")
            tested.add(version)
        if SYSTEMS[name] == TORCH_FOR:
            Trial(root, TORCH_FOR, pythons[TORCH_FOR], address).with_torch(first)
            did(f"{name}, Python {TORCH_FOR}: kernelwright[torch]")
    lacking = [version for version in targets_of_python() if version not in tested]
    did(f"not tested: free-threaded Python, which Debian has not{''.join(f', {version}' for version in lacking)}")


def targets_of_python() -> list[str]:
    """The versions that pyproject.toml names."""
    found = cut.pyproject()["project"]["classifiers"]
    return [line.rpartition(" ")[2] for line in found if line.startswith("Programming Language :: Python :: 3.")]


def withdraw(place: Path, address: str, second: str, first: str, wheel: str) -> None:
    root = Root.made("bookworm", KEPT)
    trial = Trial(root, TORCH_FOR, root.pythons()[TORCH_FOR], address)
    trial.withdrawn(second)
    index.yank(place, wheel, "wrong results")
    trial.withdrawn(first)
    did(f"{second} withdrawn: who asks for no version gets {first}")


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--whole", action="store_true", help="verify compiles every kernel anew, from no cache")
    parser.add_argument("--again", action="store_true", help="nothing is built: FOLDER has what an earlier run made")
    options = parser.parse_args(arguments)
    folder = options.folder.resolve()
    folder.mkdir(parents=True, exist_ok=True)
    clone, first, second = earlier(folder) if options.again else releases(folder)
    place = offer(folder, first, second)
    (newer,) = (folder / second).glob("*.whl")
    with index.served(place) as address:
        third_party(folder, address, first, clone, whole=options.whole)
        installs(address, first, second)
        withdraw(place, address, second, first, newer.name)
    did("SUCCESS")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
