# SPDX-License-Identifier: MIT
"""A build that stops: nvcc is missing or of another release, a GCC too new, a header, an option, memory."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from kernelwright.doctor.explain.cures import _families as families
from kernelwright.doctor.explain.cures import _ways
from kernelwright.doctor.explain.cures._cure import Cure, of
from kernelwright.doctor.explain.cures._programs import in_a_clone, of_cudarc, without_visual_studio
from kernelwright.doctor.explain.cures.torches import mmcv

if TYPE_CHECKING:
    from kernelwright.doctor.explain.said import Said

_IF_NOT = "command -v nvcc || [ -x /usr/local/cuda/bin/nvcc ] || "


@of("KW-040")
def no_nvcc(said: Said) -> Cure | None:
    """The toolkit that the log shows, or that of torch's release; where one is there already it is taken."""
    there = said.finds(r"(/usr/local/cuda(?:-\d+\.\d+)?|/opt/cuda)(?=[\s/:'\"]|$)")
    if there and said.has(r"toolkit found at|found cuda"):
        return Cure(_ways.use(there[1]), "Then delete the build directory, and build again.")
    on_windows = _there_on_windows(said) if said.windows else None
    if on_windows:
        return on_windows
    of_torch = said.has(r"cpp_extension|cudaextension|torch/utils|torch\.utils|\btorch\.__version__|flash[-_]attn")
    if said.machine is None and of_torch and not said.torch_cuda and not said.jetson:
        cure = _ways.toolkit_of_torch(said)
    else:
        cure = _ways.toolkit(said, said.torch_cuda)
    if said.machine is None and cure.command.startswith("sudo apt-get"):
        return Cure(f"{_IF_NOT}{cure.command}", f"Where it is there already it is taken. {cure.then}")
    return cure


def _there_on_windows(said: Said) -> Cure | None:
    """A toolkit that the log names has to be named to the build, too."""
    found = said.finds(r"CUDA(?: Toolkit)?\\{1,2}v(\d+\.\d+)|release (\d+\.\d+), V")
    if found is None:
        return None
    place = f"C:\\Program Files\\NVIDIA GPU Computing Toolkit\\CUDA\\v{found[1] or found[2]}"
    then = "Then a new prompt, which has it; the toolkit is there."
    if said.has(r"bindgen_cuda|cudarc|candle|\bcargo\b"):
        return Cure(f'setx CUDA_PATH "{place}"', then)
    return Cure(f'setx CUDA_PATH "{place}" & setx CUDA_HOME "{place}" & set "PATH={place}\\bin;%PATH%"', then)


@of("KW-041")
def other_release(said: Said) -> Cure | None:
    return of_cudarc(said) if said.has(r"\bcudarc\b") else _other_release(said)


def _other_release(said: Said) -> Cure | None:
    named = said.finds(r"running this\s+command again with PATH=(/[\w./-]+/bin):\$PATH")
    if named and ".." not in named[1]:
        return Cure(f"export PATH={named[1]}:$PATH", "nvcc is not on PATH. Then delete the build directory.")
    if said.shows(r"\bptxas\b"):
        return _older_ptxas(said)
    if said.has(r"only supported on cuda|requires cuda"):
        return _ways.toolkit(said, said.torch_cuda or _ways.newest())
    if not said.torch_cuda:
        return None
    cure = _ways.toolkit(said, said.torch_cuda)
    own, asked = said.toolkit, said.torch_cuda
    if own and own != asked and said.has(r"pip-build-env") and said.has(rf"\+{_ways.label(own)}\b"):
        then = f"pip's own environment for the build fetched a torch of CUDA {asked}; that here is of nvcc's {own}."
        return Cure(_ways.pip(said, f"install --no-build-isolation {said.project or '-e .'}"), then)
    other = (
        f" Or torch for the nvcc that is here: {_ways.torch(said, own)}." if own and _ways.number(own)[0] > 11 else ""
    )
    skip = (
        " DS_SKIP_CUDA_CHECK=1 passes over it within one major version."
        if said.has("deepspeed") and own.partition(".")[0] == asked.partition(".")[0]
        else ""
    )
    return Cure(
        cure.command, f"torch is of CUDA {asked}.{other}{skip} Delete the build directory, which remembers the other."
    )


