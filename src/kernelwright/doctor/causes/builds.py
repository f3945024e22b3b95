# SPDX-License-Identifier: MIT
"""What a build asks of its tools and does not get: GPU codes, options, headers that go together, whole sources."""

from __future__ import annotations

from kernelwright.doctor._cause import Area, Cause, sign

CAUSES = (
    Cause(
        code="KW-090",
        title="the build has no usable list of GPU codes",
        area=Area.TOOLCHAIN,
        why="Nobody says for which GPUs to build, and the build cannot find out: no GPU is "
        "visible while it runs (docker build, a login "
        "node), or nvcc or CMake is too old to be asked.",
        fix='export TORCH_CUDA_ARCH_LIST="8.0;8.6;8.9;9.0+PTX" CUDAARCHS="80;86;89;90"',
        then="Or the compute capabilities of your GPUs (nvidia-smi --query-gpu=compute_cap --format=csv,noheader). "
        "Then delete the build directory, and build again.",
        signs=(
            sign(r"unknown compute capability|specify the (target )?(compute|cuda|gpu) (capabilit|arch)\w+"),
            sign(r"cmake_cuda_architectures must be|you must set cmake_cuda_architectures"),
            sign(
                r"\barch_bin (wasn't|was not|is not) set|unsupported arch\w* (from|in) (the "
                r")?cuda_arch|cuda_arch_(bin|ptx|list)\b.{0,40}(is empty|invalid)"
            ),
            sign(r"no supported (cuda |gpu |cuda gpu )?arch\w* (was|were) (detected|found)"),
            sign(r"\bcuda_architectures is empty for target"),
            sign(r"unsupported gpu architecture '(compute|sm)_(?!\d)"),
            sign(r"cuda_architectures is set to ['\"]?native\W{1,3}but no gpu was detected"),
            sign(r"cmake_cuda_architectures: .{0,80}do not all work with this compiler"),
            sign(r"failed to detect a default cuda architecture", 2),
            sign(r"arch_list\[-1\] \+= ['\"]\+ptx['\"]"),
            sign(r"(no|empty|missing) (cuda|gpu) arch(itecture)?s? .{0,30}(given|specified|set|found|list)"),
            sign(r"torch_cuda_arch_list is not set.{0,60}(all archs|every|build)", 1),
        ),
        # A compiler that was not recognised cannot be asked for its GPUs: that it has none is then a consequence.
        without=(sign(r"the cuda compiler identification is unknown"),),
    ),
    Cause(
        code="KW-091",
        title="headers of two CUDA releases are mixed",
        area=Area.TOOLCHAIN,
        why="CUB, Thrust and libcu++ (CCCL) come with the toolkit and with packages too; nvcc of "
        "one release cannot read the headers of "
        "another, and the search path decides which it gets.",
        fix='unset CPATH C_INCLUDE_PATH CPLUS_INCLUDE_PATH && export CUDA_HOME="$(dirname "$(dirname "$(readlink -f '
        '"$(command -v nvcc)")")")" && rm -rf ~/.cache/flashinfer ~/.cache/torch_extensions',
        then="Then delete the build directory, and build again.",
        signs=(
            sign(r"cuda compiler and cuda toolkit headers are incompatible"),
            sign(r"#error.{0,40}\b(thrust|cub|cccl|libcu\+\+)\b.{0,60}(version|require|mix|mismatch|incompatible)"),
            sign(
                r"error: .{0,60}\b(cub|thrust|cuda::std|cccl)::.{0,160}\b(has no member|is not a "
                r"member|is ambiguous|undefined)",
                2,
            ),
            sign(r"error: namespace ['\"](cub|thrust|cuda|cuda::std)['\"] has no member", 2),
            sign(
                r"\b(cub|thrust|cccl)\b.{0,40}(version|headers).{0,40}(mismatch|incompatible|conflict|does not match)",
                2,
            ),
        ),
        yields_to=("KW-131",),
    ),
    Cause(
        code="KW-131",
        title="the source is written for an older CUDA release",
        area=Area.TOOLCHAIN,
        why="Each major CUDA release takes names out (texture references, __shfl, the old calls of cuSPARSE, members of "
        "cudaDeviceProp), and newer Thrust no longer includes for everybody what only some use.",
        fix="sudo apt-get install -y cuda-toolkit-11-8 && export CUDA_HOME=/usr/local/cuda-11.8 "
        "PATH=/usr/local/cuda-11.8/bin:$PATH",
        then="Or a newer release of the project. The toolkit and torch have to be of one major CUDA release.",
        signs=(
            sign(
                r"namespace ['\"]thrust['\"] has no member ['\"](device|host|sort|unique|reduce|remove|copy|fill|sequence"
                r"|transform|for_each|gather|scatter|count|min_|max_|inclusive|exclusive)\w*"
            ),
            sign(
                r"['\"]?(texture|cuda(un)?bindtexture\w*|cudathreadsynchronize|__shfl(_up|_down|_xor)?)['\"]? is (undefined|not a template)"
            ),
            sign(
                r"['\"]?(texture|cuda(un)?bindtexture\w*|cudathreadsynchronize)['\"]? (was not declared|does not name a type)"
            ),
            sign(r"['\"]cusparse[sdcz](csr|bsr|gthr|doti)\w*['\"]? (is undefined|was not declared)"),
            sign(
                r"cudadeviceprop['\"]? has no member (named )?['\"](clockrate|memoryclockrate|devicoverlap|kernelexec\w+|computemode)"
            ),
        ),
    ),
    Cause(
        code="KW-092",
        title="setuptools no longer has what the package's setup uses",
        area=Area.TOOLCHAIN,
        why="pkg_resources, distutils and old commands were taken out of setuptools and Python; "
        "packages that build with them need an older "
        "setuptools than an isolated build fetches.",
        fix='python -m pip install "setuptools<81" wheel && python -m pip install --no-build-isolation <package>',
        signs=(
            sign(r"no module named ['\"]?(pkg_resources|distutils(\.\w+)*|setuptools\.command\.test)\b"),
            sign(r"cannot import name ['\"]?\w+['\"]? from ['\"]?(setuptools|pkg_resources|distutils)\b"),
            sign(r"module 'pkgutil' has no attribute 'impimporter'"),
            sign(r"setup command: use_2to3 is invalid|attributeerror: install_layout"),
            sign(r"module 'setuptools\S*' has no attribute"),
        ),
    ),
    Cause(
        code="KW-097",
        title="the sources lack their submodules",
        area=Area.TOOLCHAIN,
        why="CUTLASS and other third-party sources are git submodules; a clone without "
        "--recursive, or a source archive, has empty "
        "directories in their places.",
        fix="git submodule update --init --recursive",
        then="And build again; an archive of the sources has none of them: clone the repository.",
        signs=(
            sign(
                r"fatal error: ['\"]?(cutlass|cute|third_?party|extern(al)?|3rdparty|spdlog"
                r"|composable_kernel|ck_tile|json|fmt|glm)/\S+?['\"]?(: no such file| file not found)"
            ),
            sign(r"cannot open source file ['\"](cutlass|cute|third_?party)/"),
            sign(r"(third_?party|submodules?|3rdparty|extern)/\S* .{0,40}does not contain a cmakelists"),
            sign(
                r"(submodules?|third_?party)\b.{0,60}(missing|not (initialized|initialised|found"
                r"|checked out)|is empty)",
                2,
            ),
            sign(r"did you (forget to )?(run )?.{0,10}git submodule (update|init)|git submodule update --init", 2),
        ),
        unless=(sign(r"third_party/gpus/"),),  # Bazel's directory of links to the toolkit
    ),
    Cause(
        code="KW-098",
        title="the C++ compiler is older than torch's headers need",
        area=Area.TOOLCHAIN,
        why="torch's headers are C++17 and newer; an old GCC, or -std=c++14 in the package's "
        "setup, does not read them.",
        fix="conda install -y -c conda-forge cxx-compiler",
        then="It sets CC and CXX. Without conda: a newer g++ of the distribution, named by CC and CXX; or a newer "
        "release of the package, if its setup asks for C++14.",
        signs=(
            sign(r"requires? at least c\+\+ ?\d\d|c\+\+ versions? less than c\+\+ ?\d\d"),
            sign(r"-std=c\+\+\w+ flag is not supported with the configured host compiler"),
            sign(r"no known features for (cxx|c|cuda) compiler"),
            sign(r"version of (g\+\+|gcc|c\+\+) .{0,20}is less than the minimum required version"),
            sign(r"c\+\+\d\d (or later )?(compatible )?compiler is required"),
            sign(r"you need (a )?c\+\+\d\d (to compile|or later|compiler)"),
            sign(r"unrecognized command[- ]line option ['\"]?-std="),
            sign(
                r"(gcc|g\+\+|compiler) .{0,30}(is )?too old|too old version of gcc|requires? (gcc"
                r"|g\+\+) ?(>=|version)? ?\d+.{0,20}(or (newer|later|higher)|but|found)",
                2,
            ),
            sign(r"torch requires c\+\+\d\d|requires? .{0,20}c\+\+(17|20)\b.{0,40}(support|compiler|standard)", 2),
        ),
        unless=(sign(r"\b(driver|gpu|capability)\b"),),
    ),
    Cause(
        code="KW-099",
        title="nvcc does not know an option it is given",
        area=Area.TOOLCHAIN,
        why="The package, or the newer CMake and torch around it, uses an option of a newer CUDA "
        "release; or a host compiler's option went to "
        "nvcc without -Xcompiler.",
        fix="sudo apt-get install -y cuda-toolkit && export CUDA_HOME=/usr/local/cuda PATH=/usr/local/cuda/bin:$PATH",
        then="The newest of NVIDIA's repository; an option of the host compiler has to follow -Xcompiler.",
        signs=(
            sign(r"nvcc fatal.{0,12}: ((unknown|unrecognized) option|'\S+': expected a number)"),
            sign(r"nvcc fatal.{0,12}: (redefinition of argument|option '-\S+' .{0,40}(invalid|requires|not))", 2),
            sign(r"value 'c\+\+\d\d' is not (defined|valid) for option 'std'"),
            sign(r"nvcc fatal.{0,12}: (a single input file is required|don't know what to do with)"),
            sign(r"nvcc fatal.{0,12}: (no input files|stat failed|could not open)", 2),
            sign(r"requires the language dialect ['\"]cuda\d\d"),
        ),
    ),
    Cause(
        code="KW-124",
        title="the GPU code is asked for without its a",
        area=Area.TOOLCHAIN,
        why="Instructions such as wgmma, setmaxnreg and tcgen05 exist in the code of one GPU "
        "alone, whose name ends in a (or f, of its "
        "family); the plain name promises later GPUs and does not have them.",
        fix='export TORCH_CUDA_ARCH_LIST="9.0a" CUDAARCHS=90a',
        then="Then delete the build directory, and build again. Blackwell: 10.0a or 12.0a.",
        signs=(
            sign(
                r"(instruction|feature|modifier) '?\.?(wgmma|setmaxnreg|tcgen05|tensormap\.replace"
                r"|mma\.block_scale)[^'\n]{0,60}'? .{0,40}(not supported|cannot be compiled|requires)"
            ),
            sign(
                r"(wgmma|setmaxnreg|tcgen05|tensormap\.replace).{0,80}(not supported on|requires) "
                r".{0,20}(\.target|sm_)"
            ),
            sign(r"please compile with .{0,30}sm_?\d+a|requires? (arch |sm_|compute_)\d+a\b", 2),
            sign(
                r"arch conditional (mma|wgmma) instruction used without targeting|without targeting "
                r"(sm|appropriate compute capability)"
            ),
        ),
    ),
    Cause(
        code="KW-125",
        title="device code was not linked",
        area=Area.TOOLCHAIN,
        why="A kernel that calls a __device__ function of another file needs relocatable code "
        "(-rdc=true, -dc) and a step that links it "
        "(nvcc -dlink); one of the two was left out.",
        fix="cmake --fresh -B build -DCMAKE_CUDA_SEPARABLE_COMPILATION=ON && cmake --build build -j",
        then="Without CMake: nvcc -rdc=true for each file, and nvcc, not g++, for the last step. "
        "In setup.py: CUDAExtension(…, dlink=True).",
        signs=(
            sign(r"__cudaregisterlinkedbinary\w*"),
            sign(r"unresolved extern (function|variable) '"),
            sign(r"nvlink error.{0,10}: undefined reference"),
            sign(r"external calls are not supported \(found non-inlined call"),
        ),
    ),
)
