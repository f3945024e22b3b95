# SPDX-License-Identifier: MIT
"""Python packages: no wheel, an index out of reach, built without CUDA; each with what the log names."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from kernelwright.doctor.explain.cures import _families as families
from kernelwright.doctor.explain.cures import _ways
from kernelwright.doctor.explain.cures._cure import Cure, of
from kernelwright.doctor.explain.cures.gpus import of_paddle

if TYPE_CHECKING:
    from kernelwright.doctor.explain.said import Said

_UNSET = "unset HTTP_PROXY HTTPS_PROXY ALL_PROXY http_proxy https_proxy all_proxy"


# The newest Python that releases of torch have wheels for, from each of these on.
_PYTHONS = (((1, 0), 8), ((1, 8), 9), ((1, 11), 10), ((1, 13), 11), ((2, 2), 12), ((2, 5), 13), ((2, 9), 14))


def _newest_python(wanted: str) -> int:
    """Of a torch that is asked for, such as torch==1.12.1+cpu; 0 of others."""
    asked = wanted.partition("==") if wanted.startswith("torch==") else ("", "", "")
    release = tuple(_ways.number(asked[2].partition("+")[0])[:2])
    return max((python for since, python in _PYTHONS if release >= since), default=0)


def _minor(said: Said) -> int:
    return int(said.python.partition(".")[2] or 0)


def _with_python(version: str, wanted: str, places: str = "") -> Cure:
    return Cure(
        f'conda create -y -n py python={version} && conda run -n py python -m pip install "{wanted}" {places}'.rstrip(),
        f"Without conda: uv venv --python {version}, then uv pip install.",
    )


def _of_torchs_index(said: Said) -> Cure | None:
    """A release of torch that the Python is too new for; one with a label, such as +cpu, is on torch's own index."""
    asked = said.finds(r"(?:requirement|for) (torch\w*==([\d.]+\d)(?:\+(cu\d{2,3}|cpu))?)")
    if not asked:
        return None
    newest, place = _newest_python(asked[1]), f"{_ways.OF_TORCH}/{asked[3]}"
    listed = said.has(rf"from versions:[^)\n]*[ ,]{re.escape(asked[2])}[,)]")
    if asked[3] and (said.macos or (listed and said.has(r"looking in (links|indexes):[^\n]*download\.pytorch"))):
        then = "Its builds for this machine (macOS, aarch64) have no CUDA, and bear no label."
        names = said.finds(r"\bpip3? install ([^\n]*torch[^\n]*)")
        wanted = re.findall(r"\b(torch\w*==[\d.]+\d)", names[1] if names else asked[1])
        return Cure(_ways.pip(said, f"install {' '.join(wanted)}"), then)
    oldest = said.finds(r"from versions: (\d+\.\d+)")
    # pip lists what there is for this Python: nothing as old as what was asked for, or nothing at all.
    missed = said.has(r"from versions: none") or (oldest and _ways.number(asked[2])[:2] < _ways.number(oldest[1])[:2])
    if newest and (_minor(said) > newest or (missed and not said.python)):
        return _with_python(f"3.{newest}", asked[1], f"--extra-index-url {place}" if asked[3] else "")
    then = "Releases with a label are on torch's own index."
    return Cure(_ways.pip(said, f"install {asked[1]} --index-url {place}"), then) if asked[3] else None


def _of_jax(said: Said) -> Cure | None:
    if not said.has(r"(requirement|for) jaxlib==[\d.]+\+cuda"):
        return None
    then = "Its CUDA builds have no label any more: the extra brings the plugin and CUDA's libraries."
    return Cure(_ways.pip(said, 'install --upgrade "jax[cuda12]"'), then)


def _first_torch(said: Said) -> Cure | None:
    """The name's first release, 0.1.2, is what an index has for a Python that no wheel of torch is for."""
    if not said.shows(r"\b0\.1\.2(\.post\d)?\b"):
        return None
    if said.windows:
        then = "It wants a Python of 64 bits and none newer than its wheels; then, in a new prompt, pip install torch."
        return Cure("winget install --id Python.Python.3.12 --architecture x64", then)
    return _with_python("3.12", "torch")


