# SPDX-License-Identifier: MIT
"""torch and the packages around it: of another build, without CUDA, or not there when something is built."""

from __future__ import annotations

from kernelwright.doctor._cause import Area, Cause, sign

# C++ names of torch in their mangled form: namespaces c10, at, torch, caffe2. Markdown turns underscores into asterisks.
_TORCH_SYMBOL = r"[_*]?ZN?K?[A-Z]{0,3}\d*(3c10|2at|5torch|6caffe2)"

CAUSES = (
    Cause(
        code="KW-020",
        title="an extension was built for another torch",
        area=Area.TORCH,
        why="Extensions that link torch's C++ interface fit one torch release (and one of its two C++ ABIs) only; after an "
        "upgrade of torch, or with the wrong wheel, its symbols are missing.",
        fix="python -m pip install --force-reinstall --no-deps --no-build-isolation --no-cache-dir --no-binary "
        "<package> <package>",
        then="That builds it for the torch that is here. Without a compiler: the package's wheel for exactly this "
        "torch, CUDA, Python and C++ ABI.",
        signs=(
            sign(r"couldn't load custom c\+\+ ops"),
            sign(r"requires? (py)?torch ?(==|>=|<=|~=|<|>|version) ?\S+ .{0,6}(but )?(found|got|is)\b", 2),
            sign(r"undefined symbol:? ?" + _TORCH_SYMBOL),
            sign(r"symbol not found.{0,40}" + _TORCH_SYMBOL),
            sign(r"undefined symbol:? .{0,80}(c10|torch|aten|caffe2)\b", 2),
            sign(
                r"undefined symbol:? ?(aoti_torch_|torch_|THC)\w+|undefined symbol:? ?_ZN\w*(2at6Tensor|5torch3|3c104|3c105)"
            ),
            sign(r"(compiled|built) (against|with|for) (a different|another|an incompatible) (version of )?(py)?torch"),
            sign(r"_C\.\S*so:? undefined symbol", 2),
            sign(r"lib(torch|c10)(_\w+)?\.so: cannot open shared object file"),
            sign(r"(py)?torch (version )?\S+ (is )?(incompatible|not compatible) with (the )?(installed )?\w+", 1),
            sign(r"couldn'?t load custom c\+\+ ops|could not load (this )?library: .{0,120}\.so", 1),
            sign(r"operator \w+::\w+ does not exist|(no such|could not find the) operator \w+::\w+"),
            sign(r"(pytorch|torch)\w* and \w+ (were|was|are) compiled with different"),
            sign(r"was built for:? ?(with )?(py)?torch \S+.{0,60}\(?you have", 2),
            sign(
                r"can'?t load c(\+\+|pp)/cuda extensions|requires? (py)?torch \S+ but .{0,30}(found|have|installed)", 2
            ),
        ),
        # CUDA's own libraries say their names without C++'s decoration: see KW-051.
        yields_to=("KW-089",),
        # And torch's own libraries are no extensions of it.
        unless=(
            sign(r"undefined symbol:? ?_*(nvrtc|nccl|cublas|cusparse|cusolver|cudnn|cufft|nvjitlink|cuda|ijit_)"),
            sign(r"/torch/lib/lib\w+\.so[.\d]*: undefined symbol"),
            sign(r"undefined symbol:? ?_ZN?K?St\d(?!.{0,200}(c10|2at|torch))"),  # the C++ library's own
        ),
    ),
    Cause(
        code="KW-121",
        title="an extension was imported before torch",
        area=Area.TORCH,
        why="torch's bindings for Python (libtorch_python.so, whose names begin with THP) come into the process with import "
        "torch; most extensions are not linked to them, and rely on that.",
        fix="python -c 'import runpy, sys, torch; del sys.argv[0]; runpy.run_path(sys.argv[0], run_name=\"__main__\")' "
        "<program.py>",
        then="In your own program: import torch before the extension. If torch is imported first already, the extension was "
        "built for another torch (KW-020).",
        signs=(sign(r"undefined symbol:? ?_*THP[A-Z]\w+"),),
    ),
    Cause(
        code="KW-021",
        title="torch was built without CUDA",
        area=Area.TORCH,
        why="The CPU build of torch is installed: an index, a lock file or a dependency chose it, and no driver changes that.",
        fix="python -m pip uninstall -y torch && python -m pip install --no-cache-dir torch",
        then="On Linux PyPI's torch has CUDA; torch's own index has a build for each CUDA release. On a Jetson "
        "NVIDIA's wheel for its JetPack; conda: conda install pytorch-gpu; with uv or poetry take the index of CPU "
        "builds out of pyproject.toml.",
        signs=(
            sign(r"torch is not able to use gpu"),
            sign(r"torch not compiled with cuda enabled"),
            sign(r"\btorch(-|[ =:]+)\d+\.\d+(\.\d+)?\S*\+cpu\b|^['\"]?\d+\.\d+\.\d+\+cpu['\"]?$", 2),
            sign(r"(torch|pytorch)\b.{0,60}\b(cpu[- ]only|without (cuda|gpu) support|cpu (build|version|wheel))"),
            sign(r"\btorch\b.{0,60}(not (compiled|built|linked) with|compiled without|built without) (cuda|gpu)", 2),
            sign(r"torch\.version\.cuda\W{1,6}none\b"),
            # torch's own report, of a machine with a GPU that it does not use.
            sign(
                r"cuda used to build pytorch:? (none|could not collect|n/a)",
                beside=(
                    r"is cuda available:? (no|false)",
                    r"gpu 0: |gpu models and configuration:? .{0,20}(nvidia|geforce|tesla)",
                ),
                apart=(r"rocm used to build pytorch:? \d",),
            ),
            sign(r"\bpytorch[ =]+\d[\d.]+[ =]+py3[\d.]*_cpu_\d"),
            sign(r"torch_extensions/py\d+_cpu\b|cuda is missing or is incompatible with installed torch", 2),
            sign(r"torch\.cuda\.is_available\(\)\W{1,30}false\b", 1),
            sign(r"attempting to deserialize object on a cuda device but torch\.cuda\.is_available\(\) is false", 2),
        ),
        unless=(
            sign(
                r"bitsandbytes|llama|ggml|onnx|tensorflow|opencv|ctranslate2|jax|cupy|faiss|xgboost|lightgbm|paddle|dlib|whisper\.cpp"
            ),
        ),
        yields_to=("KW-033",),
    ),
    Cause(
        code="KW-022",
        title="the build does not see the torch that is installed",
        area=Area.TORCH,
        why="pip, uv and other tools build in an empty environment of their own. A package whose setup imports torch without "
        "declaring it fails there, though torch is installed.",
        fix="python -m pip install torch setuptools wheel ninja packaging && python -m pip install "
        "--no-build-isolation <package>",
        then="uv: no-build-isolation-package in pyproject.toml; poetry and pdm: install it by pip after the others.",
        signs=(
            sign(
                r"configuration file provided by ['\"]torch['\"]|did not find one.{0,20}torch|findtorch\.cmake|torchconfig\.cmake"
            ),
            sign(
                r"(ModuleNotFoundError|ImportError): no module named ['\"]?(torch(\.utils\.cpp_extension)?(?!\.)|packaging|wheel|numpy|setuptools|ninja|psutil)\b"
            ),
            sign(r"depends on '?\w+'?, but doesn'?t declare it as a build dependency"),
            sign(r"extra build requirement '?torch'? was declared", 2),
        ),
        unless=(sign(r"cmake:\d+ \((include|find_package)\)"),),  # a frame of CMake's stack: torch was found
        needs=(
            sign(
                r"(getting requirements to build|get_requires_for_build|prepare_metadata|preparing metadata|build_meta|egg_info|"
                r"findtorch|torchconfig|provided by ['\"]torch|build[ -]backend|build_wheel|build requirement|build dependency|setup\.py|build isolation|subprocess-exited-with-error|failed to build)"
            ),
        ),
    ),
    Cause(
        code="KW-023",
        title="NumPy 2 under packages built for NumPy 1",
        area=Area.TORCH,
        why="Binary packages built against NumPy 1 cannot be used with NumPy 2; older torch, and NVIDIA's builds for Jetson, are "
        "such packages.",
        fix='python -m pip install "numpy<2"',
        then="Or newer builds of the packages that complain.",
        signs=(
            sign(
                r"was removed in the numpy 2\.0 release|has been removed in numpy 2|numpy (>= ?)?2(\.\d)? (is )?(not supported|incompatible)"
            ),
            sign(r"expected np\.ndarray \(got numpy\.ndarray\)|numpy\.ndarray size changed"),
            sign(r"compiled using numpy 1\.x cannot be run in"),
            sign(r"_ARRAY_API not found"),
            sign(r"numpy\.(dtype|ndarray|ufunc) size changed, may indicate binary incompatibility"),
            sign(r"numpy\.core\.(multiarray|umath) failed to import"),
            sign(r"failed to initialize numpy: (?!no module)"),
            sign(r"module compiled against (abi|api) version \S+ but this version of numpy is"),
            sign(r"RuntimeError: numpy is not available", 2),
        ),
    ),
    Cause(
        code="KW-024",
        title="no wheel fits this machine, Python or libc",
        area=Area.TORCH,
        why="pip takes a wheel only if its tags name this machine type, an old enough glibc and this Python. With none, it says "
        "that there is no version, or tries to build from source.",
        fix="python -m pip install --upgrade pip && python -m pip install <package>",
        then="An old pip does not know newer tags. Otherwise take a Python or a release of the package that has "
        "wheels (python -m pip debug --verbose shows the tags that fit), or build it: --no-binary <package>.",
        signs=(
            sign(r"\btorch-0\.1\.2(\.post\d)?\b|version=['\"]0\.1\.2\.post2"),
            sign(r"is not a supported wheel on this platform"),
            sign(r"could not find a version that satisfies the requirement \S+"),
            sign(r"no matching distribution found for"),
            sign(r"requires a different python: \S+ not in"),
            sign(r"(has no|doesn'?t have an?y?) (wheels?|source distribution) .{0,60}(platform|python|abi|current)"),
            sign(r"ignored the following versions that require a different python", 2),
            sign(r"no (compatible|matching|suitable) (wheels?|distributions?) .{0,60}(found|available|for)", 2),
        ),
        # Names of modules are none of packages.
        unless=(
            sign(r"network is unreachable|timed out|temporary failure|connection (refused|reset)"),
            sign(r"(requirement|found for) (\w+\.[a-z_]\w+|\w+_cuda)\b"),
        ),
        yields_to=("KW-026",),
    ),
    Cause(
        code="KW-025",
        title="a downloaded file is not the one whose hash was locked",
        area=Area.TORCH,
        why="The index serves other bytes than those that were locked: a re-upload, another index, a damaged cache, or an attack.",
        fix="python -m pip cache purge",
        then="Then try again. If the hash differs still, find out who changed the file before you lock its new hash.",
        signs=(
            sign(r"these packages do not match the hashes from the requirements file"),
            sign(r"hash mismatch (for|in)\b"),
            sign(r"expected sha\d+ .{0,80}(got|actual|computed)"),
            sign(r"in --require-hashes mode, all requirements must have"),
            sign(r"hashes are required in --require-hashes mode"),
        ),
    ),
    Cause(
        code="KW-026",
        title="a package index cannot be reached",
        area=Area.TORCH,
        why="The name does not resolve, the connection fails, or the host no longer has the page: what follows in the log (no "
        "version found) is only the consequence.",
        fix="python -m pip config set global.proxy http://<proxy>:<port>",
        then="Where there is no proxy to name: a mirror that answers (python -m pip config set global.index-url <its "
        "address>), or a wheel fetched elsewhere.",
        signs=(
            sign(r"rpc failed; curl|remote end hung up unexpectedly|gnutls recv error|early eof", 2),
            sign(r"temporary failure in name resolution|name or service not known|could not resolve host"),
            sign(r"(max retries exceeded|failed to establish a new connection|newconnectionerror)"),
            sign(r"(connection (refused|reset|timed out)|network is unreachable|read timed out|connecttimeout)", 2),
            sign(r"\b(404|403|410|502|503)\b.{0,30}(client|server) error.{0,20}( for url)?.{0,20}http"),
            sign(r"(ssl: )?certificate_verify_failed|certificate verify failed|\bsslerror\b|ssl: wrong_version_number"),
            sign(r"proxyerror|cannot connect to proxy|tunnel connection failed|proxy authentication required"),
            sign(r"failed to fetch:? .{0,20}https?://|error sending request for url|dns error|tcp connect error"),
            sign(
                r"condahttperror|unavailableinvalidchannel|http (000|40[34]|5\d\d) .{0,20}(connection|not found|error).{0,20}for url"
            ),
        ),
        needs=(
            sign(
                r"\bpip\d?\b(?!/)|\buv\b|/simple\b|pypi|\bindex(es)?\b[ :]|\.whl\b|\bwheels?\b|\bretrying \(|\b(conda|mamba|poetry|pdm)\b"
                r"|repodata|channel|download\.pytorch|\bnix\b"
            ),
        ),
        # Models, services and their rights are no packages.
        unless=(
            sign(
                r"huggingface|hf-mirror|modelscope|gated ?repo|/resolve/main|registry\.npmjs|crates\.io|\bapi\.\w|localhost"
            ),
        ),
    ),
    Cause(
        code="KW-027",
        title="conda cannot choose CUDA packages on this machine",
        area=Area.TORCH,
        why="conda decides by the virtual package __cuda, which it reads from the driver; a machine without a GPU (a build or "
        "lock machine) has none, so the solver fails or takes the CPU build.",
        fix='CONDA_OVERRIDE_CUDA="<the CUDA release>" conda install <package>',
        then="For a lock file: a virtual-packages file that states __cuda.",
        signs=(
            sign(r"nothing provides __(cuda|glibc|linux)\b"),
            sign(
                r"__cuda\b.{0,80}(missing|not (available|installed|present|found)|virtual package|requires?|unsatisfiable|conflict)"
            ),
            sign(r"requires? .{0,20}__cuda\b"),
            sign(r"(pytorch|torch)\S*[-_ =]cpu_\S*.{0,60}(installed|selected|chosen|will be installed)", 1),
            sign(r"__cuda\b[^\n]{0,80}(no candidates|does not exist|conflicts with|is missing)"),
        ),
    ),
    Cause(
        code="KW-028",
        title="bitsandbytes has no library for this CUDA version",
        area=Area.TORCH,
        why="It ships one library for each CUDA release and picks by torch's; the picked one is not in the package, or another "
        "is forced by BNB_CUDA_VERSION.",
        fix="unset BNB_CUDA_VERSION && python -m pip install --upgrade bitsandbytes",
        then="python -m bitsandbytes says which library it looks for.",
        signs=(
            sign(r"nameerror: name ['\"]str2optimizer\w*['\"]"),
            sign(r"using `?'?bitsandbytes`?'? .{0,60}requires", 2),
            sign(r"cuda_setup: (warning|error)|possible options found for libcudart|settings found: cuda_version="),
            sign(r"site-packages/bitsandbytes/cuda_setup|did not contain \[?'libcudart", 2),
            sign(r"cuda setup failed despite (gpu|cuda) being available"),
            sign(r"bitsandbytes was compiled without gpu support"),
            sign(r"could not find the bitsandbytes .{0,20}binary"),
            sign(r"libbitsandbytes_\w+\.so.{0,40}(not found|no such file|cannot open|undefined symbol)"),
            sign(r"configured (cuda|rocm|xpu)? ?binary not found at"),
            sign(r"libbitsandbytes_cpu\.so", 1),
            sign(r"bitsandbytes.{0,60}(cuda (setup|version)|library).{0,40}(fail|not found|missing|error)", 2),
            sign(r"\bBNB_CUDA_VERSION\b", 1),
            sign(
                r"cuda[ _]setup: ?(setup failed|something unexpected|required library version not found|problem|error)"
            ),
            sign(
                r"'nonetype' object has no attribute 'c\w*(adam|lion|rmsprop|momentum|quantize|dequantize|get_col|igemm|gemm|extract|transform|histogram|stats)\w*'"
            ),
            sign(r"bitsandbytes native library.{0,160}(not found|no such file|cannot|could not)", 2),
        ),
        yields_to=(
            "KW-036",
            "KW-050",
            "KW-052",
        ),
    ),
)
