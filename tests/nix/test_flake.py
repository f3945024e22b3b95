# SPDX-License-Identifier: MIT
"""flake.nix evaluated without network against the stand-in for nixpkgs: what it offers, sets, and refuses.

Nothing is built here: that needs the real nixpkgs and NVIDIA's archives.
"""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))  # for flake_support

from flake_support import ROOT, Flake

from kernelwright_toolchain import source, targets
from kernelwright_toolchain.locking import names
from kernelwright_toolchain.locking.wanted import pyproject
from kernelwright_toolchain.providers import archives, pip

pytestmark = pytest.mark.skipif(
    not shutil.which("nix"), reason="Nix is not installed (Debian's nix-bin or any Nix 2.8 or newer); nothing evaluated"
)
TABLE = targets.load()
SYSTEMS = sorted({f"{target.machine}-linux" for target in TABLE.targets.values()})
# Each target with each toolkit that nixpkgs is said to have for its machine; the target's own toolkit is not named.
ROWS = {
    (f"{target.machine}-linux", name if kit.name == target.toolkit else f"{name}-{kit.name}"): (target, kit)
    for name, target in TABLE.targets.items()
    for kit in TABLE.toolkits.values()
    if target.machine in kit.hosts["nix"]
}
ALL = list(ROWS)
SHELLS = [f"devShells.{system}.{name}" for system, name in ALL]
TESTING = [f"{shell}-tests" for shell in SHELLS]
DEFAULT = [shell for shell in SHELLS if shell.rpartition(".")[2] in TABLE.targets]
FURTHER = [shell for shell in SHELLS if shell not in DEFAULT]
# The release's wheels: of every target, from each kind of machine that has the compilers from PyPI.
RELEASES = {
    system: {
        f"release-{name}"
        for name, target in TABLE.targets.items()
        if system.removesuffix("-linux") in TABLE.toolkits[target.toolkit].hosts["pip"]
    }
    for system in SYSTEMS
}
RELEASED = [(system, name) for system, names in RELEASES.items() for name in sorted(names)]


@pytest.fixture(scope="module")
def flake(tmp_path_factory):
    return Flake(tmp_path_factory.mktemp("flake"))


@pytest.fixture
def changed(tmp_path):
    return Flake(tmp_path / "flake")


def test_the_whole_flake_evaluates(flake):
    done = flake.check()
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("kind", ["devShells", "packages"])
def test_every_target_has_one_of_each_and_the_released_one_is_the_default(flake, kind):
    for system in SYSTEMS:
        own = {name for where, name in ALL if where == system}
        more = RELEASES[system] if kind == "packages" else {f"{name}-tests" for name in own}
        assert set(flake.evaluate(f"{kind}.{system}", "builtins.attrNames")) == {*own, "default", *more}
        released = next(name for name in own if name in TABLE.targets and TABLE.targets[name].release)
        path = "each: map (one: one.drvPath) [ each.default each.{0} ]"
        default, named = flake.evaluate(f"{kind}.{system}", path.format(released))
        assert default == named
    assert set(flake.evaluate(kind, "builtins.attrNames")) == set(SYSTEMS)


def test_checks_build_every_wheel_and_the_formatter_reads_every_file(flake):
    for system in SYSTEMS:
        own = {name for where, name in ALL if where == system}
        assert set(flake.evaluate(f"checks.{system}", "builtins.attrNames")) == own | {"format"} | RELEASES[system]
        assert "nixfmt" in flake.evaluate(f"formatter.{system}.name")
        programs = flake.evaluate(f"checks.{system}.format.packages", "map (one: one.name)")
        assert programs == [flake.evaluate(f"formatter.{system}.name")]
    script = flake.evaluate(f"checks.{SYSTEMS[0]}.format.script")
    command, flake_nix, others = script.splitlines()[0].rsplit(maxsplit=2)
    assert command == "nixfmt --check"
    assert Path(flake_nix).read_text() == (ROOT / "flake.nix").read_text()
    folder = Path(others.removesuffix("/*.nix"))
    assert {path.name for path in folder.glob("*.nix")} == {path.name for path in (ROOT / "nix").glob("*.nix")}