@of("KW-024")
def no_wheel(said: Said) -> Cure | None:
    wheel = said.finds(r"((?:[\w.+-]*/)?([A-Za-z][\w.]*)-\d[\w.+]*-cp3(\d{1,2})-[\w.-]+\.whl) is not a supported wheel")
    if wheel:
        if (said.python and said.python != f"3.{wheel[3]}") or not said.has(r"aarch64.*x86|x86.*aarch64"):
            return _with_python(f"3.{wheel[3]}", wheel[1])
        return Cure(
            _ways.pip(said, f"install {wheel[2]}"), "From the index, which has this machine's wheel if there is one."
        )
    of_torch = _first_torch(said) or _of_jax(said) or _of_torchs_index(said)
    if of_torch:
        return of_torch
    required = said.finds(
        r"requires-python:? ?[><=~]*(3\.\d{1,2})|not in '>=(3\.\d{1,2})|requires python ?>=? ?(3\.\d{1,2})"
    )
    found = said.finds(r"(?:requirement|distribution found for) ([A-Za-z][\w.-]*(?:[=<>~!]=?[\w.,*<>=]+)?)")
    wanted = found[1].rstrip(".,") if found else said.package
    if required and wanted:
        return _with_python(next(part for part in required.groups() if part), wanted)
    if wanted and said.has(r"from versions: none|python 3\.1[3-9]|cp31[3-9]"):
        return _with_python("3.12", wanted)
    return None


@of("KW-026")
def out_of_reach(said: Said) -> Cure | None:
    if said.has(r"certificate_verify|sslerror|certificate verify"):
        return Cure(
            "python -m pip config set global.cert /etc/ssl/certs/ca-certificates.crt",
            "The system's certificates, in which a company's own is; sudo update-ca-certificates adds one.",
        )
    if said.has(r"proxy"):
        return Cure(
            _UNSET,
            "Where there is no way out without one: python -m pip config set global.proxy with the right address.",
        )
    if said.has(r"rpc failed|early eof|hung up|gnutls"):
        return Cure(
            "git config --global http.version HTTP/1.1 && git config --global http.postBuffer 524288000",
            "Then again; git clone --depth 1 fetches less.",
        )
    if said.has(r"\b40[34]\b|\b410\b|unavailableinvalidchannel"):
        return Cure(
            "python -m pip config unset global.index-url",
            "The address has no such page any more: take the one that its project names now.",
        )
    if said.has(r"conda|repodata"):
        return Cure("conda config --set remote_read_timeout_secs 600 && conda clean -i -y", "Then again.")
    wanted = said.package or "<package>"
    return Cure(
        _ways.pip(said, f"install --retries 20 --timeout 120 {wanted}"),
        "In docker build: --network=host, where names do not resolve.",
    )


@of("KW-027")
def virtual_package(said: Said) -> Cure | None:
    found = said.finds(r"__cuda ?>=? ?(\d+\.\d+|\d+)|cuda-version (\d+\.\d+)|cuda(\d{3})[_p]")
    release = next((part for part in found.groups() if part), "") if found else ""
    release = f"{release[:-1]}.{release[-1]}" if release.isdecimal() and len(release) == 3 else release
    release = release or _ways.newest()
    what = "pixi install" if said.has("pixi") else "conda install -y -c conda-forge pytorch-gpu"
    return Cure(
        f'CONDA_OVERRIDE_CUDA="{release}" {what}',
        "For a lock file: a virtual-packages file, or [system-requirements] cuda in pixi.toml.",
    )