def _older_ptxas(said: Said) -> Cure:
    """XLA takes the one of a package; other programs that of a toolkit of the PTX's release."""
    if said.has(r"\bjax|\bxla\b|xla_|tensorflow") and not said.windows:
        return _ways.newer_ptxas(said)
    wanted = said.shows(r"unsupported \.version (\d+\.\d+)")
    cure = _ways.toolkit(said, _ways.of_ptx(wanted[1]) if wanted else _ways.newest(), newer=True)
    own = (
        " && export TRITON_PTXAS_PATH=$CUDA_HOME/bin/ptxas"
        if said.has("triton") and "CUDA_HOME" in cure.command
        else ""
    )
    return Cure(f"{cure.command}{own}", f"Its ptxas has to come first on PATH. {cure.then}")


def _most(said: Said) -> str:
    """The newest GCC that the log allows: `<12.0` leaves 11, `<=11.5` too."""
    found = said.finds(
        r"(?:gcc|clang|g\+\+) versions? (?:later|newer|greater) than (\d{1,2})\b|maximum "
        r"required version by cuda \S+ \((\d{1,2})"
    )
    if found:
        return found[1] or found[2]
    refused = said.finds(r"gcc (\d{1,2})(?:\.(\d))? and up are not supported")
    if refused:
        return f"{refused[1]}.{int(refused[2]) - 1}" if refused[2] and refused[2] != "0" else str(int(refused[1]) - 1)
    bound = said.finds(r"version of (?:g\+\+|gcc) \(>=[\d.]+, <(=?)(\d{1,2})\b")
    if bound:
        return str(int(bound[2]) - (not bound[1]))
    unread = said.finds(r"/include/c\+\+/(\d{1,2})(?:\.\d+)*/\S*?[:(]\d[\d:]*\)?: error")
    own = _ways.newest_gcc_of(said.toolkit) if said.toolkit else ""
    # Headers that nvcc cannot read are those of a GCC that it lets pass: the one before it has others.
    return min(own or "99", str(int(unread[1]) - 1), key=int) if unread else own


@of("KW-042", "KW-043")
def gcc_too_new(said: Said) -> Cure | None:
    if said.shows(r"unsupported (nvhpc|pgi|intel) "):
        then = "nvcc takes GCC in place of that compiler, which a module has set. Delete the build directory."
        return Cure("export CC=gcc CXX=g++ NVCC_CCBIN=g++ CUDAHOSTCXX=g++", then)
    if said.windows:
        return None
    most = _most(said)
    if most:
        return _ways.gcc(said, most)
    return _ways.gcc_by_header(said)


@of("KW-046")
def no_host_compiler(said: Said) -> Cure | None:
    named = said.finds(r"^\W*(?:set|export) \"?(CC|CXX)=\S+")
    if named and said.shows(r"simple test program|- broken"):
        then = "The variable names what is no compiler: without it the build finds its own."
        return Cure(f"set {named[1]}=" if said.windows else f"unset {named[1]}", then)
    if said.windows and said.has(r"python\.h") and not said.has("triton"):
        version = said.python or "3.12"
        then = "The embeddable package has no headers: an installed Python has."
        return Cure(f"winget install --id Python.Python.{version}", then)
    if said.embedded and said.has(r"python\.h|python libs"):
        return _headers_for(said, said.embedded)
    if said.windows and said.has("triton"):
        return Cure(
            _ways.pip(said, "install -U triton-windows"),
            "It brings a compiler; triton itself has no build for Windows.",
        )
    if said.windows:
        given = '--override "--wait --passive --add Microsoft.VisualStudio.Workload.VCTools --includeRecommended"'
        return Cure(
            f"winget install --id Microsoft.VisualStudio.2022.BuildTools {given}",
            "Then build in its x64 Native Tools prompt.",
        )
    return _host_compiler(said)