def test_a_hermetic_build_sees_every_input_and_those_of_a_new_operator(changed):
    (changed.tree / "csrc" / "ops" / "toy").mkdir(parents=True)
    (changed.tree / "csrc" / "ops" / "toy" / "new_op.cu").write_text("// a kernel\n")
    (changed.tree / "docs").mkdir()
    (changed.tree / "docs" / "index.md").write_text("A page\n")
    wheels = [f"{system}.{name}" for system, name in ALL] + [f"{system}.{name}.made" for system, name in RELEASED]
    for wheel in wheels:
        place = Path(changed.evaluate(f"packages.{wheel}.src", "toString"))
        for file in source.input_files(changed.tree):
            assert (place / file.relative_to(changed.tree)).read_bytes() == file.read_bytes()
        assert (place / "csrc" / "ops" / "toy" / "new_op.cu").is_file()
        own = {"flake.lock"} if "release" not in wheel else set()  # the lock of the labelled wheel's own compilers
        read = {file.relative_to(changed.tree).as_posix() for file in source.input_files(changed.tree)}
        assert {path.relative_to(place).as_posix() for path in place.rglob("*") if path.is_file()} == read | own


def derivations(flake: Flake) -> list[str]:
    """Of every wheel, and of every release's wheel before its commit is laid beside it."""
    whole = [f"{system}.{name}" for system, name in ALL] + [f"{system}.{name}.made" for system, name in RELEASED]
    return [flake.evaluate(f"packages.{wheel}.drvPath") for wheel in whole]


def test_what_a_wheel_is_not_made_from_leaves_its_derivation_alone(changed):
    before = derivations(changed)
    for name in ("docs/index.md", "tests/test_x.py", "CHANGELOG.md", "flake_notes.txt"):
        (changed.tree / name).parent.mkdir(exist_ok=True)
        (changed.tree / name).write_text("Another line\n")
    assert derivations(changed) == before
    (changed.tree / "csrc").mkdir()
    (changed.tree / "csrc" / "new.h").write_text("// code\n")
    assert not set(derivations(changed)) & set(before)


def test_the_commit_is_told_beside_the_wheel_alone(changed):
    """A commit of the same sources gives another statement, and the wheel's own derivation."""
    # Locked, not overridden: a flake whose lock is not the committed one has no commit.
    locked = changed.nix(
        "flake", "lock", f"path:{changed.tree}", "--override-input", "nixpkgs", f"path:{changed.nixpkgs}"
    )
    assert locked.returncode == 0, locked.stderr
    git = ["git", "-C", str(changed.tree), "-c", "user.name=a", "-c", "user.email=a@b"]
    subprocess.run([*git, "init", "--quiet"], check=True)
    system, name = RELEASED[0]
    seen = []
    for word in ("one", "two"):
        (changed.tree / "notes.txt").write_text(word)
        subprocess.run([*git, "add", "--all"], check=True)
        subprocess.run([*git, "commit", "--quiet", "--message", word], check=True)
        commit = subprocess.run([*git, "rev-parse", "HEAD"], check=True, capture_output=True, text=True).stdout.strip()
        asked = [
            f"git+file://{changed.tree}#packages.{system}.{name}",
            "--apply",
            "one: [ one.script one.made.drvPath ]",
        ]
        done = changed.nix("eval", "--json", *asked)
        assert done.returncode == 0, done.stderr
        script, made = json.loads(done.stdout)
        assert f'"{commit}" clean' in script
        seen.append((script, made))
    assert seen[0][0] != seen[1][0]
    assert seen[0][1] == seen[1][1]


