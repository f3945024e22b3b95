# SPDX-License-Identifier: MIT
"""The program has no code for the GPU, or nvcc does not know it: whose code it is, and which side is the older one."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from kernelwright.doctor.explain.cures import _families as families
from kernelwright.doctor.explain.cures import _ways
from kernelwright.doctor.explain.cures._cure import Cure, of

if TYPE_CHECKING:
    from kernelwright.doctor.explain.said import Said

_NATIVE = "\"$(nvidia-smi --query-gpu=compute_cap --format=csv,noheader | sort -u | paste -sd ';')\""
_TINY = '"$(nvidia-smi --query-gpu=compute_cap --format=csv,noheader | head -n 1 | tr -d .)"'
_GONE, _OLDEST = 37, 50  # what no build of torch has, and the first that builds of its second major version have
_AMPERE = (80, 86)
# The builds of torch 1 that have code for those two, by its minor version.
_OF_TORCH_1 = {7: "11.0", 8: "11.1", 9: "11.1", 10: "11.1", 11: "11.3", 12: "11.3", 13: "11.7"}
_OLD = 75  # torch's newest builds begin with this capability; one release of CUDA before has the older ones
_TIED_UNTIL = 12  # the major version of CUDA from which on extensions build with another minor release than torch's
_FLASH = 80  # the first capability that flash-attn has code for, however it is built
_LLAMA = "-DGGML_CUDA=ON -DCMAKE_CUDA_ARCHITECTURES=native"


def _listed(capability: int | None) -> str:
    """A value of TORCH_CUDA_ARCH_LIST: the GPU's, or what the machine says when it is run."""
    return f'"{capability // 10}.{capability % 10}"' if capability else _NATIVE


def torch_for(said: Said, capability: int | None) -> Cure:
    """A torch whose own list has the GPU."""
    if said.board:
        return _ways.of_board(said)
    if capability and capability < _GONE:
        then = "No build of torch has code for this GPU any more: the variable hides it, and torch takes the CPU."
        return Cure('export CUDA_VISIBLE_DEVICES=""', then)
    if capability and capability < _OLDEST:
        return Cure(
            _ways.pip(said, 'install "torch<2" torchvision'),
            "The last builds with this GPU's code want Python 3.11 or older.",
        )
    if capability and capability < _OLD:
        older = _ways.at_least("12.5")
        return Cure(_ways.torch(said, older), "The builds of that CUDA release still have this GPU's code.")
    same = _same_release(said) if capability in _AMPERE else None
    if same:
        return same
    first = _ways.releases_of(capability)[0] if capability else ""
    release = _ways.at_least(max(first or "0", _ways.newest(), key=_ways.number))
    return Cure(_ways.torch(said, release), "What was built on the other torch has to be installed again.")


def _same_release(said: Said) -> Cure | None:
    """What was made for torch 1 may run on no torch 2: its own release has builds for a CUDA that knows the GPU."""
    found = re.fullmatch(r"1\.(\d{1,2})\.\d", said.torch)
    release = _OF_TORCH_1.get(int(found[1])) if found else None
    if release is None:
        return None
    page = "--find-links https://download.pytorch.org/whl/torch_stable.html"
    then = "That is the release that is here, built for a CUDA release which has this GPU."
    return Cure(
        _ways.pip(said, f"install --force-reinstall torch=={said.torch}+{_ways.label(release)} torchvision {page}"),
        then,
    )


_LLAMA_PYTHON = (
    'CMAKE_ARGS="{flags}" python -m pip install --force-reinstall --no-cache-dir '
    "--no-binary llama-cpp-python llama-cpp-python"
)
_OF_PADDLE, _BUILDS = "https://www.paddlepaddle.org.cn", "packages"


def of_paddle(release: str) -> str:
    """Paddle's own index has its builds by CUDA release."""
    return f"install --force-reinstall paddlepaddle-gpu -i {_OF_PADDLE}/{_BUILDS}/stable/{_ways.label(release)}/"


# Packages that are not built by torch's way: the command with which each gets code for this GPU.
_OWN_WAY = {
    "bitsandbytes": "install --upgrade bitsandbytes",
    "onnxruntime-gpu": "install --upgrade onnxruntime-gpu",
    "ctranslate2": "install --upgrade ctranslate2",
    "cupy": 'install --upgrade "cupy-cuda12x[ctk]"',
    "paddlepaddle-gpu": of_paddle("12.9"),
    "xformers": "install --upgrade --force-reinstall xformers",
    "vllm": "install --upgrade vllm",
    "sgl-kernel": "install --upgrade sglang sgl-kernel",
    "torchvision": "install --upgrade --force-reinstall torch torchvision",
}


