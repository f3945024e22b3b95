# SPDX-License-Identifier: MIT
"""torch and what stands on it: of another release, of another CUDA, not seen by a build, or used in the wrong order."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from kernelwright.doctor.explain.cures import _families as families
from kernelwright.doctor.explain.cures import _ways
from kernelwright.doctor.explain.cures._cure import Cure, of
from kernelwright.doctor.remedies.shell import quote

if TYPE_CHECKING:
    from kernelwright.doctor.explain.said import Said

_TIED = r"\b(vllm|sglang|lmdeploy)\b"  # these fit one torch, which another one of the index would not be


_RUNS_11 = 11000  # the level of a driver that runs each release of CUDA 11


def _first_of(major: int) -> str:
    """The newest CUDA release of the table within a major version: what a driver of that major version runs."""
    fit = [release for release in (_ways.newest(), _ways.at_least(f"{major}.0")) if _ways.number(release)[0] == major]
    return max(fit, key=_ways.number) if fit else ""


@of("KW-003", "KW-087")
def driver_too_old(said: Said) -> Cure | None:
    """torch has builds for older drivers; whatever else needs the newer driver."""
    started = said.finds(r"\bdocker run [^\n]*")
    if (
        started
        and not re.search(r"--gpus|--runtime|nvidia", started[0])
        and not said.has(r"nvidia-docker run|compose|\bnvidia-smi\b")
    ):
        return _ways.restart_with_gpu(said)
    needed = said.finds(r"(?:driver (?:to |version )?|>= ?)(\d{3}(?:\.\d+)?)(?: or (?:newer|later)|\b)")
    asked = said.finds(r"unsatisfied condition: cuda ?>= ?(\d+\.\d+)")
    driver = _ways.driver(said, f"{needed[1]} or newer" if needed else "", asked[1] if asked else "")
    old = _ways.old_windows(said)
    if old:
        return old
    of_torch = said.has(r"torch\._c\._cuda_init|found version \d{5}|torch/cuda/__init__") and not said.has(_TIED)
    if of_torch and said.board:
        return _ways.of_board(said)
    if not of_torch or said.level is None:
        return driver
    release = _first_of(said.level // 1000) or ("11" + ".8" if said.level >= _RUNS_11 else "")
    if not release:
        return driver
    return Cure(_ways.torch(said, release), f"It runs on this driver. Or the newer driver: {driver.command}.")


@of("KW-020")
def other_torch(said: Said) -> Cure | None:
    if said.has(r"torchvision::nms|load custom c\+\+ ops|torchvision/|operator torchvision|operator torchaudio"):
        return _vision(said)
    if said.shows(r"loading shared libraries: lib(torch|c10)"):
        place = '"$(python -c \'import torch; print(torch.__path__[0] + "/lib")\'):$LD_LIBRARY_PATH"'
        then = "Where torch is not installed: python -m pip install torch, of the release the program was linked to."
        return Cure(f"export LD_LIBRARY_PATH={place}", then)
    if said.shows(r"lib(torch|c10)(_cuda(_\w+)?)\.so: cannot open") or (
        said.shows(r"lib(torch|c10)(_\w+)?\.so: cannot open") and not said.package
    ):
        return _torch_that_has(said)
    from_sources = _where_it_was_built(said)
    if from_sources:
        return from_sources
    return _again(said, said.package) if said.package else None


def _vision(said: Said) -> Cure:
    """torchvision and torchaudio for the torch that is here, where the log says which that is."""
    then = "Of one index, in one command."
    if said.board:
        return _ways.vision_of_board(said)
    if said.torch:
        place = f" --index-url {_ways.OF_TORCH}/{_ways.label(said.torch_cuda)}" if said.torch_cuda else ""
        words = f"install --force-reinstall torch=={said.torch} torchvision torchaudio{place}"
        return Cure(_ways.pip(said, words), then)
    if said.windows:  # where the usual one is for CPUs
        return Cure(_ways.torch(said, said.torch_cuda or _ways.newest()), then)
    return Cure(_ways.pip(said, "install --upgrade --force-reinstall torch torchvision torchaudio"), then)


def _torch_that_has(said: Said) -> Cure:
    """A torch with the library of it that something wants."""
    if said.shows(r"lib(torch|c10)_cuda\.so"):
        then = "The torch that is here is for CPUs, or for another CUDA release than what was built for it."
        return Cure(_ways.torch(said, said.torch_cuda or _ways.newest()), then)
    if said.shows(r"libtorch_cuda_(cu|cpp)\.so"):
        if said.package:
            return _again(said, said.package)
        then = "Only torch 1 had these two; or the extension is compiled again, for a newer torch."
        return Cure(_ways.pip(said, 'install "torch<2" torchvision'), then)
    return Cure(_ways.pip(said, "install torch"), "And import torch comes before the extension.")


def _where_it_was_built(said: Said) -> Cure | None:
    """An egg, or a file beside its sources, is of no index: it is compiled again where those are."""
    words = "install --force-reinstall --no-deps --no-build-isolation --no-cache-dir"
    found = said.finds(r"(?:^|[ '\"])(~?(?:/[\w.+-]+)+)/[\w.+-]+\.so['\"]?:\s{1,2}undefined symbol")
    if not found or ".." in found[1] or "/torch_extensions" in found[1]:
        return None
    if ".egg" in found[1]:
        of = f" of {said.package}" if said.package else ""
        return Cure(f"rm -rf build && {_ways.pip(said, words)} .", f"In the sources{of}, from which it was installed.")
    if re.search(r"/(site|dist)-packages(/|$)|^/(usr|lib|opt/(?:ana|mini)?conda)", found[1]):
        return None
    up = f'cd {found[1]} && until [ -e setup.py ] || [ "$PWD" = / ]; do cd ..; done'
    again = f"[ -e setup.py ] && rm -rf build && {_ways.pip(said, words)} -e ."
    return Cure(f"{up}; {again}", "It lies beside its sources: they are compiled again, for the torch that is here.")


def mmcv(said: Said) -> Cure:
    """Its own release, since mmdet and others bound it; before the second one with operators is mmcv-full."""
    named = said.finds(r"\bmmcv(?:-full)?[ =]{1,20}(\d+\.\d+\.\d+)\b")
    first = (named and named[1].startswith(("0", "1"))) or (not named and said.torch.startswith("1"))
    name = "mmcv-full" if first or said.has("mmcv-full") else "mmcv"
    gone = _ways.pip(said, "uninstall -y mmcv mmcv-full")
    brought = _ways.pip(said, "install --upgrade openmim")
    wanted = f"{name}=={named[1]}" if named else name
    fix = f"{gone} && {brought} && MMCV_WITH_OPS=1 FORCE_CUDA=1 python -m mim install --no-cache-dir {wanted}"
    return Cure(fix, "That takes its wheel for the torch that is here, or compiles it where there is none.")


def _again(said: Said, package: str) -> Cure:
    """The package for the torch that is here: from the index that has builds for each, or compiled."""
    if package.startswith("torch-") and families.wheel(said, package):
        words, _ = families.wheel(said, package) or ("", "")
        return Cure(_ways.pip(said, words), "Of the page that has its wheels for each torch; nothing is compiled.")
    if package in families.BRING_TORCH and not said.board:
        words = f"install --upgrade --force-reinstall {package}"
        if package != "vllm" and (
            said.windows or said.has(r"\byou have \S+\+cpu")
        ):  # where the usual torch is for CPUs
            release = said.torch_cuda or _ways.newest()
            words = f"{words} torch torchvision --index-url {_ways.OF_TORCH}/{_ways.label(release)}"
        return Cure(_ways.pip(said, words), "It brings the torch that it was built for.")
    if package in {"mmcv", "mmcv-full"}:
        return mmcv(said)
    built = _ways.built(package, said)
    if package == "flash-attn":  # whose setup fetches the wheel for this torch
        built = built.replace("--no-binary flash-attn ", "")
        if said.has(r"\d\.\d+\.\d+a0\+|nvcr\.io|nv\d\d\.\d\d"):
            then = "NVIDIA's images have a torch of their own, which no wheel is for: it is compiled."
            return Cure(f"FLASH_ATTENTION_FORCE_BUILD=TRUE MAX_JOBS=4 {_ways.pip(said, built)}", then)
    then = (
        "That builds it for the torch that is here. Without a compiler: its wheel for "
        "exactly this torch, CUDA, Python and C++ ABI."
    )
    return Cure(families.given(package) + _ways.pip(said, built), then)


@of("KW-021")
def without_cuda(said: Said) -> Cure | None:
    if said.board:
        return _ways.of_board(said)
    if said.r and not said.has(r"\bpip3?\b|\bpython\b"):
        then = "R's torch has a build for each CUDA release; the variable asks for one. Then restart R."
        return Cure(f"CUDA={_ways.at_least('12.3')} Rscript -e 'torch::install_torch(reinstall = TRUE)'", then)
    if said.macos:
        found = "grep -rlE '[\"'\\'']cuda[\"'\\'']|\\.cuda\\(\\)' --include=*.py ."
        new = "s/([\"'\\''])cuda([\"'\\''])/\\1mps\\2/g; s/\\.cuda\\(\\)/.to(\"mps\")/g"
        then = (
            "No Mac has CUDA: in the program's sources the device is Apple's, or \"cpu\". The old files stay as .bak."
        )
        return Cure(f"{found} | xargs sed -i.bak -E '{new}'", then)
    if said.nix:
        return Cure(
            "NIXPKGS_ALLOW_UNFREE=1 nix-shell -p 'python3.withPackages (p: [ p.torch-bin ])'",
            "torch-bin is the wheel with CUDA; in a flake: config = { allowUnfree = true; cudaSupport = true; }.",
        )
    if said.conda and not said.has(r"\bpip3? |site-packages.{0,80}\+cpu|\+cpu|[/\\]\.?venv[/\\]"):
        return Cure(
            "conda install -y -c conda-forge pytorch-gpu", "By pip: python -m pip install --force-reinstall torch."
        )
    major = said.level // 1000 if said.level else 0
    release = _first_of(major) or ("11" + ".8" if said.level and said.level >= _RUNS_11 else _ways.newest())
    return Cure(
        _ways.torch(said, release),
        "The index has a build for each CUDA release; pyproject.toml must not name the one of CPU builds.",
    )


@of("KW-033")
def nvidias_torch(said: Said) -> Cure | None:
    return _ways.of_board(said)


def _sources(said: Said) -> str:
    """What pip was given: an address, a directory, a name; of a name that no index has, its repository."""
    if said.source:
        return said.source
    place = said.finds(r"^processing ((?:/[\w.+-]+)+)\s*$")
    if place and ".." not in place[1]:
        return place[1]
    project = said.project
    return families.requirement(project) if families.is_of_repository(project) else project or "<package>"


@of("KW-022")
def build_without_torch(said: Said) -> Cure | None:
    wanted = _sources(said)
    helpers = "setuptools wheel ninja packaging psutil"
    if said.has(r"\bsudo (?:-\S+ )*(?:python|pip)"):
        return Cure(
            "python -m pip install --no-build-isolation -e .",
            "Without sudo: root's Python has other packages than this user's.",
        )
    missing = said.shows(r"no module named '?\"?(\w+)")
    names = (
        f"torch {helpers}"
        if not missing or missing[1] in {"torch", "packaging", "psutil", "wheel", "ninja"}
        else f"{missing[1]} {helpers}"
    )
    if said.has(r"findtorch|torchconfig|provided by ['\"]torch"):
        given = "-DCMAKE_PREFIX_PATH=\"$(python -c 'import torch; print(torch.utils.cmake_prefix_path)')\""
        return Cure(f"cmake --fresh -B build {given}", "Where torch is not installed: python -m pip install torch.")
    command = f"{_ways.pip(said, f'install {names}')} && {_ways.pip(said, f'install --no-build-isolation {wanted}')}"
    return Cure(
        command,
        "uv sync: no-build-isolation-package in pyproject.toml; poetry and pdm: install it by pip after the others.",
    )


@of("KW-096")
def versions_conflict(said: Said) -> Cure | None:
    pattern = (
        r"^\W*([\w-]+) \S+ (?:requires|depends on) ([\w-]+)([\w.*+=<>!~,-]*?)(?:; [^\n]{1,90}?)?,? "
        r"but you have \2 ([\w.+]+)"
    )
    found = said.shows(pattern) or said.finds(pattern)
    if said.has(r"\bpjrt\b|jax_?cuda\w*[_-]plugin"):
        then = "jax, jaxlib and the plugin are of one release then."
        return Cure(_ways.pip(said, 'install --upgrade "jax[cuda12]"'), then)
    if said.has(r"could not run '(torchvision|torchaudio)::"):
        return Cure(
            _ways.torch(said, said.torch_cuda or _ways.newest()),
            "All three from one index: the other one is a CPU build.",
        )
    if found and found[1] == "torch" and found[2].startswith("nvidia-"):
        release = said.finds(r"\btorch (\d[\w.+]*) requires nvidia-")
        wanted = f"torch=={release[1].partition('+')[0]}" if release else "torch"
        then = "pip brings the CUDA libraries that it declares; what asked for others may need another release."
        return Cure(_ways.pip(said, f"install {wanted}"), then)
    if found and found[2] == "torch" and found[1] in {"torchvision", "torchaudio", "xformers", "torchtext"}:
        return Cure(
            _ways.pip(said, f"install --upgrade {found[1]} torch=={found[4].partition('+')[0].rstrip('.,;')}"),
            "Its release for the torch that is here.",
        )
    if found:
        wanted = found[3].split(",")[0].rstrip(";")
        return Cure(
            _ways.pip(said, f'install "{found[2]}{wanted}" {found[1]}'), "Then python -m pip check has to be silent."
        )
    return None


@of("KW-113")
def other_torch_release(said: Said) -> Cure | None:
    """Names that were taken out of torch: each has its successor, or a last release that had it."""
    file = said.finds(
        r"File \"([\w./ -]+/site-packages/[\w./-]+\.py)\", line \d+[^\n]*\n[^\n]*transforms\.functional_tensor"
    )
    if said.has(r"torchvision\.transforms\.functional_tensor"):
        place = (
            quote(file[1])
            if file
            else "$(grep -rl functional_tensor --include=*.py \"$(python -c 'import site; "
            "print(site.getsitepackages()[0])')\")"
        )
        return Cure(
            f"sed -i 's/torchvision.transforms.functional_tensor/torchvision.transforms.functional/' {place}",
            "The module is part of functional since torchvision 0.17.",
        )
    renamed = said.shows(r"\b(AT_CHECK|AT_ASSERT|AT_ERROR)\b")
    if renamed:
        return Cure(
            "grep -rlE 'AT_(CHECK|ASSERT)' --include=*.cpp --include=*.cu --include=*.h . | "
            "xargs -r sed -i -E 's/AT_(CHECK|ASSERT)/TORCH_CHECK/g'",
            "Then build again.",
        )
    if said.has(r"torch\._six"):
        return Cure(
            _ways.pip(said, f"install --upgrade {said.package or '<package>'}"),
            "Or, in its sources, torch._six.string_classes is str and torch._six.inf is math.inf.",
        )
    if said.shows(r"\bthc?/|\bTHC\w+|thcudacheck"):
        upgraded = (
            f"install --upgrade {said.package}"
            if said.package and not said.project.startswith("-e")
            else 'install "torch<1.11"'
        )
        return Cure(
            _ways.pip(said, upgraded),
            "THC went with torch 1.11: its newest release does without, or a torch before that has it.",
        )
    return None


@of("KW-101")
def triton(said: Said) -> Cure | None:
    if said.windows:
        return Cure(_ways.pip(said, "install -U triton-windows"))
    if said.has(r"no module named ['\"]?triton['\"]?\s*$"):
        return Cure(
            _ways.pip(said, "install triton"),
            "It has no wheel for every platform; torch on Linux requires the one that fits.",
        )
    return None


@of("KW-013")
def forked(said: Said) -> Cure | None:
    if said.has(r"vllm"):
        return Cure("export VLLM_WORKER_MULTIPROCESSING_METHOD=spawn", "And nothing may use CUDA before vLLM starts.")
    return _with_program(
        said,
        "python -c 'import multiprocessing, runpy, sys; del sys.argv[0]; "
        'multiprocessing.set_start_method("spawn"); '
        'runpy.run_path(sys.argv[0], run_name="__main__")\' <program.py>',
        "In a DataLoader: return tensors of the CPU from __getitem__, or multiprocessing_context='spawn'.",
    )


@of("KW-121")
def torch_first(said: Said) -> Cure | None:
    return _with_program(
        said,
        "python -c 'import runpy, sys, torch; del sys.argv[0]; runpy.run_path(sys.argv[0], "
        'run_name="__main__")\' <program.py>',
        "In your own program: import torch before the extension.",
    )


def _with_program(said: Said, command: str, then: str) -> Cure | None:
    return Cure(command.replace("<program.py>", said.script), then) if said.script else None


@of("KW-012")
def hidden(said: Said) -> Cure | None:
    if said.has(r"deserialize object on cuda device"):
        fix = (
            "python -c 'import sys, torch; torch.save(torch.load(sys.argv[1], "
            'map_location="cpu", weights_only=False), sys.argv[1])\' <checkpoint>'
        )
        return Cure(fix, "In the program: torch.load(…, map_location='cpu'). Only of a file that you trust.")
    if said.has(r"torchrun|nproc|\brank ?\d|local_rank"):
        return Cure(
            'torchrun --nproc-per-node "$(nvidia-smi -L | wc -l)" ' + (said.script or "<program.py>"),
            "As many processes as there are visible GPUs; and unset CUDA_VISIBLE_DEVICES.",
        )
    return None


@of("KW-089")
def stale(said: Said) -> Cure | None:
    found = said.shows(r"((?:/[\w.~-]+)+/(?:torch_extensions|flashinfer)(?:/[\w.-]+)*)/[\w.-]+\.so")
    return Cure(f"rm -rf {found[1]}", "It is made again on first use.") if found and ".." not in found[1] else None


@of("KW-088")
def not_importable(said: Said) -> Cure | None:
    if said.board:
        return _ways.of_board(said)
    if said.has(r"iJIT_"):
        return Cure('conda install -y "mkl<2024.1"', "Or torch by pip, which brings its own.")
    return Cure(
        "unset LD_LIBRARY_PATH && " + _ways.pip(said, "install --force-reinstall --no-cache-dir torch"),
        "A second torch on the search path, or half of one, goes with that.",
    )
