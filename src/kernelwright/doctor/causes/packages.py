# SPDX-License-Identifier: MIT
"""Packages of Python and conda: choices that exclude each other, and packages that lack their GPU part."""

from __future__ import annotations

from kernelwright.doctor._cause import Area, Cause, sign

CAUSES = (
    Cause(
        code="KW-029",
        title="the conda packages that are asked for exclude each other",
        area=Area.TORCH,
        why="Builds of torch, CUDA and Python are tied to each other; a pinned old release, a "
        "missing channel or an environment that already "
        "holds others leaves no set that fits.",
        fix="conda create -y -n fresh -c conda-forge python pytorch-gpu",
        then="If that works, the environment or a pin is in the way: loosen the pins that the message names one by "
        "one.",
        signs=(
            sign(r"libmambaunsatisfiableerror|unsatisfiableerror:|packagesnotfounderror|resolvepackagenotfound"),
            sign(r"but none of the providers can be installed"),
            sign(r"nothing provides (?!__)\S+ .{0,40}needed by"),
            sign(r"which conflicts with any installable versions", 2),
            sign(r"^package \S+ conflicts for:"),
            sign(r"could not solve for environment specs|found conflicts! looking for incompatible packages", 2),
            sign(
                r"cannot solve the request because|failed to solve (the )?(conda|pypi) requirements"
                r"|failed to solve requirements of environment"
            ),
        ),
        unless=(sign(r"needed by \S+ from \S+$"),),  # dnf's sentence
        yields_to=("KW-027", "KW-052"),
    ),
    Cause(
        code="KW-093",
        title="the compiled part of a package is missing",
        area=Area.TORCH,
        why="The package was installed without its extension: its build was skipped (no nvcc, no "
        "GPU, a build variable), a pure wheel was "
        "taken, or Python imports the source directory instead of the installed package.",
        fix="cd / && python -m pip install --force-reinstall --no-deps --no-cache-dir -v <package>",
        then="In / no source directory hides the package; what its build says there, names why the compiled part is "
        "left out.",
        signs=(
            sign(
                r"name '(selective_scan_cuda\w*|causal_conv1d_cuda|\w+_cuda_core)' is not defined|"
                r"no module named '?(diff_gaussian_rasterization|simple_knn|tinycudann|pointnet2_ops|nvdiffrast|"
                r"minkowskiengine\w*|torchsparse)\b"
            ),
            sign(r"\b(kernels?|extensions?|ops) could not be (loaded|imported|found)\b", 2),
            sign(
                r"requires? (the )?(cuda|c\+\+|cpp) ext(ension)?s\b|please (re-?)?(build|install) \w+ "
                r"with .{0,20}(cuda_ext|cpp_ext)",
                2,
            ),
            sign(r"cuda (extension|kernel|op)s? (is |are |was |were )?not (installed|built|compiled|available|found)"),
            sign(
                r"the package flash_attn seems to be not installed|(error|please"
                r"|require).{0,60}\b(flash.?attn|flash ?attention\S*|xformers|apex|deepspeed_?\w*"
                r"|exllama\w*) (is|are) not (installed|available|built)",
                2,
            ),
            sign(
                r"(flash.?attn|flash ?attention\S*|xformers|apex|exllama\w*) (is|are) not (installed|available|built)",
                1,
            ),
            sign(
                r"no module named ['\"]?(?!torch\.utils\.)\w+(\.\w+)*\._?(c|ext|cuda|C_\w+|_ext\w*"
                r"|cpp_ext\w*)(?![\w.]\w)"
            ),
            sign(r"no module named ['\"]?\w+(_cuda|_cpp|_ext|_kernels?|_cu12|_cuda_lib|_backend)(?![\w.]\w)"),
            sign(r"no module named ['\"]?(fused_\w+|amp_c)\b"),
            sign(r"nameerror: name ['\"]_(c|ext|cuda|backend)['\"] is not defined"),
            sign(r"cannot import name ['\"](_(c|ext|cuda|backend)\w*|\w+_(ext|cuda))['\"] from"),
            sign(r"failed to load custom c\+\+ ops|custom c\+\+ ops .{0,40}(mode only|not (available|found|loaded))"),
            sign(
                r"(cuda|c\+\+) extensions? .{0,30}(is|are|was|were) (not|missing|never) ?(built"
                r"|installed|found|available|compiled)?",
                2,
            ),
            sign(r"'nonetype' object has no attribute '\w+_(fwd|bwd|forward|backward|cuda|varlen\w*)'"),
        ),
        yields_to=("KW-020", "KW-022", "KW-050", "KW-052", "KW-094"),
    ),
    Cause(
        code="KW-094",
        title="an extension was built for another Python",
        area=Area.TORCH,
        why="A compiled module fits one minor version of Python; the directory is shared by two, "
        "or the file was copied.",
        fix="python -m pip install --force-reinstall --no-cache-dir <package>",
        then="With the python that runs the program.",
        signs=(
            sign(r"python version mismatch|module was compiled for python"),
            sign(r"undefined symbol:? ?_?Py[A-Z]\w+"),
            sign(r"dynamic module does not define (module export|init) function"),
            sign(r"module use of python\d+\.dll conflicts", 2),
        ),
    ),
    Cause(
        code="KW-096",
        title="packages require different versions of one package",
        area=Area.TORCH,
        why="torchvision, torchaudio, xformers, Triton, vLLM and others each fit one torch; "
        "installed one after the other they replace each "
        "other's torch.",
        fix="python -m pip install --upgrade torch torchvision torchaudio",
        then="With the others that the message names in the same command, from one index; python -m pip check then "
        "has to be silent.",
        signs=(
            sign(
                r"cannot import name '\w+' from 'cumm\b|no module named '?cumm\b|could not convert default argument '\w+: tv::tensor"
            ),
            sign(r"\bversion solving failed\b|incompatible with \w+ \(\S+\), version solving", 2),
            sign(
                r"\b(torchvision|torchaudio|xformers|triton|vllm|fastai|torchtext|torchdata"
                r"|bitsandbytes|flash-attn|auto-gptq|lightning\S*|\w+) \S+ (requires|depends on) "
                r"(torch|triton|numpy|nvidia-\S+?)[=<>!~ ]=?\S* ?.{0,90}, but you have",
                2,
            ),
            sign(r"\b[\w-]+ \d\S* requires (torch|triton|nvidia-)\S*[^,]{0,120}, which is not installed", 2),
            sign(r"resolutionimpossible|because these package versions have conflicting dependencies"),
            sign(r"we can conclude that .{0,200}(are incompatible|unsatisfiable|cannot be used)"),
            sign(r"the conflict is caused by"),
            sign(r"no solution found when resolving", 2),
            sign(
                r"mismatched pjrt plugin pjrt api version|jax_?cuda\w*[_-]plugin version \S+ is .{0,40}not compatible"
            ),
            sign(r"could not run '(torchvision|torchaudio|xformers)::\w+' with arguments from the 'cuda' backend"),
        ),
        unless=(sign(r"has no wheels with a matching|requires? python|python version"),),
        yields_to=("KW-024", "KW-033"),
    ),
    Cause(
        code="KW-100",
        title="a package was built without CUDA",
        area=Area.TORCH,
        why="The package's usual name on the index is its CPU build, or it was built where no "
        "CUDA toolkit was found; the GPU is left unused.",
        fix="python -m pip uninstall -y <package> && python -m pip install <its CUDA build>",
        then="Such as jax[cuda12], onnxruntime-gpu, cupy-cuda12x, faiss-gpu-cu12; llama-cpp-python is built: "
        "CMAKE_ARGS=-DGGML_CUDA=on and --no-binary llama-cpp-python.",
        signs=(
            sign(r"don't compiled with cuda", beside=(r"tensorview|spconv",)),
            sign(
                r"(not compiled|compiled without|not built|built without|was not enabled in this "
                r"build).{0,30}\b(cuda|gpu|cudnn|cublas)\b"
            ),
            sign(r"cuda-enabled jaxlib is not installed|no gpu/tpu found, falling back to cpu"),
            sign(
                r"\b(cuda|gpu|cudnn)\b.{0,40}\b(was|is) not (enabled|integrated|included) in this "
                r"build|recompile with .{0,40}(use_|with_)(cuda|gpu)"
            ),
            sign(r"\b(was|is|has)(n't| not)( been)? (buil[dt]|compiled) with (cuda|gpu|cudnn)\b"),
            sign(r"specified provider 'cudaexecutionprovider' is not in available provider"),
            sign(r"\b(will not|won't|not going to) (use|be (built|compiled) with|build with) (cuda|gpu|cudnn)\b", 2),
            sign(r"\bno cuda runtime is found, using cuda_home", 1),
            sign(r"^\W*blas = 0\b|[|] blas = 0 [|]", 2, beside=(r"llama|n_gpu_layers|ggml",)),
            sign(
                r"(gpu|cuda) support (is )?(not (enabled|available|compiled)|disabled).{0,40}(build"
                r"|compile|version|install)?",
                2,
            ),
        ),
        unless=(sign(r"torch|bitsandbytes"),),
        yields_to=("KW-020", "KW-021", "KW-028"),
    ),
    Cause(
        code="KW-113",
        title="the source is written for another release of torch",
        area=Area.TORCH,
        why="torch takes names out of its headers and modules from one release to the next: what "
        "uses them compiles and imports with "
        "older releases only.",
        fix="python -m pip install --upgrade <package>",
        then="Its newest release names the newest torch, as a rule; otherwise the torch that the package names, in an "
        "environment of its own.",
        signs=(
            sign(r"\bTHC/THC\w*\.(cuh|h)['\"]?: no such file"),
            sign(r"fatal error: ['\"]?(thc?|ATen/cuda/CUDAApplyUtils|ATen/cuda/detail/\w+)(/\w+)*\.(h|cuh|hpp)\b"),
            sign(r"fatal error: ['\"]?(ATen|c10|caffe2)/\S+\.(h|cuh|hpp)['\"]?: no such file", 2),
            sign(r"\b(at::)?DeprecatedTypeProperties\b.{0,80}\b(to|exists|deprecated)\b", 2),
            sign(
                r"['\"]?\b(AT_CHECK|AT_ASSERT|THC\w+|THCudaCheck|THArg\w+)\b['\"]?.{0,40}(undefined"
                r"|not declared|was not declared)"
            ),
            sign(
                r"torch\.utils\.ffi is deprecated|no module named ['\"]?torch\._six|module 'torch' "
                r"has no attribute '_six'"
            ),
            sign(r"no module named ['\"]?(torch|torchvision|torchaudio|torchtext)\.\w+(\.\w+)*['\"]?", 2),
            sign(
                r"cannot import name ['\"]?\w+['\"]? from ['\"]?(torch|torchvision|torchaudio|torchtext)(\.\w+)*['\"]?",
                2,
            ),
        ),
        unless=(sign(r"torch\._C\b|torch\.utils\.cpp_extension\b|partially initialized"),),
    ),
    Cause(
        code="KW-101",
        title="Triton is missing or does not fit torch",
        area=Area.TORCH,
        why="torch.compile and many kernels are written in Triton, which has no wheel for every "
        "platform and fits one torch release.",
        fix="python -m pip install --upgrade torch",
        then="It requires the matching Triton on Linux. On a Jetson NVIDIA's triton wheel of the same JetPack; on "
        "Windows triton-windows.",
        signs=(
            sign(r"triton\b.{0,40}only supports? cuda"),
            sign(
                r"cannot find a working triton installation|triton(_key| is) not (available|installed"
                r"|found)|tritonmissing"
            ),
            sign(r"no module named ['\"]?triton(\.\w+)*['\"]?"),
            sign(r"cannot import name ['\"]\w+['\"] from ['\"]triton(\.\w+)*['\"]"),
            sign(r"module 'triton\S*' has no attribute"),
        ),
    ),
    Cause(
        code="KW-129",
        title="torch is installed twice in one directory",
        area=Area.TORCH,
        why="An interrupted upgrade, or two installers, left the metadata of two releases over "
        "one set of files: programs read the version of "
        "one and import the other.",
        fix="python -m pip uninstall -y torch; python -m pip uninstall -y torch; python -m pip "
        "install --no-cache-dir torch",
        then="Until the second says that it is not installed; directories that begin with ~ in "
        "site-packages can go. On a Jetson NVIDIA's wheel "
        "in place of the last.",
        signs=(
            sign(r"ignoring invalid distribution [-~]?o?rch\b", 2),
            sign(r"found multiple \.dist-info directories .{0,20}torch|multiple \.dist-info directories"),
        ),
    ),
)