_SAID_BY_TORCH = (
    r"\b(py)?torch\b|acceleratorerror|torch_use_cuda_dsa|cuda_launch_blocking|^\W*runtimeerror: cuda error: "
)


@of("KW-010")
def no_code(said: Said) -> Cure | None:
    """A package's own missing kernel is not torch's: its file or frame says so."""
    if said.has(r"ggml[-_]cuda|\bggml_|llama\.cpp") and not said.has(r"llama_cpp"):
        return Cure(
            f"cmake -B build {_LLAMA} && cmake --build build --config Release -j",
            "In llama.cpp's sources, on this machine.",
        )
    if said.has("llama_cpp|llama-cpp-python"):
        return Cure(_LLAMA_PYTHON.format(flags=_LLAMA))
    of_torch = said.has(r"current pytorch install(ation)?\b|pytorch no longer supports|gpu with pytorch, please check")
    package = "" if of_torch else said.package
    return _of_package(said, package) if package else _without_package(said, of_torch=of_torch)


def _of_package(said: Said, package: str) -> Cure:
    """A package of its own, by the way in which it is built."""
    if families.named(package) == "tinycudann":
        found = said.shows(r"compute capability (\d{2,3})\b")
        own = found[1] if found else said.capability or _TINY
        words = _ways.pip(said, families.whole(package))
        then = "For several GPUs: numbers with ; between them, in quotes."
        return Cure(f"TCNN_CUDA_ARCHITECTURES={own} {words}", then)
    if package == "flash-attn" and said.capability and said.capability < _FLASH:
        return _other_attention(said)
    if package in _OWN_WAY:
        return Cure(_ways.pip(said, _OWN_WAY[package]), "Its newest release has the most GPUs.")
    listed = f"TORCH_CUDA_ARCH_LIST={_listed(said.capability)} {families.given(package)}"
    then = "That builds it for this GPU, with nvcc of torch's CUDA release."
    return Cure(listed + _ways.pip(said, families.whole(package)), then)


# Directories of a project that hold kernels of its own.
_HOLDS_KERNELS = (
    r"/(ops|csrc|cuda|ext|_?extensions?|kernels?|lib|layers|nms|roi_\w+|dcn\w*|pointnet2?\w*|\w+_(cuda|ops|ext))(/|$)"
)


def _without_package(said: Said, *, of_torch: bool) -> Cure:
    """torch's own code, or that of a program whose sources somebody has."""
    if not of_torch and said.project == "-e .":
        words = "install --force-reinstall --no-deps --no-build-isolation --no-cache-dir ."
        then = "In the sources that were built here, after the build directory is deleted."
        return Cure(f"TORCH_CUDA_ARCH_LIST={_listed(said.capability)} {_ways.pip(said, words)}", then)
    place = said.own_directory
    if not of_torch and place and re.search(_HOLDS_KERNELS, place):
        listed = f"export TORCH_CUDA_ARCH_LIST={_listed(said.capability)}"
        cure = _ways.beside_sources(place, "The file that failed is of these sources: they are built for this GPU.")
        return Cure(f"{listed}; {cure.command}", cure.then)
    if of_torch or said.has(_SAID_BY_TORCH):
        return torch_for(said, said.capability)
    code = "native" if not said.capability else said.capability
    built = f"cmake --fresh -B build -DCMAKE_CUDA_ARCHITECTURES={code} && cmake --build build -j"
    then = "In its sources. A Python package: python -m pip install --upgrade with its name."
    if said.windows or not said.has(r"\bpython|\.py\b|torch"):
        return Cure(built, then)
    words = "install --force-reinstall --no-deps --no-build-isolation --no-cache-dir -e ."
    own = f"rm -rf build && TORCH_CUDA_ARCH_LIST={_listed(said.capability)} {_ways.pip(said, words)}"
    return Cure(f"if [ -e setup.py ]; then {own}; else {built}; fi", then)


