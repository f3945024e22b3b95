# SPDX-License-Identifier: MIT
"""Shared libraries: missing, of another version, twice in one process, or damaged."""

from __future__ import annotations

from kernelwright.doctor._cause import Area, Cause, number, sign

_CUDA_LIBRARIES = (
    r"lib(cudart|cublas|cublasLt|cudnn\w*|cusparse\w*|cusolver\w*|cufft\w*|curand"
    r"|nvrtc(-builtins)?|nccl|nvJitLink|nvToolsExt|cupti|"
    r"nvinfer\w*|cufile|nvshmem\w*|cudss|cutensor\w*|cudla|npp\w{1,6}|nvjpeg)"
)

CAUSES = (
    Cause(
        code="KW-050",
        title="a CUDA library of the version that was linked is missing",
        area=Area.LIBRARIES,
        why="The number behind .so is part of the name: a build for CUDA 12 asks for "
        "libcudart.so.12 and finds only another major "
        "version's, or none.",
        # Where those packages are not there it stops, and leaves the search path as it was.
        fix="LIBRARIES=\"$(python -c 'import glob, nvidia; "
        'print(":".join(sorted(glob.glob(list(nvidia.__path__)[0] + "/*/lib"))))\')" && '
        'export LD_LIBRARY_PATH="$LIBRARIES${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}"',
        then="That finds the libraries of NVIDIA's Python packages. If they are of another major version (pip list | "
        "grep -i nvidia): the build of the program for it, or the nvidia-*-cu12 / -cu13 package that is missing. "
        "Never link one name to another.",
        signs=(
            sign(
                _CUDA_LIBRARIES
                + r"\.so(\.[\d.]+)?['\"]?:? (cannot open shared object|no such file|not found|=> not found)"
            ),
            sign(
                _CUDA_LIBRARIES + r"\S*\.so\S*.{0,40}\b(not found|missing|could not be (found|loaded)|cannot be found)"
            ),
            sign(
                r"(could not|couldn't|cannot|failed to|unable to) (load|find|locate|open|dlopen)\b.{0,60}"
                + _CUDA_LIBRARIES
            ),
            sign(r"could not load dynamic library ['\"]?" + _CUDA_LIBRARIES),
            sign(r"cannot dlopen some gpu libraries|could not open \S*lib(cudnn|cublas|cudart|nvrtc)"),
            sign(r"failed to open libnvrtc"),
            sign(r"dll load failed while importing (runtime|cublas|driver|nvrtc)\b", beside=(r"\bcupy",)),
            sign(
                r"(cannot|could not|failed to) load (cudnn|cublas|cusparse|cusolver|cufft|nvrtc|nccl) (shared )?library"
            ),
            sign(
                r"\b(cudart|cublas(lt)?|cudnn\w*|cufft|curand|cusparse|cusolver|nvrtc(-builtins)?"
                r"|nvinfer\w*|nvcuda)(32|64)_\w+\.dll\b.{0,80}(not found|could not|cannot|failed|is "
                r"missing)|(could not|couldn't|cannot|failed to|unable to) (load|find|open"
                r"|locate)\b.{0,80}\b(cudart|cublas(lt)?|cudnn\w*|cufft|curand|cusparse|cusolver"
                r"|nvrtc(-builtins)?|nvinfer\w*)(32|64)_"
            ),
            sign(r"\bunable to load cuda\b", 2),
            sign(r"require cudnn \d+\.\* and cuda \d+\.\*"),
            sign(r"could not satisfy dependency " + _CUDA_LIBRARIES),
            sign(
                r"appendexecutionprovider_cuda\b.{0,40}failed to load|failed to load library,? error code:? 12[67]",
                beside=(r"onnxruntime|\bort\b",),
            ),
            sign(r"loadlibrary failed with error 12[67]\b.{0,200}cuda"),
            sign(r"\bcuda was(n'?t| not) able to be loaded|failed to create cudaexecutionprovider", 2),
        ),
        unless=(
            sign(
                r"cuda_setup: |did not contain|undefined symbol|using the following names|version '?lib|init failure|driver is too old"
            ),
        ),
        yields_to=("KW-035", "KW-128"),
    ),
    Cause(
        code="KW-051",
        title="two versions of a CUDA library are mixed",
        area=Area.LIBRARIES,
        why="A library finds an older or newer sister than it was built with: LD_LIBRARY_PATH, a "
        "system toolkit or a second Python "
        "package comes before the right one.",
        fix="unset LD_LIBRARY_PATH",
        then="If it stays: python -m pip install --force-reinstall torch, which brings a matching set.",
        signs=(
            sign(
                r"\b(cudnn|cublas|nccl|cusparse|cusolver|cufft|nvjitlink|nvrtc|tensorrt"
                r"|cuda)\b.{0,60}\bbut (the )?(\w+ )?(was|were|is) (compiled|built|linked) (with"
                r"|against|for)"
            ),
            sign(r"linked against (cu\w+|nccl|tensorrt) [\d.]+ but loaded"),
            sign(r"but jax was built against version|jax requires cu\w+ version"),
            sign(r"compiled with (cu\w+|nccl|tensorrt) [\d.]+,? but (the )?\1 version"),
            sign(r"lib(cudnn|cublas|nccl|nvinfer) v?[\d.]+ with headers? v?[\d.]+ (unmatched|mismatch)"),
            sign(r"(outdated|incompatible|mismatched) (cu\w+|nccl|nvjitlink|tensorrt) (installation|library|version)"),
            sign(r"libcu\w+\.so\S*: undefined symbol"),
            sign(r"failed to (load|open) (\S*builtins\S*|builtins)\b"),
            sign(_CUDA_LIBRARIES + r"\S*: (undefined symbol|symbol .{0,60}version)"),
            sign(
                r"undefined symbol:? ?_*(nvJitLink|cublas|cublasLt|cusparse|cudnn|cusolver|cufft|nccl|nvrtc|cuda)\w*", 2
            ),
            sign(
                r"cudnn (library )?version (mismatch|incompatibility)|runtime version .{0,30}cudnn"
                r"|compiled .{0,30}cudnn.{0,60}but (found|loaded)"
            ),
            sign(r"(multiple|several|two|different) (versions|copies) of (lib)?(cudart|cublas|cudnn|cuda\w*|nccl)"),
            sign(r"CUDNN_STATUS_(SUBLIBRARY_VERSION_MISMATCH|VERSION_MISMATCH)|CUDNN_STATUS_NOT_INITIALIZED", 2),
            sign(r"nccl version .{0,20}(mismatch|!=|differs)|mismatched nccl", 2),
            sign(r"found duplicate .{0,40}(libcudart|libcublas|libcudnn|cuda)", 1),
            sign(r"not defined in file lib(cu|nv)\S+ with link time reference"),
            sign(
                r"multiple cupy packages are installed|(cuda|cudnn|cublas|nccl) (library )?versions? "
                r"(do not|don't) match",
                2,
            ),
            sign(r"version '?lib(cu|nv|nccl)\S* not found"),
            sign(r"\bdnn library is not found\b"),
            sign(r"looks like your ld_library_path contains incompatible version"),
            sign(r"\bmay need (a )?newer version of (the )?(nvjitlink|nvrtc|nvvm|cu\w+)\b"),
        ),
        unless=(sign(r"undefined symbol:? ?_Z(?!n\d+\w{0,12}?(cudnn|nccl|cublas|nvinfer))"),),
        yields_to=("KW-028", "KW-125", "KW-128"),
    ),
    Cause(
        code="KW-052",
        title="the system's C or C++ library is too old for the file",
        area=Area.LIBRARIES,
        why="The binary was built on a newer system than this one: it asks for symbol versions "
        "of glibc or libstdc++ that are not here.",
        fix="python -m pip install --force-reinstall --no-cache-dir --no-binary <package> <package>",
        then="That builds it for this system. Otherwise a wheel for an older glibc (its manylinux tag says which), or "
        "a newer system; for GLIBCXX alone: conda install -c conda-forge libstdcxx-ng.",
        signs=(
            sign(
                r"\b(glibc|libstdc\+\+|libc)\b.{0,12}\d+\.\d+.{0,20}(or (newer|later|higher|above)"
                r"|required).{0,40}(found|got|have|detected|but)"
            ),
            sign(r"version [`'\"]?(GLIBC|GLIBCXX|CXXABI|GCC)_[\d.]+['\"]? not found"),
            sign(r"(GLIBC|GLIBCXX|CXXABI)_\d[\d.]*.{0,30}(not found|not defined|required by|missing)"),
            sign(r"undefined reference to '?[\w.]+@@?(glibc|glibcxx|cxxabi)_\d"),
            sign(r"\b__glibc\b.{0,60}missing on (the|this|your) system"),
            sign(r"undefined symbol:? ?_ZN?K?St\d", 2),
            sign(r"(requires?|needs?) (glibc|libc)\b.{0,20}\d+\.\d+.{0,60}(found|has|is|but)", 2),
        ),
    ),
    Cause(
        code="KW-053",
        title="GPU code in the file cannot be unpacked or loaded",
        area=Area.LIBRARIES,
        why="The embedded GPU code is damaged, cut short, or packed in a way (a newer "
        "compression, a newer format) that this driver or "
        "tool does not know.",
        fix="python -m pip install --force-reinstall --no-cache-dir <package>",
        then="Compare the hash. A packing that the driver does not know needs a newer driver, or in a build of your "
        "own nvcc --no-compress.",
        signs=(
            number(200, 300),
            sign(
                r"(fatbin(ary)?|cubin|elf|module|image)\b.{0,60}(un|de)compress\w*.{0,30}(fail|error|could not|cannot)"
            ),
            sign(r"(un|de)compress(ion)?\w* (of )?.{0,30}(fatbin|cubin|elf|section|image).{0,30}(fail|error)?", 2),
            sign(r"\buncompress failed\b"),
            sign(r"device kernel image is invalid|(CUDA_ERROR_INVALID_IMAGE|cudaErrorInvalidKernelImage)"),
            sign(
                r"(fatbin(ary)?|cubin)\b.{0,40}(corrupt|invalid|truncated|bad magic|malformed|could "
                r"not be loaded|cannot be loaded)"
            ),
            sign(r"(CUDA_ERROR_INVALID_SOURCE|cudaErrorInvalidSource)\b", 2),
            sign(r"unsupported (fatbin|elf|cubin) (version|format|compression)"),
            sign(r"error loading (the )?(fatbin(ary)?|cubin|module)\b", 2),
        ),
    ),
    Cause(
        code="KW-054",
        title="a shared library that is not CUDA's is missing",
        area=Area.LIBRARIES,
        why="The loader does not find a library the program was linked to.",
        fix="sudo apt-get install -y apt-file && sudo apt-file update && sudo apt-get install -y $(apt-file -l search "
        "<library> | head -1)",
        then="For libGL.so.1 and what images for servers lack: sudo apt-get install -y libgl1 libglib2.0-0 libgomp1. "
        "ldd <file> | grep 'not found' lists all that are missing.",
        signs=(
            sign(r"dll load failed while importing|could not find module '[^']*\.dll'", 2),
            sign(
                r"(ImportError|OSError|error while loading shared libraries): lib(?!cuda|cudart|cublas"
                r"|cudnn|torch|c10|nv)\S+\.so\S*: cannot open shared object",
                2,
            ),
            sign(r"error while loading shared libraries:", 2),
            sign(r"undefined symbol: (cblas_\w+|[sdcz](ge|po|sy|he|or|un|tr|gt)[a-z]{2,4}_?)$"),
            sign(r"\blib(?!cu|torch|c10|nv|bitsandbytes)[\w+-]+\.so[.\d]*: cannot open shared object file", 2),
        ),
        unless=(
            sign(r"file too short|invalid elf header|wrong elf class|undefined symbol: ?_|version .{0,40}not found"),
            sign(r"net/plugin"),  # NCCL asks for a plug-in that most machines do not have
        ),
        yields_to=("KW-001", "KW-020", "KW-028", "KW-032", "KW-035", "KW-050", "KW-089"),
    ),
    Cause(
        code="KW-128",
        title="jax finds other CUDA libraries by LD_LIBRARY_PATH",
        area=Area.LIBRARIES,
        why="jax's packages bring CUDA's libraries; a toolkit or module that LD_LIBRARY_PATH "
        "names comes before them, and is older.",
        fix='unset LD_LIBRARY_PATH && python -m pip install --upgrade "jax[cuda12]"',
        then="A shell profile or an environment module may set it again. With jax[cuda12_local] "
        "the toolkit itself has to be newer.",
        signs=(
            sign(r"unable to load cu(dnn|blas|sparse|solver|fft|pti|da)\w*\. is it installed"),
            sign(
                r"(jax|jaxlib|xla_cuda)\S*.{0,120}(cusolver|cusparse|cudnn|cublas"
                r"|nvjitlink)\S*.{0,40}(undefined symbol|version mismatch)",
                2,
            ),
        ),
        needs=(sign(r"\bjax"),),
    ),
)