# Packages whose usual name is the CPU build: (what shows them, how the CUDA build is installed).
_WITH_CUDA = (
    (r"\bjax", 'install --upgrade "jax[cuda12]"'),
    (r"onnxruntime|cudaexecutionprovider", "install --force-reinstall onnxruntime-gpu"),
    (r"tensorflow|\bxla\b", 'install --upgrade "tensorflow[and-cuda]"'),
    (r"xgboost", "install --upgrade --force-reinstall xgboost"),
    (r"faiss", "install faiss-gpu-cu12"),
    (r"ctranslate2|whisper|which is not integrated in this build", "install --upgrade --force-reinstall ctranslate2"),
    (r"paddle", of_paddle("12.9")),
    (r"\bcupy", "install cupy-cuda12x"),
    (r"xformers|memory_efficient|no operator found for", "install --upgrade --force-reinstall xformers"),
)


def _lightgbm(said: Said) -> Cure:
    if said.has(r"gpu tree learner"):
        then = "Its wheels have that since release 4, for Linux and Windows. For device='cuda' it is compiled."
        return Cure(_ways.pip(said, "install --upgrade --force-reinstall lightgbm"), then)
    return Cure(
        "python -m pip install --force-reinstall --no-binary lightgbm "
        "--config-settings=cmake.define.USE_CUDA=ON lightgbm"
    )


def _opencv(said: Said) -> Cure:
    """No index has a build of it with CUDA."""
    code = f"{said.capability // 10}.{said.capability % 10}" if said.capability else "Auto"
    listed = f"-DCUDA_ARCH_BIN={code}" if said.capability else "-DCUDA_GENERATION=Auto"
    cloned = " && ".join(
        f"git clone --depth 1 https://github.com/opencv/{name}" for name in ("opencv", "opencv_contrib")
    )
    contrib = '-DOPENCV_EXTRA_MODULES_PATH="$PWD/opencv_contrib/modules"'
    given = f"-DWITH_CUDA=ON -DWITH_CUDNN=ON -DOPENCV_DNN_CUDA=ON {listed} {contrib}"
    then = "It is compiled here, with nvcc and cuDNN's headers; python -m pip uninstall opencv-python, which hides it."
    built = f"cmake -S opencv -B build {given} && cmake --build build -j && sudo cmake --install build"
    return Cure(f"{cloned} && {built}", then)


@of("KW-100")
def without_cuda(said: Said) -> Cure | None:
    if said.has(r"llama|ggml"):
        return Cure(
            'CMAKE_ARGS="-DGGML_CUDA=on" python -m pip install --force-reinstall --no-cache-dir '
            "--no-binary llama-cpp-python llama-cpp-python",
            "It needs nvcc.",
        )
    if said.has(r"lightgbm"):
        return _lightgbm(said)
    if said.has(r"opencv|\bcv2\b|\bcv::"):
        return _opencv(said)
    return _under_its_name(said) or _compiled_with_cuda(said)


def _under_its_name(said: Said) -> Cure | None:
    """The package that has CUDA, where it is called otherwise."""
    words = next((words for pattern, words in _WITH_CUDA if said.has(pattern)), "")
    if not words:
        return None
    if said.windows and not said.wsl and "jax" in words:
        then = 'jax has no CUDA build for Windows. Within WSL: python3 -m pip install --upgrade "jax[cuda12]".'
        return Cure("wsl.exe --install", then)
    before = _ways.pip(said, "uninstall -y onnxruntime onnxruntime-gpu") + " && " if "onnxruntime" in words else ""
    return Cure(before + _ways.pip(said, words))


def _compiled_with_cuda(said: Said) -> Cure | None:
    package = said.package or ("detectron2" if said.has("detectron2") else "")
    if not package and not said.has(r"not compiled with gpu support"):
        return None
    place = said.own_directory
    if place:
        words = "install --force-reinstall --no-deps --no-build-isolation --no-cache-dir -v -e ."
        up = f'cd {place} && until [ -e setup.py ] || [ "$PWD" = / ]; do cd ..; done'
        again = f"[ -e setup.py ] && rm -rf build && FORCE_CUDA=1 {_ways.pip(said, words)}"
        return Cure(f"{up}; {again}", "It lies beside its sources; nvcc has to be on PATH.")
    what = "-e ."
    if package:
        what = families.requirement(package).removeprefix(f"--no-binary {package} ")
    built = _ways.pip(said, f"install --force-reinstall --no-deps --no-build-isolation --no-cache-dir -v {what}")
    return Cure(f"FORCE_CUDA=1 {built}", "In its sources where it was built from them; nvcc has to be on PATH.")