def _headers_for(said: Said, place: str) -> Cure:
    """An embedded Python has neither headers nor import libraries: those of an installed one of its release fit."""
    version = said.python or "3.12"
    own = f"%LOCALAPPDATA%\\Programs\\Python\\Python{version.replace('.', '')}"
    copied = " & ".join(
        f'xcopy /e /i /y "{own}\\{one}" "{place}\\{other}"' for one, other in (("include", "Include"), ("libs", "libs"))
    )
    then = "Of the same release as the embedded one, whose python.exe -V says it."
    return Cure(f"winget install --id Python.Python.{version} & {copied}", then)


def _host_compiler(said: Said) -> Cure:
    """Elsewhere than on Windows."""
    if said.shows(r"crypt\.h"):
        by_apt = "sudo apt-get update && sudo apt-get install -y libcrypt-dev"
        by_conda = "conda install -y -c conda-forge libxcrypt && export CPATH=$CONDA_PREFIX/include:$CPATH"
        return Cure(by_conda if said.conda else by_apt, "Python's own headers want it up to Python 3.8.")
    if said.shows(r"compiler_compat/ld"):
        then = "Then conda deactivate and activate: its linker finds its C library, which conda's own ld does not."
        return Cure("conda install -y -c conda-forge cxx-compiler", then)
    headers = said.finds(r"(?:python|include/python)(3\.\d{1,2})")
    dev = f"python{headers[1]}-dev" if headers and said.has(r"python\.h") else "python3-dev"
    if said.has(r"\bdnf\b|\byum\b|fedora|\.el\d|centos|rocky"):
        return Cure("sudo dnf install -y gcc gcc-c++ make python3-devel")
    return Cure(
        f"sudo apt-get update && sudo apt-get install -y build-essential {dev}",
        "conda: conda install -c conda-forge cxx-compiler. CC and CXX name another one.",
    )


@of("KW-047")
def no_build_tool(said: Said) -> Cure | None:
    if said.shows("libclang"):
        ways = {"conda": "conda install -y -c conda-forge libclang", "windows": "winget install --id LLVM.LLVM"}
        by_system = _ways.root_install(said)
        part = {"sudo dnf": "clang-devel", "sudo pac": "clang", "sudo zyp": "clang-devel"}.get(
            by_system[:8], "libclang-dev"
        )
        fix = ways["windows"] if said.windows else ways["conda"] if said.conda else f"{by_system} {part}"
        return Cure(fix, "LIBCLANG_PATH names its directory, where the build does not find it by itself.")
    if said.shows(r"\bninja\b") and not said.windows:
        found = '"$(python -c \'import sysconfig; print(sysconfig.get_path("scripts"))\'):$PATH"'
        then = "In the environment that builds; the variable names its programs, where it was not activated."
        return Cure(f"{_ways.pip(said, 'install --upgrade ninja setuptools wheel')} && export PATH={found}", then)
    if said.has(r"compatibility with cmake < 3\.5"):
        return Cure("export CMAKE_POLICY_VERSION_MINIMUM=3.5", "Or an older CMake: python -m pip install 'cmake<4'.")
    return None


@of("KW-048")
def no_test_program(said: Said) -> Cure | None:
    place = said.finds(r"(/[\w./-]+/bin/nvcc)\b")
    if place and said.has(r"permission denied"):
        return Cure(
            f"sudo chmod +x {place[1]}", "Its neighbours too, where the whole toolkit was copied without its rights."
        )
    if said.windows:
        return without_visual_studio(said)
    codes = f"-DCMAKE_CUDA_ARCHITECTURES={said.capability or 'native'}"
    if said.has(r"llama[_-]cpp[_-]python"):
        built = _ways.pip(
            said, "install --force-reinstall --no-cache-dir --no-binary llama-cpp-python llama-cpp-python"
        )
        nvcc = place[1] if place else "/usr/local/cuda/bin/nvcc"
        then = "CMake takes that nvcc, whatever PATH has; it needs a host compiler that the toolkit knows (KW-042)."
        return Cure(f'CUDACXX={nvcc} CMAKE_ARGS="-DGGML_CUDA=on" {built}', then)
    return Cure(
        f"CUDACXX={place[1] if place else '/usr/local/cuda/bin/nvcc'} cmake --fresh -S . -B build {codes}",
        "The reason is the first 'error' below the message: python -m kernelwright explain < "
        "build/CMakeFiles/CMakeConfigureLog.yaml.",
    )