@of("KW-053")
def not_loaded(said: Said) -> Cure | None:
    """torch's and XLA's own code is whole: it is of a form that the driver does not know yet."""
    if said.package or not said.has(r"torch_use_cuda_dsa|cuda_launch_blocking|\bjaxlib\b|xla"):
        return None
    cure = _ways.driver(said)
    older = (
        ""
        if said.has("xla")
        else f" Or a build for an older CUDA release: {_ways.torch(said, _ways.at_least('12.5'))}."
    )
    return Cure(cure.command, f"{cure.then}{older}")


@of("KW-011")
def too_old(said: Said) -> Cure | None:
    if said.has(r"supports cuda capabilities|pytorch no longer supports|current pytorch install"):
        return torch_for(said, said.capability or 60)
    vllm = said.has(r"\bvllm\b")
    if said.has(r"bfloat16 is only supported"):
        return Cure(
            "vllm serve <model> --dtype half"
            if vllm or not said.package
            else f"python {said.script or '<program.py>'} --dtype half",
            "float16 in place of bfloat16; in transformers torch_dtype=torch.float16.",
        )
    if said.has(r"method fp8|fp8\b.{0,40}not supported"):
        then = "It takes the weights in 8 bits and computes in 16; or a checkpoint in AWQ or GPTQ."
        return Cure("export VLLM_TEST_FORCE_FP8_MARLIN=1", then)
    return _other_attention(said) if said.has(r"flash.?attention|flash.?attn") else None


def _other_attention(said: Said) -> Cure:
    if said.has(r"\bvllm\b"):
        return Cure("export VLLM_ATTENTION_BACKEND=TRITON_ATTN", "Older releases of vLLM: XFORMERS in its place.")
    then = "Models then take torch's own attention (attn_implementation='sdpa')."
    return Cure(_ways.pip(said, "uninstall -y flash-attn"), then)


# A build by torch's own rules, in CMake too: it takes its list from TORCH_CUDA_ARCH_LIST and from nowhere else.
_OF_TORCH = (
    r"torch_cuda_arch_list|cpp_extension|torch/extension|torch/(csrc/api/)?include|nccl_external|torch/third_party"
)
_FAMILIES = (70, 75, 80, 86, 89, 90, 100, 120)
# What the nvcc just before a GPU's own knows in any case, and that GPU runs from PTX.
_RUNS = {86: "8.0", 87: "8.0", 89: "8.6", 90: "8.6+PTX", 100: "9.0+PTX", 103: "9.0+PTX", 120: "9.0+PTX", 121: "9.0+PTX"}
_TEXT_FOR = {86: "7.5", 87: "7.5", 89: "8.0", 90: "8.0"}


def _knows(release: str, code: int) -> bool:
    first, last = _ways.releases_of(code)
    known = _ways.number(release)
    return bool(first) and _ways.number(first) <= known and (not last or known <= _ways.number(last))