# The last patch release of each CUDA release, of which nvidia/cuda has images; CUDA 10's were taken away.
_PATCHES = {
    **{f"11.{minor}": patch for minor, patch in enumerate("312132210")},
    **{f"12.{minor}": patch for minor, patch in enumerate("1122113011") if minor != 7},
}


@of("KW-028")
def no_library_for_it(said: Said) -> Cure | None:
    """In a clone the libraries are not there before they are compiled."""
    found = said.finds(r"['\"( ]((?:/[\w.+-]+)+)/bitsandbytes/libbitsandbytes_\w+\.so")
    if not found or ".." in found[1] or re.search(r"(site|dist)-packages|\.egg", found[1]):
        return None
    built = f"cd {found[1]} && cmake -DCOMPUTE_BACKEND=cuda -S . -B build && cmake --build build -j"
    return Cure(f"{built} && {_ways.pip(said, 'install -e .')}", "It is a clone, whose libraries are compiled there.")


@of("KW-023")
def other_numpy(said: Said) -> Cure | None:
    """Which of both is the older one: the sizes and numbers of its interface grow."""
    sizes = said.finds(r"size changed.{0,60}expected (\d+) from c header, got (\d+)")
    numbers = said.finds(r"against a[bp]i version 0x([0-9a-f]+) but this version of numpy is 0x([0-9a-f]+)")
    # One size became smaller: a dtype has 96 bytes in NumPy 1, 88 in NumPy 2.
    shrunk = bool(sizes and {sizes[1], sizes[2]} == {"88", "96"} and said.has(r"numpy\.dtype size"))
    older = (sizes and (int(sizes[1]) > int(sizes[2])) != shrunk) or (
        numbers and int(numbers[1], 16) > int(numbers[2], 16)
    )
    if not older:
        return None
    then = "The package was built with a newer NumPy than the one that is here."
    return Cure(_ways.pip(said, "install --upgrade numpy"), then)


@of("KW-107")
def no_image(said: Said) -> Cure | None:
    image = said.finds(r"\b((?:[\w.-]+/)*[\w.-]+:[\w.-]+)(?=: not found| not found|\W{0,3}: manifest)") or said.finds(
        r"manifest for ([\w./-]+:[\w.-]+)"
    )
    named = image[1] if image else ""
    release = said.finds(r"nvidia/cuda:(\d+\.\d+)(?:\.\d+)?-([\w.-]+)")
    if release and not said.has(r"no matching manifest"):
        # Of a release that has no image any more the oldest that has; its cuDNN is 8.
        wanted = release[1] if release[1] in _PATCHES else min(_PATCHES, key=_ways.number)
        rest = release[2] if wanted == release[1] else release[2].replace("cudnn7", "cudnn8")
        rest = rest if re.search(r"ubuntu|centos|ubi|rocky", rest) else f"{rest}-ubuntu20.04"
        then = "Tags have three numbers; hub.docker.com/r/nvidia/cuda/tags lists those that are left."
        return Cure(f"docker pull nvidia/cuda:{wanted}.{_PATCHES[wanted]}-{rest}", then)
    if said.has(r"nvidia/cuda:latest|pull nvidia/cuda\s*$"):
        newest = _ways.newest()
        then = "It has no latest: a tag names release, part and system."
        return Cure(f"docker pull nvidia/cuda:{newest}.{_PATCHES.get(newest, '0')}-devel-ubuntu22.04", then)
    if said.has(r"no matching manifest for linux/arm64"):
        return Cure(
            f"docker pull --platform linux/amd64 {named or '<image>:<tag>'}",
            "That runs by emulation, without a GPU; with one it takes an image for aarch64.",
        )
    return None