@of("KW-049")
def build_failed(said: Said) -> Cure | None:
    what = said.project
    named = said.shows(r"error building extension '(\w+)'")
    if named and not said.windows:
        cached = '"${TORCH_EXTENSIONS_DIR:-$HOME/.cache/torch_extensions}"'
        then = "It is built while the program runs; what an earlier build left goes. The reason is the first error."
        return Cure(f"rm -rf {cached} && MAX_JOBS=1 python {said.script or '<program.py>'}", then)
    if not what:
        return None
    built = _ways.pip(said, f"install -v --no-build-isolation {what}")
    return Cure(
        f"MAX_JOBS=1 {built} > build.log 2>&1; python -m kernelwright explain < build.log",
        "One compiler at a time leaves one error, whose cause is named.",
    )


@of("KW-060")
def out_of_memory(said: Said) -> Cure | None:
    what = said.project
    if said.has(r"\bcargo\b|bindgen_cuda|\.rs:\d|rustc"):
        then = "bindgen_cuda starts an nvcc for each thread of rayon; -j bounds cargo's own."
        return Cure("RAYON_NUM_THREADS=1 cargo build --release -j 1", then)
    if said.has(r"cmake --build|\.dir/|gmake|make\[\d\]") and not what:
        return Cure("cmake --build build -j1", "Raise -j until memory is full.")
    return (
        Cure(
            "MAX_JOBS=1 NVCC_THREADS=1 CMAKE_BUILD_PARALLEL_LEVEL=1 "
            f"{_ways.pip(said, f'install --no-build-isolation {what}')}",
            "Raise MAX_JOBS until memory is full.",
        )
        if what
        else None
    )


@of("KW-092")
def old_setup(said: Said) -> Cure | None:
    building = said.has(r"getting requirements to build|subprocess-exited|building wheel|setup\.py|egg_info|build_meta")
    older = _ways.pip(said, 'install "setuptools<81" wheel')
    if not building:
        return Cure(older)
    return (
        Cure(f"{older} && {_ways.pip(said, f'install --no-build-isolation {said.project}')}") if said.project else None
    )


@of("KW-093")
def no_compiled_part(said: Said) -> Cure | None:
    if said.has(r"amp_c\b|fused_layer_norm_cuda|\bapex\b|cuda ext"):
        options = '--config-settings "--build-option=--cpp_ext" --config-settings "--build-option=--cuda_ext"'
        return Cure(
            "git clone https://github.com/NVIDIA/apex && cd apex && python -m pip install -v "
            f"--no-build-isolation {options} ."
        )
    missing = said.shows(
        r"no module named ['\"]?([\w.]+?)(_cuda|_cpp|_ext|_kernels?|_cuda_lib|_backend)?(?:\.[\w.]+)?['\"]?\s*$"
    )
    if missing and missing[1].partition(".")[0] == "mmcv":
        return mmcv(said)
    package = said.package or (re.sub(r"_+", "-", missing[1].partition(".")[0]) if missing else "")
    if not package and said.has(r"name '_(c|ext|cuda|backend)\w*' is not defined"):
        own = _ways.pip(said, "install --no-build-isolation -v -e .")
        return Cure(f"FORCE_CUDA=1 {own}", "In the sources that hold setup.py; nvcc has to be on PATH.")
    if said.has(r"flash.?attn|flash ?attention"):
        package = "flash-attn"
    there = in_a_clone(said)
    if there:
        return there
    if not package:
        return None
    wanted = families.requirement(package) if families.requirement(package).startswith(("git+", '"git+')) else package
    words = f"install --force-reinstall --no-deps --no-build-isolation --no-cache-dir -v {wanted}"
    built = families.given(package) + _ways.pip(said, words)
    return Cure(
        f"cd / && {built}",
        "In / no source directory hides it; with nvcc on PATH, since without one the compiled part is left out.",
    )