def _kin(said: Said, code: int, first: str) -> int:
    """The newest code that the old nvcc of an old torch knows and that this GPU runs: of its own major number; else 0.

    A newer nvcc would not go with that torch.
    """
    known = said.toolkit
    old = known and _ways.number(known)[0] < _TIED_UNTIL and _too_new(first, said.torch_cuda or known)
    if not old or not said.has(_OF_TORCH):
        return 0
    return max((one for one in _FAMILIES if one < code and one // 10 == code // 10 and _knows(known, one)), default=0)


def _drop(said: Said, code: int, known: str) -> Cure:
    """Takes a GPU out of what is built: by the list that is asked, or where sources spell it."""
    left = [one for one in (75, 80, 86, 89, 90) if _knows(known or "99", one)]
    dotted, plain = ";".join(f"{one // 10}.{one % 10}" for one in left), ";".join(map(str, left))
    then = f"Newer CUDA releases dropped it; the last that has it is {_ways.releases_of(code)[1]}."
    if said.has(rf"{_OF_TORCH}|setup\.py"):
        return Cure(
            f'export TORCH_CUDA_ARCH_LIST="{dotted}"',
            f"{then} Then build again, in a fresh build directory; a setup.py that spells it has to lose that line.",
        )
    # FindCUDA's way, of before CMake knew CUDA: lists stand in the sources.
    old_way = said.has(r"building nvcc \(device\)|_generated_\S+\.cu\.o")
    if said.has(r"cmake|ninja|\.dir/") and not old_way:
        return Cure(f'cmake --fresh -B build -DCMAKE_CUDA_ARCHITECTURES="{plain}"', f"{then} Then build again.")
    found = (
        rf"grep -rlE 'compute_{code}|sm_{code}' --include=Makefile* --include=*.mk "
        r"--include=*.cmake --include=CMakeLists.txt --include=*.py --include=*.lua ."
    )
    taken = rf"s/-gencode[= ]*arch=compute_{code},code=\\?\"?(sm|compute)_{code}\\?\"?//g; s/\b{code}[; ]//g"
    return Cure(f'{found} | xargs -r sed -i.bak -E "{taken}"', f"{then} The old files stay as .bak.")


def _unknown_to_program(said: Said, code: int) -> Cure | None:
    """torch's own list, or the NVRTC that it brings; of other programs their list."""
    if said.shows(r"ptxas does not support"):
        return _ways.newer_ptxas(said)
    if code and said.has(r"tiny[-_]?cuda[-_]?nn|\btcnn"):
        return _of_tiny_cuda(said, code)
    if said.shows(r"larger than the max|no gpu codes parsed"):
        return _ways.toolkit(said)
    if said.shows(r"unknown cuda arch") and code in _RUNS:
        then = "Code, or PTX, that this GPU runs and this torch knows. Or a newer torch, which knows the GPU."
        return Cure(f'export TORCH_CUDA_ARCH_LIST="{_RUNS[code]}"', then)
    by_nvrtc = said.has(r"nvrtc.{0,60}(gpu-architecture|invalid value)")
    if by_nvrtc or said.has(r"unknown cuda arch|is not a recogni[sz]ed processor"):
        return torch_for(said, code or None)
    return None


def _other_code(said: Said, code: int, first: str) -> Cure | None:
    """Code that the GPU runs, where the nvcc that is here can make that: nothing has to be installed."""
    own = said.capability if said.jetson else None
    if own and own != code:
        then = "That is the board's own GPU, and all that it needs. Then delete the build directory."
        return Cure(f'export TORCH_CUDA_ARCH_LIST="{own // 10}.{own % 10}" CUDAARCHS={own}', then)
    if not (said.toolkit or said.torch_cuda) and code in _TEXT_FOR and said.has(_OF_TORCH):
        then = "As PTX, which the driver compiles for this GPU. Faster: nvcc of torch's own CUDA release."
        return Cure(f'export TORCH_CUDA_ARCH_LIST="{_TEXT_FOR[code]}+PTX"', then)
    kin = _kin(said, code, first)
    if kin:
        then = "This nvcc is torch's, and the GPU runs that code as well. Then delete the build directory."
        return Cure(f'export TORCH_CUDA_ARCH_LIST="{kin // 10}.{kin % 10}"', then)
    return None


_LAST_BEFORE_13 = "12.9"
_LAST = {10: "10.2", 11: "11.8"}  # the last release of each major version that the table does not have


def _release_for(said: Said, first: str) -> str:
    """A release that knows the GPU, of torch's major version or of that of the nvcc that is here, where one does."""
    least = max(first, said.torch_cuda or "0", key=_ways.number)
    major = _ways.number(least)[0]
    here = {_ways.number(one)[0] for one in (said.torch_cuda, said.toolkit) if one}
    return _LAST[major] if major in _LAST and major in here else _ways.at_least(least)


def _of_tiny_cuda(said: Said, code: int) -> Cure:
    """Its list takes numbers alone, of the newest code that this nvcc knows and the GPU runs."""
    own, known = said.capability or code, said.toolkit or said.torch_cuda
    fit = [one for one in _FAMILIES if one <= own and one // 10 == own // 10 and (not known or _knows(known, one))]
    if not known and not said.shows(r"\+ptx"):  # that one it does not know
        fit = [one for one in fit if one != code]
    then = "Numbers without a dot and without +PTX. Then build it again, from a fresh build directory."
    return Cure(f"export TCNN_CUDA_ARCHITECTURES={max(fit, default=own)}", then)


@of("KW-044")
def unknown_code(said: Said) -> Cure | None:
    """The toolkit is older than the GPU, or so new that it dropped it; or it is torch's or Triton's own compiler."""
    found = said.shows(r"(?:compute_|sm_|arch \(?|'|target sm_|architecture )(\d{1,2}\.?\d)(a|f)?\b") or said.finds(
        r"(?:compute_|sm_)(\d{2,3})(a|f)?\b"
    )
    code = int(found[1].replace(".", "")) if found else 0
    first, last = _ways.releases_of(code)
    known = said.toolkit or said.torch_cuda
    of_program = _there_already(said, code) or _unknown_to_program(said, code)
    if of_program:
        return of_program
    of_system = said.has(r"/usr/bin/nvcc")  # a distribution's own package, which is years behind
    old_driver = said.finds(r"(?:driver|with|nvidia)\D{0,12}\b([34]\d\d|5[0-7]\d)\.\d\d")  # no CUDA 13 is used with it
    dropped = (
        last
        and not of_system
        and not (old_driver and not known and last == _LAST_BEFORE_13)
        and (not known or _ways.number(known) > _ways.number(last) or not _too_new(first, known))
    )
    if dropped:
        return _drop(said, code, known)
    if not first:
        then = "The compute capabilities of the GPUs that are here, as the build takes them."
        return Cure(f"export TORCH_CUDA_ARCH_LIST={_NATIVE} CUDAARCHS=native", then)
    return _other_code(said, code, first) or _newer_toolkit(said, first)


def _newer_toolkit(said: Said, first: str) -> Cure:
    cure = _ways.toolkit(said, _release_for(said, first), newer=True)
    if said.has(r"triton|gpu-name") and not said.has(r"nvcc"):
        command = f"{cure.command} && export TRITON_PTXAS_PATH=$CUDA_HOME/bin/ptxas"
        return Cure(command, f"Triton brings an older ptxas. {cure.then}")
    deleted = "" if "elete the build directory" in cure.then else " Delete the build directory."
    then = f"{cure.then} It is the first with this GPU; a newer one has it too.{deleted}"
    return Cure(cure.command, then)


def _there_already(said: Said, code: int) -> Cure | None:
    """A toolkit that the log names and that knows the GPU, so that another nvcc is the one that was asked."""
    named = re.findall(r"/usr/local/cuda-(\d+\.\d+)", said.text)
    used = re.findall(r"/usr/local/cuda-(\d+\.\d+)/bin/nvcc\b|release (\d+\.\d+), V\d", said.text)
    know = [one for one in named if _knows(one, code) and not any(one in pair for pair in used)]
    if not know or said.machine is not None:
        return None
    then = "The one that PATH finds first is older; then delete the build directory, which remembers it."
    return Cure(_ways.use(f"/usr/local/cuda-{max(know, key=_ways.number)}"), then)


def _too_new(first: str, known: str) -> bool:
    return bool(first and known and _ways.number(first) > _ways.number(known))


@of("KW-124")
def without_suffix(said: Said) -> Cure | None:
    """Instructions that only the code with an a (or f) has."""
    found = said.finds(r"(?:sm_|compute_)(\d{2,3})(?![0-9af])")
    code = int(found[1]) if found else 90
    dotted = f"{code // 10}.{code % 10}a"
    if said.has(r"cmake|\.dir/") and not said.has("cpp_extension|setup\\.py"):
        return Cure(f"cmake --fresh -B build -DCMAKE_CUDA_ARCHITECTURES={code}a", "Then build again.")
    return Cure(
        f'export TORCH_CUDA_ARCH_LIST="{dotted}" CUDAARCHS={code}a', "Then delete the build directory, and build again."
    )


@of("KW-090")
def no_list(said: Said) -> Cure | None:
    if said.machine is None and said.shows(r"architecture '"):
        value = str(said.capability or "80;86;89;90")
        if said.has(r"llama[-_]cpp[-_]python"):
            given = f"{_LLAMA.partition(' ')[0]} -DCMAKE_CUDA_ARCHITECTURES={value}"
            return Cure(_LLAMA_PYTHON.format(flags=given), "This nvcc does not look for the GPU by itself.")
        then = "Nobody was there to ask for the GPU: in a build of an image, say, or with a CMake before 3.24."
        return Cure(f'cmake --fresh -B build -DCMAKE_CUDA_ARCHITECTURES="{value}" && cmake --build build -j', then)
    if said.has(r"tcnn_cuda_architectures"):
        then = "The GPU's compute capability without its dot; more than one with ; between them. Then build again."
        return Cure(f"export TCNN_CUDA_ARCHITECTURES={said.capability or _TINY}", then)
    if said.machine is None and not said.capability:
        return None
    code = said.capability or 0
    value = f'"{code // 10}.{code % 10}"' if code else _NATIVE
    return Cure(
        f"export TORCH_CUDA_ARCH_LIST={value} CUDAARCHS={code or 'native'}",
        "Then delete the build directory, and build again.",
    )
