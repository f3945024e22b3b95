# SPDX-License-Identifier: MIT
"""Compilers and build tools: not found, of the wrong release, or a pair that does not go together."""

from __future__ import annotations

from kernelwright.doctor._cause import Area, Cause, sign

CAUSES = (
    Cause(
        code="KW-040",
        title="nvcc is not found",
        area=Area.TOOLCHAIN,
        why="The build needs the CUDA toolkit's compiler. A driver, or torch's CUDA libraries, do not contain it.",
        fix="export CUDA_HOME=/usr/local/cuda PATH=/usr/local/cuda/bin:$PATH",
        then="If there is none: sudo apt-get install -y cuda-toolkit of NVIDIA's repository, or conda install -c "
        "conda-forge cuda-nvcc (./kw build needs neither).",
        signs=(
            sign(r"(which|where)['\"]?,? ?['\"]nvcc['\"]\]?.{0,20}returned non-zero"),
            sign(r"nvcc['\"], ['\"](--version|-v)['\"]\]['\"]? returned non-zero|\bnvcc binary could not be located"),
            sign(
                r"auto-detect cuda (root|home|path)|(could not|cannot|unable to|failed to) (determine"
                r"|detect|find|locate) (the )?cuda (root|home|path|install\w*|toolkit)"
            ),
            sign(r"['\"]nvcc(\.exe)?['\"] is not recognized as"),
            sign(r"\bnvcc\b.{0,30}\bos \{.{0,20}notfound|failed to (execute|run|spawn|start) ['\"`]?nvcc"),
            sign(r"cuda_home (environment variable )?is not set|\bspecify cuda_toolkit_root_dir\b"),
            sign(r"\bcuda_toolkit_root_dir\b.{0,30}(must be|has to be|should be|is not|not) (defined|set|specified)"),
            sign(r"\bcuda_?(home|dir|path|root)\b[^\n]*\n([^\n]*\n){0,2}typeerror: [^\n]*nonetype"),
            sign(
                r"\bnvcc\b['\"]?:? ?(command )?(not found|no such file|was not found|missing|is not "
                r"(installed|found|in))"
            ),
            sign(
                r"(no such file or directory|not found|cannot find|could ?n[o']t find|unable to find"
                r"|failed to find|can't find|did not find).{0,60}\bnvcc\b"
            ),
            sign(r"no cmake_cuda_compiler could be found"),
            sign(r"could not? find (cuda ?toolkit|cuda)\b(?! (drivers?|devices?|gpus?)\b)"),
            sign(
                r"failed to find cuda|cuda ?toolkit (root )?(was )?not found|no cuda toolkit"
                r"|cuda_toolkit_root_dir not found"
            ),
            sign(r"cmake_cuda_compiler.{0,40}(not set|notfound|not found)"),
            sign(r"(nvcc|cuda compiler).{0,40}(required|needed) (to build|for building|but)", 2),
            sign(r"tell cmake where to find the compiler by setting .{0,60}cudacxx", 2),
            sign(r"couldn't find cuda library root|no cuda toolset found|looking for a cuda compiler - notfound"),
            sign(r"^cuda not found$", 2),
            sign(r"name '?bare_metal_version'? is not defined"),
            sign(r"unknown cmake command ['\"]cuda_\w+", 2),
            sign(
                r"cuda_home is none|\bnvcc\b.{0,20}(does not exist|doesn't exist|could not be found"
                r"|cannot be found)|no nvcc\b|\bdoes(n't| not) contain nvcc\b|\bnvcc not (in|on) (your )?path"
            ),
            sign(r"failed to find nvcc|nvcc executable|cuda_nvcc_executable.{0,20}notfound", 2),
        ),
        unless=(sign(r"is not able to compile|libcuda\.so"),),
        yields_to=("KW-081",),
    ),
    Cause(
        code="KW-041",
        title="nvcc is of another CUDA release than was asked for",
        area=Area.TOOLCHAIN,
        why="The nvcc that is found first is not the one of torch's (or the requested) CUDA "
        "release: PATH and CUDA_HOME name "
        "different toolkits, or a cache remembers an old one.",
        fix="export CUDA_HOME=\"/usr/local/cuda-$(python -c 'import torch; print(torch.version.cuda)')\" && export "
        'PATH="$CUDA_HOME/bin:$PATH"',
        then="That is the toolkit of torch's release, if it is installed; a build that asks for another has its own "
        "variable. Delete the build directory, which remembers the old one.",
        signs=(
            sign(
                r"\bcuda (toolkit |version )?\d+\.\d+ (or (higher|newer|later|above)|is "
                r"required).{0,60}(found|but|got|detected|have)\b.{0,20}\d+\.\d+"
            ),
            sign(
                r"version of cuda that does not match|does not match the (cuda )?version (of \w+ "
                r")?(that was )?used to (compile|build)"
            ),
            sign(r"detected cuda version \(?\S+\)? mismatches the version that was used to compile"),
            sign(r"specified cuda version \S+.{0,40}found \S+|unsupported cuda toolkit version: ['`]?\d"),
            sign(r"cuda version mismatch|mismatch(ed)? cuda versions?|cuda toolkit version mismatch"),
            sign(
                r"(asked|requested|expected|wanted|requires?)\W.{0,40}\b(cuda|nvcc|toolkit"
                r"|release)\b.{0,40}\d+\.\d+.{0,60}(but|found|got|is)\b.{0,40}\d+\.\d+",
                2,
            ),
            sign(
                r"(nvcc|cuda ?toolkit|cuda)\b.{0,30}\d+\.\d+.{0,40}\b(does not match|doesn't match"
                r"|differs from|is not the)\b.{0,60}\d+\.\d+"
            ),
            sign(r"minor version mismatch .{0,40}cuda", 1),
            # A program ptxas that is found first, and older than what made the PTX.
            sign(r"ptxas (?!application )\S.{0,200}, line \d+; fatal ?: unsupported \.version"),
            sign(r"you are using ptxas \d+\.\w+, but|requires ptxas (version )?\d+\.\w+"),
            sign(r"findcuda says cuda version is .{0,80}headers say the version is"),
            sign(r"cuda_home\W{1,4}(?!\W*[a-z]:[\\/])\S*:\S", 2),
            sign(r"was compiled with .{0,20}cuda.{0,10}\d+\.\d+.{0,60}(but|while|and).{0,40}\d+\.\d+", 1),
            sign(
                r"only supported on cuda \d+(\.\d+)? (and|or) (above|newer|later|higher)|requires? "
                r"cuda (version )?(>=? ?)?\d+\.\d+ (and|or) (above|newer|later|higher)"
            ),
        ),
        unless=(sign(r"cudnn|gcc|gnu|driver|triton only"),),
    ),
    Cause(
        code="KW-042",
        title="the host GCC is newer than this nvcc takes",
        area=Area.TOOLCHAIN,
        why="Each nvcc names the newest GCC or clang whose headers it can read, and refuses newer ones.",
        fix="sudo apt-get install -y g++-<version> && export CUDAHOSTCXX=g++-<version> NVCC_CCBIN=g++-<version>",
        then="The newest version that the message names; or a CUDA release that takes the GCC that is here.",
        signs=(
            sign(r"(g\+\+|gcc|clang\S*|compiler) \([^)]{0,20}\) is (greater|newer|higher) than the maximum"),
            sign(
                r"host compiler (is |was )?(incompatible|not (supported|compatible))|no supported (gcc"
                r"|g\+\+|host)\S* .{0,20}(compiler )?(was )?found|incompatible host compiler"
            ),
            sign(r"(cuda_)?host[_ ]compiler.{0,60}(must|exactly|has to) match|match\w* .{0,20}cmake_cxx_compiler", 2),
            sign(r"unsupported (gnu|clang|intel)\b.{0,20} version|gcc \d\S* and up are not supported"),
            sign(
                r"(gcc|clang|gnu compiler) (versions?|releases?) (later|newer|greater) than "
                r".{0,10}(are|is) not supported"
            ),
            sign(r"use the nvcc flag '?-allow-unsupported-compiler", 2),
            sign(
                r"(your|current|installed|host) (compiler|gcc|g\+\+).{0,40}(may be abi-incompatible"
                r"|is not (supported|compatible)|too new|unsupported)"
            ),
            sign(
                r"(cuda|nvcc).{0,30}(requires?|needs?|supports? (only|up to)).{0,20}(gcc|g\+\+"
                r"|gnu).{0,10}(<=|up to|or (older|lower|earlier)|\d+)"
            ),
        ),
        yields_to=("KW-043", "KW-116"),
    ),
    Cause(
        code="KW-043",
        title="nvcc is given a compiler that it cannot read",
        area=Area.TOOLCHAIN,
        why="-allow-unsupported-compiler silences the check, not the reason for it, and some "
        "releases let a compiler pass that they "
        "cannot read: its headers use types and built-ins that nvcc's front end does not "
        "know (_Float32, __builtin_ia32_…, new C++ "
        "syntax).",
        fix="sudo apt-get install -y g++-<version> && export CUDAHOSTCXX=g++-<version> NVCC_CCBIN=g++-<version>",
        then="The newest version that this nvcc takes; and take -allow-unsupported-compiler away. A newer CUDA "
        "release takes newer compilers.",
        signs=(
            sign(r"unsupported (nvhpc|pgi|intel|clang) (compiler|version)"),
            sign(r"different exception specifi(er|cation)"),
            sign(r"identifier \"?'?_Float(16|32|32x|64|64x|128)\b.{0,20}undefined"),
            sign(r"(floatn(-common)?|stdlib-float|mathcalls)\.h\b.{0,80}\berror\b", 2),
            sign(r"identifier \"?'?__builtin_ia32_\w+.{0,4} is undefined"),
            sign(r"(avx512\w*|amx\w*|xmmintrin|cmpccxadd\w*|avx\w+intrin)\.h\(?\W?\d*\)?:.{0,20}error: identifier"),
            sign(r"parameter packs not expanded with"),
            sign(r"/usr/include/([\w+-]+/){0,3}[\w-]+\.h\(\d+\): error:", 2),
            sign(r"/usr/include/c\+\+/\d+\S*\(\d+\): error:", 2),
            sign(r"allow-unsupported-compiler", 1),
            sign(r"type_traits\W{0,3}\(?\d+\W.{0,6}error: (identifier|expected|type name)", 2),
            sign(
                r"(/include/c\+\+/|bits/)\S+\W\d+\)?: error: .{0,60}(is undefined|not a type name"
                r"|expected|is not a template)",
                2,
            ),
        ),
        yields_to=("KW-114",),
    ),
    Cause(
        code="KW-044",
        title="this nvcc does not know the GPU code it is asked for",
        area=Area.TOOLCHAIN,
        why="Each CUDA release knows the GPUs up to its time, and newer ones drop the oldest.",
        fix="sudo apt-get install -y cuda-toolkit && export CUDA_HOME=/usr/local/cuda PATH=/usr/local/cuda/bin:$PATH",
        then="The newest of NVIDIA's repository, for a GPU that is newer than nvcc. If the code is one that newer "
        "releases dropped, leave it out of TORCH_CUDA_ARCH_LIST and CMAKE_CUDA_ARCHITECTURES; nvcc --list-gpu-code "
        "has those that are left.",
        signs=(
            sign(r"ptx \.version \S+ does not support \.target"),
            sign(r"ptxas does not support (cc|compute capability) \d"),
            sign(
                r"instruction '?[\w.]+'? not supported on \.target|feature '?[\w.: ]+'? (requires|not "
                r"supported on) \.target"
            ),
            sign(r"cuda version \d+(\.\d+)? is too (low|old) for architecture", 2),
            sign(r"'?(sm_|compute_)\d+\w*'? is not a recogni[sz]ed (processor|gpu|target)", 2),
            sign(r"unsupported gpu architecture"),
            sign(r"value '(sm|compute|lto)_\w+' is not (defined|valid) for option"),
            sign(r"unknown cuda arch"),
            sign(r"compute cap(ability)? \d+ is larger than the max|no gpu codes parsed from nvcc"),
            sign(r"(sm_|compute_)\d+\w?\b.{0,40}(is not|isn't|not) (supported|known|recognized|a valid|recognised)"),
            sign(r"cuda_architectures.{0,60}(is not supported|invalid|not (a )?valid|unknown)"),
            sign(r"nvrtc.{0,40}invalid value for --?gpu-architecture|invalid value for --gpu-architecture"),
            sign(r"nvcc fatal.{0,12}: .{0,60}(arch|gencode|sm_|compute_)", 2),
            sign(r"ptxas (fatal|error).{0,30}(sm_|arch|value)", 2),
        ),
        unless=(sign(r"fewer than|deprecated"),),
        yields_to=("KW-090", "KW-124"),
    ),
    Cause(
        code="KW-045",
        title="a header or library of the toolkit is missing",
        area=Area.TOOLCHAIN,
        why="The toolkit is there in part: a package with the compiler only, a conda or pip "
        "split package, or a search path that "
        "does not name it.",
        fix="sudo apt-get install -y cuda-toolkit && export CUDA_HOME=/usr/local/cuda",
        then="Of NVIDIA's repository: cuda-toolkit-<release> for one release; cuDNN is cudnn, NCCL libnccl-dev. In "
        "conda: conda install -c conda-forge cuda-toolkit cudnn nccl.",
        signs=(
            sign(r"path to libdevice library not specified"),
            sign(
                r"\b(cudnn|cublas\w*|nccl|nvinfer|tensorrt|cusparse\w*|cufft|curand\w*|cuda_\w+"
                r"|cutlass)(\.h|\.cuh|\.hpp)?( headers?| librar\w+)? (could not be|cannot be|was not"
                r"|were not|not) (located|found)\b",
                2,
            ),
            sign(
                r"undefined (reference to|symbol:?) ?['\"`«\u2018„“]? ?(_*cuda(malloc|free|memcpy"
                r"|launch|get|set|register|stream|event|device)\w*|cu(blas|dnn|sparse|solver|fft"
                r"|rand)\w+|nvrtc\w+|cu(init|module|launch|device|ctx|mem)\w+)",
                2,
            ),
            sign(
                r"could not find (a package configuration file provided by ['\"]?)?(cudnn|nccl"
                r"|tensorrt|cublas\w*|cusparse\w*|cutlass|cudatoolkit|nvtx|cccl|nvtoolsext)\b"
            ),
            sign(
                r"can'?t find libdevice|couldn'?t (get|find|invoke|run).{0,30}\b(ptxas|nvlink"
                r"|fatbinary|nvcc)\b|libdevice.{0,40}(not found|missing)"
            ),
            sign(r"no supported gpu compute capabilities found"),
            sign(
                r"fatal error: ['\"]?(cuda|cublas|cusparse|cusolver|cufft|curand|cudnn|nvrtc|nvtx|nvml"
                r"|cub/|thrust/|cooperative_groups|nv/target|cuda_runtime|cudaProfiler"
                r"|nccl|nvinfer|nvonnxparser|cutensor|cusparselt|cudss|nvshmem|nvjpeg|nvcuvid|npp[a-z_]*\.h"
                r"|nvToolsExt)\S*['\"]?( file not found|: no such file)"
            ),
            sign(r"(cannot|could not|can't) open source file ['\"](cuda|cublas|cusparse|nv/|cub/|thrust/|cuda/std)\S*"),
            sign(r"cannot find -l(cudart|cublas|cublasLt|cusparse|cusolver|nvrtc|cudnn|nvToolsExt|cudadevrt)\b"),
            sign(r"failed to find nvtoolsext|interface of target \"torch::nvtoolsext\" contains"),
            sign(r"no rule to make target '/\S*/lib(cu\w+|nv\w+)\.(so|a)\b"),
            sign(r"\bCUDA::\w+\b.{0,80}(not found|targets? (was|were) not|could not be found)"),
            sign(r"caffe2: cuda cannot be found|cuda (headers|libraries|libs) (were |are )?not found", 2),
            sign(r"(cannot|could not|can't|unable to) find the cuda (libraries|headers|runtime)"),
            sign(r"fatal error c1083: .{0,60}['\"](cuda|cublas|cudnn|cusparse|curand|nvrtc|nvtoolsext|thrust/|cub/)"),
            sign(r"fatal error: ['\"]?third_party/gpus/cuda/|could not find any \S+ matching version"),
            sign(r"(cicc|ptxas|fatbinary|nvlink|cudafe\+\+|libdevice)\S*['\"]?:? .{0,20}(not found|no such file)"),
            sign(r"libdevice not found"),
            sign(r"uses cudnn but i cannot find the cudnn|cudnn v[\d.]+ or greater not found", 4),
            sign(r"^(cudnn|nccl|tensorrt)(_\w+)?( \(advanced\))?$", beside=(r"set to notfound",)),
            sign(r"unable to find .?include/cuda\.h\b"),
            sign(r"library nvvm not found|failed to open nvvm|libnvvm\S*: cannot open|libnvvm cannot be found"),
            sign(r"\b(ptxas|nvlink|cuobjdump|nvdisasm)\b['`]? was searched in .{0,120}could not be found"),
            sign(r"cannot find ['`]?(ptxas|nvlink|cuobjdump|nvdisasm)\b"),
            sign(
                r"could not find \w*(cudnn|nccl|cublas|cusparse|cufft|curand|nvrtc|tensorrt|nvinfer"
                r"|cudart)\w* using the following names"
            ),
        ),
        # What TensorFlow says at every start, and CMake of parts that nobody has to have.
        unless=(
            sign(r"tf-trt warning|\boptional\b"),
            sign(r"\.so[\w.]*: undefined symbol:? cu(?!da|blas|dnn|s|f|r)[a-z]+"),
        ),
        yields_to=("KW-051", "KW-125"),
    ),
    Cause(
        code="KW-047",
        title="a build tool is missing or too old",
        area=Area.TOOLCHAIN,
        why="Ninja, CMake, setuptools or wheel is not in the environment that builds, or is "
        "older than the project asks.",
        fix="python -m pip install --upgrade ninja cmake setuptools wheel packaging",
        then="In the environment that builds.",
        signs=(
            sign(r"ninja is required to load c\+\+ extensions"),
            sign(r"cmake \d+(\.\d+)* or higher is required"),
            sign(r"invalid command 'bdist_wheel'"),
            sign(r"(cmake|ninja)['\"]?:? (command not found|: not found|no such file)"),
            sign(r"(could not|unable to|cannot|can't) find .{0,20}(ninja|cmake)\b"),
            sign(r"no such file or directory: ['\"](cmake|ninja)['\"]"),
            sign(r"cmake was unable to find a build program"),
            sign(r"(setuptools|scikit-build-core|meson)\S* .{0,30}(>=|or (newer|higher)).{0,20}(required|but)", 2),
            sign(r"compatibility with cmake < 3\.5 has been removed"),
            sign(
                r"could ?n[o']t find ninja|(no module named|error: no such file).{0,5}['\"]?(ninja"
                r"|cmake|skbuild|scikit_build_core|pybind11|cython)\b",
                2,
            ),
            sign(r"cmake (version )?\S+ .{0,30}(is )?too old|requires? cmake|cmake is not installed"),
            sign(r"(unable|failed) to find libclang|libclang.{0,60}\b(not found|could not be found|invalid: \[\])"),
            sign(r"attempted to use ninja as the .{0,40}but we could not find ninja", 1),
        ),
        unless=(sign(r"could not find ninja.{0,4}falling back"),),
    ),
    Cause(
        code="KW-048",
        title="nvcc is found but cannot compile a test program",
        area=Area.TOOLCHAIN,
        why="CMake's check of the CUDA compiler failed; its reason stands some lines below: a "
        "host compiler it refuses, a toolkit that "
        "is not whole, an architecture it does not know.",
        fix="CUDACXX=/usr/local/cuda/bin/nvcc cmake --fresh -S . -B build",
        then="The reason is the first 'error' below the message: python -m kernelwright explain < "
        "build/CMakeFiles/CMakeConfigureLog.yaml names it from all that CMake tried.",
        signs=(
            sign(r"cuda compiler.{0,120}is not able to compile a simple test program"),
            sign(r"the cuda compiler identification is unknown"),
            sign(r"is not able to compile a simple test program", 2),
            sign(r"compiling the cuda compiler identification source file .{0,60}failed"),
        ),
        yields_to=tuple(f"KW-{number:03}" for number in (40, *range(42, 47), 90, 99, 114, 116)),
    ),
    Cause(
        code="KW-049",
        title="a compilation on the user's machine failed",
        area=Area.TOOLCHAIN,
        why="A just-in-time or extension build stopped; what stopped it stands in the compiler's own output above.",
        fix="MAX_JOBS=1 python -m pip install -v --no-build-isolation <package> > build.log 2>&1; python -m "
        "kernelwright explain < build.log",
        then="One compiler at a time leaves one error, whose cause is named; by hand it is the first line with "
        "'error:'.",
        signs=(
            sign(
                r"\d+ errors? detected in the compilation of ['\"]\S*(\.cache|site-packages"
                r"|dist-packages|torch_extensions|/pip-|cached_ops)"
            ),
            sign(r"\*\*\* cmake (build|configuration|configure) failed", 2),
            sign(r"error building extension ['\"]"),
            sign(r"ninja: build stopped: subcommand failed", 2),
            sign(
                r"calledprocesserror: command '?\[?['\"][^'\" ]*\b(ninja|nvcc|gcc|g\+\+|cc|c\+\+"
                r"|clang(\+\+)?|cmake|make|ptxas)\b",
                2,
            ),
            sign(
                r"\bcommand '?\[?['\"][^'\" ]*\b(ninja|nvcc|gcc|g\+\+|clang(\+\+)?|cmake"
                r"|make)['\"].{0,400}returned non-zero exit",
                2,
            ),
            sign(
                r"ninja build failed|build failed\. ninja output|failed to compile kernel|kernel compilation failed", 2
            ),
            sign(r"error: command '[^']*\b(nvcc|gcc|g\+\+|c\+\+|clang)(\.exe)?' failed with exit (code|status)", 2),
            sign(r"fatal error: \S+\.(h|hh|hpp|hxx|cuh|inc): no such file or directory", 2),
            sign(r"(nvrtc|jit) compilation (failed|error)|NVRTC_ERROR_COMPILATION|nvrtc: error"),
            sign(r"error compiling objects for extension"),
            sign(r"\bnvcc\b.*\bdid not execute successfully", 2),
            sign(r"error msb3721: the command", 2),
            sign(r"nvcc error while (executing|compiling)|failed to compile\. cc_cmd:", 2),
            sign(r"failed building wheel for", 1),
            sign(r"failed to build installable wheels|could not build wheels for|failed to build '?\w+", 2),
        ),
        # Any C++ project may stop in ninja.
        needs=(
            sign(r"nvcc|cuda|torch|triton|nvrtc|\.cu\b|setup\.py|-packages\b|\bpip3?\b|\bwheels?\b|\bjit\b|extension"),
        ),
        # It is the consequence of whatever else is found, but for what only warns.
        yields_to=tuple(
            f"KW-{number:03}"
            for number in (
                1,
                3,
                5,
                10,
                *range(20, 30),
                *range(40, 49),
                *range(50, 55),
                60,
                61,
                62,
                81,
                *range(90, 102),
                108,
                *range(113, 118),
                124,
                125,
                130,
                131,
            )
        ),
    ),
)