@of("KW-098")
def old_standard(said: Said) -> Cure | None:
    least = said.finds(r"less than the minimum required version by CUDA \S+ \(([\d.]+)\)")
    if least:
        newest = _most(said) or str(_ways.number(least[1])[0] + 2)
        then = "It sets CXX. Without conda: a newer g++ of the distribution (gcc-toolset, devtoolset), named by CXX."
        return Cure(f'conda install -y -c conda-forge "gxx={newest}"', then)
    if said.shows(r"you need c\+\+17|c\+\+(17|20) or later compatible compiler|torch requires c\+\+"):
        standard = "20" if said.shows(r"c\+\+20") else "17"
        files = "--include=setup.py --include=*.cmake --include=CMakeLists.txt"
        return Cure(
            f"grep -rlE 'std=c\\+\\+1[14]|CXX_STANDARD 1[14]' {files} . | xargs -r sed -i -E "
            f"'s/(std=c\\+\\+|CXX_STANDARD )1[14]/\\1{standard}/g'",
            "Then build again; where nothing was found the compiler is too old: conda install -c "
            "conda-forge cxx-compiler.",
        )
    return None


@of("KW-099")
def unknown_option(said: Said) -> Cure | None:
    if said.has(r"language dialect"):
        return Cure(
            _ways.pip(said, "install --upgrade cmake"),
            "And an nvcc that has the standard: C++17 from CUDA 11 on, C++20 from CUDA 12.",
        )
    return _ways.toolkit(said, _ways.at_least(max(said.torch_cuda or "0", _ways.newest(), key=_ways.number)))


_THRUST = (
    "execution_policy.h device_vector.h host_vector.h sort.h unique.h reduce.h remove.h sequence.h transform.h copy.h "
    "count.h"
)


@of("KW-131")
def older_source(said: Said) -> Cure | None:
    """What can be said in the compiler's options or written anew is; the rest wants the older release."""
    if said.shows(r"\bthrust\b"):
        given = " ".join(f"-include thrust/{name}" for name in _THRUST.split())
        return Cure(f'export NVCC_APPEND_FLAGS="{given}"', "Then build again: each file begins with these headers.")
    files = "--include=*.cu --include=*.cuh --include=*.cpp --include=*.h ."
    if said.shows(r"__shfl"):
        new = r"s/\b__shfl(_up|_down|_xor)?\(/__shfl\1_sync(0xffffffff, /g"
        return Cure(
            f"grep -rlE '\\b__shfl(_up|_down|_xor)?\\(' {files} | xargs -r sed -i -E '{new}'", "Then build again."
        )
    if said.shows(r"cudathreadsynchronize"):
        new = "s/cudaThreadSynchronize/cudaDeviceSynchronize/g"
        return Cure(f"grep -rl cudaThreadSynchronize {files} | xargs -r sed -i '{new}'", "Then build again.")
    release = _ways.newest() if said.shows("cudadeviceprop") else "10.2" if said.shows("cusparse") else "11.8"
    cure = _ways.toolkit(said, release)
    return Cure(cure.command, f"It is the last that has these names. torch has to be of the same. {cure.then}")


@of("KW-125")
def no_device_link(said: Said) -> Cure | None:
    if said.has(r"cmake|\.dir/"):
        return Cure("cmake --fresh -B build -DCMAKE_CUDA_SEPARABLE_COMPILATION=ON && cmake --build build -j", "")
    if said.has(r"cpp_extension|setup\.py|build_ext|torch"):
        return Cure(
            'export NVCC_APPEND_FLAGS="-dc"',
            "In setup.py: CUDAExtension(…, dlink=True, dlink_libraries=['cudadevrt'], "
            "extra_compile_args={'nvcc': ['-dc']}).",
        )
    return None


@of("KW-116")
def visual_studio(said: Said) -> Cure | None:
    if said.has(r"unsupported microsoft visual studio|expected compiler version|stl1002"):
        part = "Microsoft.VisualStudio.Component.VC.14.38.17.8.x86.x64"
        given = f'--override "--passive --wait --add {part}"'
        place = r"C:\Program Files (x86)\Microsoft Visual Studio\2022\BuildTools\VC\Auxiliary\Build\vcvarsall.bat"
        then = (
            "Then build in that prompt, whose compiler CUDA 11.6 to 13 take. Or a newer CUDA, if torch is for that one."
        )
        tools = "winget install --id Microsoft.VisualStudio.2022.BuildTools"
        return Cure(f'{tools} {given} & "{place}" x64 -vcvars_ver=14.38', then)
    return None