@pytest.mark.parametrize(("system", "name"), RELEASED)
def test_a_release_takes_the_locked_files_and_no_compiler(flake, system, name):
    machine = system.removesuffix("-linux")
    kits = {TABLE.toolkits[target.toolkit].locks[machine] for target in TABLE.targets.values()}
    files = json.loads((ROOT / names.NAMES).read_text())
    wanted = {row["sha256"] for lock in (*kits, "locks/audit.txt") if lock in files for row in files[lock]}
    wanted |= {row.sha256 for lock in kits if lock not in files for row in archives.read(ROOT / lock)[1]}
    python = flake.evaluate(f"packages.{system}.{name}.packages", "map (one: one.pythonVersion or null)")[0]
    tools = [row for row in files[TABLE.tools.locks[machine]] if python in row.get("pythons", [python])]
    wanted |= {row["sha256"] for row in tools if not row["file"].startswith(("cmake-", "ninja-"))}
    script = flake.evaluate(f"packages.{system}.{name}.made.KW_TOOLS", "one: one.script")
    shown = flake.nix("show-derivation", "--recursive", flake.evaluate(f"packages.{system}.{name}.made.drvPath"))
    assert shown.returncode == 0, shown.stderr
    derived = json.loads(shown.stdout)
    assert {one["outputs"]["out"].get("hash") for one in derived.values()} - {None} == wanted
    assert not {path for path in derived if "nvcc" in path or "gcc-wrapper" in path}
    places = [line.split()[2].strip('"').rpartition("/")[2] for line in script.splitlines() if line.strip()]
    locks = [*sorted(kits), "locks/audit.txt", TABLE.tools.locks[machine]]
    tag = f"-cpython-{python.replace('.', '')}"
    assert places == [pip.home(ROOT / lock).name + (tag if "tools" in lock else "") for lock in locks]


def test_nox_runs_by_the_shells_own_tools(flake):
    """No tool of a shell is fetched by pip: its Python has nox and what its sessions import, beside CMake and ninja."""
    (nox,) = [text for text in (ROOT / "noxfile.py").read_text().splitlines() if "default_venv_backend" in text]
    assert nox.endswith('"none"')  # sessions run in the Python that nox is in
    for shell in SHELLS:
        names = {name.partition("-")[0] for name in flake.evaluate(f"{shell}.packages", "map (one: one.name)")}
        assert {"cmake", "ninja", "python3", "cuda_nvcc"} <= names
        inside = "all: builtins.concatMap (one: map (each: each.name) (one.modules or [ ])) all"
        modules = {name.rpartition("-")[0] for name in flake.evaluate(f"{shell}.packages", inside)}
        assert modules >= {"nox", "packaging", "pytest", "scikit-build-core", "virtualenv"}


@pytest.mark.parametrize(("system", "name"), ALL)
def test_a_shell_has_the_tables_compilers(flake, system, name):
    target, toolkit = ROWS[system, name]
    shell = f"devShells.{system}.{name}"
    assert flake.evaluate(f"{shell}.compiler.version") == TABLE.gcc[toolkit.name].version
    packages = dict(flake.evaluate(f"{shell}.packages", "map (one: [ one.name (one.src.url or null) ])"))
    assert f"cuda_nvcc-{toolkit.components['nvcc']}" in packages
    assert {url.split("/")[-2] for url in packages.values() if url} == {target.redist}
    modules = "all: map (one: [ one.name (one.src.sha256 or null) ]) (builtins.concatMap (one: one.modules or [ ]) all)"
    found = dict(flake.evaluate(f"{shell}.packages", modules))
    assert "nox-0" in found
    pinned = next(pin for pin in TABLE.tools.requirements if pin.startswith("scikit-build-core=="))
    digest = found[pinned.replace("==", "-")]
    assert f"{pinned} \\\n    --hash=sha256:{digest}\n" in (ROOT / TABLE.tools.locks[target.machine]).read_text()


