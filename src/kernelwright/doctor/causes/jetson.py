# SPDX-License-Identifier: MIT
"""Jetson boards and aarch64 servers: two userlands under one machine name."""

from __future__ import annotations

from kernelwright.doctor._cause import Area, Cause, number, sign

# A Jetson gives itself away by these words.
_ON_A_JETSON = sign(
    r"tegra|jetson|\bl4t\b|jetpack|\borin\b|xavier|\bR3\d\b.{0,20}release|/proc/device-tree|nvgpu|\bthor\b"
)
_ON_AARCH64 = sign(r"aarch64|arm64|\btegra|jetson|\bl4t\b|jetpack|\borin\b|xavier|grace|gh200|sbsa")

CAUSES = (
    Cause(
        code="KW-030",
        title="a build for aarch64 servers runs on a Jetson's own driver",
        area=Area.JETSON,
        why="Servers (SBSA) and Jetson under L4T bear the same platform tag. A program linked to the servers' CUDA runtime installs and "
        "imports on a Jetson, and fails at its first kernel with 'named symbol not found'.",
        fix="python3 -m pip install --force-reinstall --no-deps --index-url https://pypi.jetson-ai-lab.io/<jp6 or "
        "newer>/<CUDA release> <package>",
        then="That index has builds for Jetson (L4T). Or a package that has no CUDA runtime in it and holds the "
        "board's own GPU code.",
        signs=(
            number(500),
            sign(r"named symbol not found"),
            sign(r"(cudaErrorSymbolNotFound|CUDA_ERROR_NOT_FOUND)\b", 2),
            sign(r"\bsbsa\b.{0,80}(tegra|jetson|l4t|orin)|(tegra|jetson|l4t|orin).{0,80}\bsbsa\b", 2),
        ),
        needs=(_ON_AARCH64,),
        yields_to=("KW-032",),
    ),
    Cause(
        code="KW-031",
        title="a library of another CUDA build is loaded first",
        area=Area.JETSON,
        why="'named symbol not found' says that the runtime asked the driver for a kernel that the loaded code does not have: two "
        "versions of a library are in the process, or the code is for another GPU.",
        fix="unset LD_LIBRARY_PATH",
        then="If it stays, python -m kernelwright xray <the package's directory> shows what it holds and for which "
        "GPUs; uninstall the other copy.",
        signs=(
            number(500),
            sign(r"named symbol not found", 2),
            sign(r"(cudaErrorSymbolNotFound|CUDA_ERROR_NOT_FOUND)\b", 2),
        ),
        yields_to=("KW-030", "KW-032", "KW-044"),
    ),
    Cause(
        code="KW-032",
        title="a JetPack 7 board needs builds for servers",
        area=Area.JETSON,
        why="From JetPack 7 on (Thor; Orin from 7.2) the board's driver is the servers' (SBSA). Libraries made for L4T r36 and "
        "earlier do not find what they expect.",
        fix="python3 -m pip install --force-reinstall --no-cache-dir torch",
        then="From PyPI, or the index of torch for the JetPack's CUDA release: builds for aarch64 servers (SBSA). "
        "Leave the index for JetPack 6, and reinstall what was taken from it.",
        signs=(
            sign(r"(jetpack|jp) ?7(\.\d)?\b", 1),
            sign(r"\bR3[89]\b.{0,20}(release|revision)", 1),
            sign(
                r"(libnvrm_gpu|libnvrm_mem|libnvos|libnvcucompat|libnvrm\w*)\.so.{0,40}(cannot open|not found|no such)",
                2,
            ),
            sign(r"named symbol not found", 1),
        ),
        needs=(sign(r"(jetpack|jp) ?7|\bR3[89]\b.{0,20}(release|revision)|l4t.{0,10}r?3[89]"),),
    ),
    Cause(
        code="KW-033",
        title="pip put a torch without this board's GPU over NVIDIA's",
        area=Area.JETSON,
        why="torch on PyPI for aarch64 is a CPU build or a server build. Any package that requires torch lets pip replace the one "
        "NVIDIA made for the board.",
        fix="python3 -m pip install --force-reinstall --no-deps --no-index --find-links "
        "https://developer.download.nvidia.com/compute/redist/jp/v61/pytorch/ torch",
        then="v61 is for JetPack 6.1 and 6.2; other releases have theirs. Keep it with a constraint file (KW-037), "
        "and install what brought the other by pip install --no-deps.",
        signs=(
            sign(r"(uninstalling|successfully uninstalled|attempting uninstall:?) torch\b", 2),
            sign(r"torch-\d\S*(manylinux|linux)\S*aarch64\.whl", 1),
            sign(r"\btorch\S*\+cpu\b|torch not compiled with cuda", 2),
            sign(
                r"cuda\.is_available\(\)\W{0,20}(returned|returns|is|gives|gave|prints?|says)?\W{0,20}\bfalse\b|\bcuda available: false\b",
                2,
            ),
            sign(r"torch-\d+\.\d+\.\d+a0\+\w+|nv\d\d\.\d\d", 1),
        ),
        needs=(_ON_A_JETSON,),
    ),
    Cause(
        code="KW-034",
        title="static TLS is exhausted",
        area=Area.JETSON,
        why="On aarch64 the space for thread-local data of libraries that are loaded late is small; libgomp and others need it.",
        fix='export LD_PRELOAD="/usr/lib/$(uname -m)-linux-gnu/libgomp.so.1${LD_PRELOAD:+:$LD_PRELOAD}"',
        then="Where the message names another library, that one; or import the package that complains first.",
        signs=(sign(r"cannot allocate memory in static tls block"),),
    ),
    Cause(
        code="KW-035",
        title="a library of JetPack is missing",
        area=Area.JETSON,
        why="NVIDIA's torch for Jetson uses cuDNN, cuSPARSELt and others of the JetPack; a container or a slim install lacks them, or "
        "has another version.",
        fix="sudo apt-get update && sudo apt-get install -y nvidia-jetpack",
        then="In a container: an image of the board's own L4T release, started with --runtime nvidia. libcusparseLt "
        "is a package of its own at NVIDIA.",
        signs=(
            sign(r"lib(cudnn|cusparselt|nvinfer|cudss|cublas|cudla|nvdla\w*)\S*\.so\S*: file too short"),
            sign(
                r"lib(cudnn|cusparselt|nvinfer|cudss|nvtoolsext|cupti|nvdla\w*)\S*\.so\S*: cannot open shared object", 2
            ),
        ),
        # Empty files are those that a container's runtime would have laid the host's libraries over.
        needs=(_ON_A_JETSON, sign(r"/aarch64-\S+: file too short")),
    ),
    Cause(
        code="KW-037",
        title="nothing keeps pip from replacing NVIDIA's torch",
        area=Area.JETSON,
        why="torch on PyPI for aarch64 has another build under the same name, and a higher version; the next package that requires "
        "torch brings it.",
        fix="python3 -c 'import torch; print(f\"torch=={torch.__version__}\")' > ~/jetson.txt && python3 -m pip "
        "config set global.constraint ~/jetson.txt",
        signs=(
            sign(r"would (install|uninstall):? .{0,200}\btorch-\d", 2),
            sign(r"attempting uninstall: torch$|found existing installation: torch \S*(nv|a0)\S*", 2),
        ),
        needs=(_ON_A_JETSON,),
        yields_to=("KW-033",),
    ),
    Cause(
        code="KW-038",
        title="the board runs in a power mode below its best",
        area=Area.JETSON,
        why="The mode caps clocks, cores and the GPU: kernels run slower than elsewhere on the same board, and a board whose supply is too "
        "weak for the first load of all units at once restarts.",
        fix="sudo nvpmodel -m 0 && sudo jetson_clocks",
        then="0 is MAXN on most boards; /etc/nvpmodel.conf has the numbers. The supply has to be made for it.",
        signs=(sign(r"system throttled due to over-?current|\boc\d? alarm|nvpmodel: .{0,40}(fail|error)", 2),),
        needs=(_ON_A_JETSON,),
    ),
    Cause(
        code="KW-036",
        title="a file for another processor",
        area=Area.JETSON,
        why="The file is for x86-64 and this machine is aarch64, or the other way round; or it uses instructions this processor lacks.",
        fix="python -m pip install --force-reinstall --no-cache-dir <package>",
        then="On this machine, so that pip picks its wheel; file <library> says which processor one is for. "
        "Instructions that this processor lacks: build it here (--no-binary <package>).",
        signs=(
            sign(r"exec format error"),
            sign(r"cannot execute binary file"),
            sign(r"wrong elf class|elf file'?s? (machine|phentsize)|incompatible (elf )?(machine|architecture)"),
            sign(r"requested image'?s platform .{0,60}does not match the detected host platform"),
            sign(r"\billegal instruction\b.{0,30}(core dumped|\(|$)", 2),
            sign(r"file in wrong format|skipping incompatible \S+ when searching for", 2),
        ),
        unless=(sign(r"illegal memory|cuda.{0,20}illegal instruction|illegal instruction was encountered"),),
    ),
)