@pytest.mark.parametrize(("system", "name"), ALL)
def test_a_shell_sets_what_compilers_and_sessions_read(flake, system, name):
    target, toolkit = ROWS[system, name]
    variables = "KW_NIX_TARGET KW_NIX_TOOLKIT CUDACXX CUDAHOSTCXX CUDAARCHS KW_LIBDEFLATE"
    read = flake.evaluate(f"devShells.{system}.{name}", f"s: {{ inherit (s) {variables}; }}")
    assert (read["KW_NIX_TARGET"], read["KW_NIX_TOOLKIT"]) == (target.name, toolkit.name)
    assert read["CUDACXX"].endswith("/bin/nvcc")
    assert f"gcc-wrapper-{TABLE.gcc[toolkit.name].version}" in read["CUDAHOSTCXX"]
    assert read["KW_LIBDEFLATE"].endswith("/lib/libdeflate.so")
    codes = TABLE.default_codes(target, toolkit)
    kinds = {"cubin": "real", "ptx": "virtual"}
    assert read["CUDAARCHS"].split(";") == [f"{code.number}-{kinds[code.kind]}" for code in codes]


WRONG = {  # one thing of nixpkgs that is other than the table says -> which shells refuse it, in which words
    "nvcc": (('"12.2.140"', '"11.0.1"'), {"nvcc of nixpkgs is 11.0.1", "says 12.2.140"}, DEFAULT),
    "gcc": (('"12.4.0"', '"13.3.0"'), {"host GCC of nixpkgs is 13.3.0", "says 12"}, DEFAULT),
    "no set": (("cudaPackages_12_2 =", "cudaPackages_99_9 ="), {"nixpkgs has no cudaPackages_12_2"}, DEFAULT),
    "nvcc of another toolkit": (('"12.4.131"', '"12.4.99"'), {"nvcc of nixpkgs is 12.4.99", "says 12.4.131"}, FURTHER),
    "gcc of another toolkit": (('"13.3.0"', '"12.3.0"'), {"host GCC of nixpkgs is 12.3.0", "says 13"}, FURTHER),
    "no Tegra": (
        ('jetson = [ "7.2" "8.7" ]', "jetson = [ ]"),
        {"archive of nixpkgs is", "/linux-sbsa/", "says one of linux-aarch64"},
        ["devShells.aarch64-linux.l4t-r36", "devShells.aarch64-linux.l4t-r36-cu124"],
    ),
    "Tegra for all": (
        ('jetson = [ "7.2" "8.7" ]', 'jetson = [ "8.0" "8.6" "8.7" "8.9" "9.0" ]'),
        {"says one of linux-sbsa"},
        ["devShells.aarch64-linux.linux-aarch64", "devShells.aarch64-linux.linux-aarch64-cu124"],
    ),
}  # fmt: skip


@pytest.mark.parametrize("what", WRONG)
def test_another_nixpkgs_is_refused_at_evaluation(changed, what):
    (old, new), words, refusing = WRONG[what]
    changed.change("nixpkgs/answers.nix", old, new)
    for shell in SHELLS:
        if what == "Tegra for all" and "x86_64" in shell:
            continue  # there the stand-in itself refuses, as nixpkgs does
        refused = changed.refusal(shell)
        assert bool(refused) == (shell in refusing), refused
        assert all(word in refused for word in words if refused), refused
        if refused:
            assert "flake.lock" in refused  # what to do
            assert changed.refusal(shell.replace("devShells", "packages"))
    assert changed.check().returncode != 0


def test_another_table_is_refused_at_evaluation(changed):
    changed.change("targets.toml", 'nvcc = "12.2.140"', 'nvcc = "12.2.91"')
    assert all("says 12.2.91" in changed.refusal(shell) for shell in DEFAULT)


def test_another_archive_than_the_rows_is_refused_at_evaluation(changed):
    changed.change("targets.toml", 'redist = "linux-x86_64"', 'redist = "linux-ppc64le"')
    for shell in SHELLS:
        refused = changed.refusal(shell)
        assert bool(refused) == ("x86_64" in shell), refused
        assert not refused or ("/linux-x86_64/" in refused and "says one of linux-ppc64le" in refused), refused


def test_a_new_row_is_a_new_shell(changed):
    text = (changed.tree / "targets.toml").read_text()
    row = text[text.index("[target.l4t-r36]") : text.index("# --- tools")]
    (changed.tree / "targets.toml").write_text(text + row.replace("l4t-r36", "l4t-r99"))
    assert changed.evaluate("devShells.aarch64-linux.l4t-r99.KW_NIX_TARGET") == "l4t-r99"
    assert changed.check().returncode == 0


def test_a_lock_that_pins_no_single_file_is_told(changed):
    lock = TABLE.tools.locks["x86_64"]
    changed.change(lock, "scikit-build-core==", "scikit_build_core==")
    assert f"{lock} does not pin scikit-build-core with one hash" in changed.refusal("devShells.x86_64-linux.default")


def test_a_jetson_capability_never_reaches_the_server_shell(changed):
    """The row of the servers has Orin's cubin too; asking nixpkgs for it would be refused, or give Tegra's archives."""
    changed.change("nix/table.nix", "if target.release then", "if false then")
    assert "Jetson and other capabilities" in changed.refusal("devShells.aarch64-linux.linux-aarch64")


def test_the_lock_belongs_to_the_flake(flake):
    """Without the stand-in: a lock that flake.nix no longer matches would have to be updated, which is refused."""
    done = flake.nix("flake", "metadata", "--json", "--no-update-lock-file", f"path:{flake.tree}")
    assert done.returncode == 0, done.stderr
    locked = json.loads(done.stdout)["locks"]["nodes"]["nixpkgs"]["locked"]
    assert locked == json.loads((ROOT / "flake.lock").read_text())["nodes"]["nixpkgs"]["locked"]
    assert len(locked["rev"]) == 40
    assert locked["narHash"].startswith("sha256-")


def test_a_lock_of_other_inputs_is_noticed(changed):
    changed.change("flake.nix", "NixOS/nixpkgs/nixos-24.11", "NixOS/nixpkgs/nixos-24.05")
    done = changed.nix("flake", "metadata", "--json", "--no-update-lock-file", f"path:{changed.tree}")
    assert done.returncode != 0


def test_a_shell_for_tests_has_the_library_that_torch_is_linked_with(flake):
    for plain, testing in zip(SHELLS, TESTING, strict=True):
        hooks = [flake.evaluate(f"{shell}.shellHook") for shell in (plain, testing)]
        assert ["LD_LIBRARY_PATH" in hook for hook in hooks] == [False, True]
        assert all("unset CUDA_HOME CUDA_PATH NVCC_CCBIN\n" in hook for hook in hooks)
        assert re.search(r'LD_LIBRARY_PATH="\S+gcc\S*/lib:\S+zlib\S*/lib\$', hooks[1])


def test_other_flakes_get_a_shell_and_a_wheel_of_their_own(flake):
    ask = """lib: let
      shell = lib.mkKernelShell { system = "x86_64-linux"; packages = [ (derivation { name = "extra"; system = "x"; builder = "y"; }) ]; };
      wheel = lib.buildWheel { system = "x86_64-linux"; target = "linux-x86_64"; src = ./.; options = [ "--archs" "80" ]; };
    in { shell = map (one: one.name) shell.packages; inherit (wheel) buildPhase; }"""
    found = flake.evaluate("lib", ask.replace("./.", '"/nowhere"'))
    assert "extra" in found["shell"]
    assert any(name.startswith("cuda_nvcc") for name in found["shell"])
    assert "kernelwright_toolchain.verbs build" in found["buildPhase"]
    assert "--target linux-x86_64" in found["buildPhase"]
    done = flake.against_the_stand_in(
        "eval",
        words=[
            "--raw",
            f"path:{flake.tree}#lib",
            "--apply",
            'lib: (lib.mkKernelShell { system = "x86_64-linux"; target = "l4t-r36"; }).drvPath',
        ],
    )
    assert "l4t-r36 is not there on x86_64-linux; there are linux-x86_64" in done.stderr


def test_another_projects_shell_has_kwt_and_the_libraries_that_it_links(changed):
    start = Path("toolchain/kernelwright_toolchain/start.py")
    (changed.tree / start).parent.mkdir(parents=True, exist_ok=True)
    shutil.copy(ROOT / start, changed.tree / start)
    ask = """lib: let shell = lib.mkKernelShell { system = "x86_64-linux"; libraries = [ LIBRARIES ]; };
      in map (one: one.name) shell.packages ++ map (one: one.text or "") shell.packages"""
    found = changed.evaluate("lib", ask.replace("LIBRARIES", '"cublas" "nvrtc" "cusparse"'))
    toolkit = TABLE.toolkits[TABLE.targets["linux-x86_64"].toolkit]
    for library in ("libcublas", "libcusparse"):
        assert any(name.startswith(f"{library}-{toolkit.components['nvcc'].rpartition('.')[0]}") for name in found)
    assert not any("libcublas" in name for name in changed.evaluate("lib", ask.replace("LIBRARIES", "")))
    (script,) = [text for text in found if text.lstrip().startswith("exec python3")]
    place = Path(re.search(r"\S+/toolchain/\S+\.py", script)[0])
    assert place.read_text() == (ROOT / start).read_text()
    for wrong, words in (('"cudnn"', "no CUDA library cudnn in targets.toml"), ('"npp"', "has no libnpp")):
        apply = ask.replace("LIBRARIES", wrong)
        words_of = ["--json", f"path:{changed.tree}#lib", "--apply", apply]
        done = changed.against_the_stand_in("eval", words=words_of)
        assert words in done.stderr


@pytest.mark.parametrize("target", [target for target in TABLE.targets.values() if target.release])
def test_python_with_packages_takes_the_released_wheel(flake, target):
    system, name = f"{target.machine}-linux", f"release-{target.name}"
    assert flake.evaluate(f"apps.{system}.default.program").endswith("/bin/kernelwright")
    ask = """overlay: let
      prev = { pythonPackagesExtensions = [ ]; };
      final = { stdenv.hostPlatform.system = "SYSTEM"; lib.licenses.mit = { }; };
      extension = builtins.head (overlay final prev).pythonPackagesExtensions;
    in (extension { buildPythonPackage = given: given; } { }).kernelwright.src"""
    version = pyproject()["project"]["version"]
    assert flake.evaluate("overlays.default", ask.replace("SYSTEM", system)) == (
        flake.evaluate(f"packages.{system}.{name}.outPath")
        + f"/kernelwright-{version}-py3-none-{target.platform_tag}.whl"
    )


def test_the_template_names_what_the_flake_has(flake):
    place = Path(flake.evaluate("templates.default.path", "toString"))
    assert {path.name for path in place.rglob("*") if path.is_file()} == {"flake.nix", "pyproject.toml", "scale.cu"}
    used = set(re.findall(r"kernelwright\.lib\.(\w+)", (place / "flake.nix").read_text()))
    assert used == set(flake.evaluate("lib", "builtins.attrNames"))


def test_unfree_packages_are_nvidias_named_ones_alone(changed):
    assert "allowUnfree =" not in (changed.tree / "nix" / "toolchain.nix").read_text()
    changed.change("nix/toolchain.nix", '    "cuda_nvdisasm"\n  ];', "  ];")
    assert "refusing to evaluate an unfree package" in changed.refusal("devShells.x86_64-linux.default")
