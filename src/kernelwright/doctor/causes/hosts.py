# SPDX-License-Identifier: MIT
"""What nvcc finds around it: the C library's headers, the linker's libraries, Visual Studio."""

from __future__ import annotations

from kernelwright.doctor._cause import Area, Cause, sign

CAUSES = (
    Cause(
        code="KW-130",
        title="the path of the temporary files has letters that nvcc cannot read",
        area=Area.TOOLCHAIN,
        why="On Windows nvcc hands its temporary files to the host's compiler by names in the system's code page; a "
        "user's name in other letters (ü, 中, я) becomes another name on the way, and no file has that.",
        fix="mkdir C:\\tmp & set TEMP=C:\\tmp& set TMP=C:\\tmp",
        then="Then build again in that prompt. In PowerShell: $env:TEMP = $env:TMP = 'C:\\tmp'. Caches under the home "
        "directory may need the same: TORCH_EXTENSIONS_DIR, TRITON_CACHE_DIR.",
        signs=(
            sign(
                r"((cannot|could not|can't) open (source |input |the )?file|c1083|no such file).{0,60}"
                r"[a-z]:[\\/]+users[\\/]+[\w. -]*(\?{2,}|[\x80-\uffff]).{0,80}\b(temp|tmp)"
            ),
            sign(
                r"[a-z]:[\\/]+users[\\/]+[\w. -]*(\?{2,}|[\x80-\uffff]).{0,80}\b(temp|tmp).{0,120}"
                r"(cannot|could not|can't|failed to) (be )?(open|find|read|opened|found)"
            ),
            sign(r"unicodedecodeerror: .{0,60}codec can'?t decode", 1),
        ),
    ),
    Cause(
        code="KW-046",
        title="a compiler for the host is missing",
        area=Area.TOOLCHAIN,
        why="Packages that compile on the user's machine (extensions, Triton and other JITs) "
        "need a C or C++ compiler and Python's "
        "headers there, in production too.",
        fix="sudo apt-get update && sudo apt-get install -y build-essential python3-dev",
        then="Fedora: gcc-c++ and python3-devel; conda: conda install -c conda-forge cxx-compiler. CC and CXX name "
        "another one.",
        signs=(
            sign(r"error trying to exec ['\"]?(cc1\w*|as|ld|collect2)\b"),
            sign(r"failed to find c compiler"),
            sign(r"createprocess(\(\))? ?(failed)?: (error 2\b|.{0,20}cannot find the file specified)", 2),
            sign(
                r"(no such file or directory|not found):? ['\"]?(gcc|g\+\+|cc|c\+\+"
                r"|[a-z0-9_]+-linux-gnu-(gcc|g\+\+)|clang(\+\+)?)['\"]?(\s|$|:)"
            ),
            sign(r"\b(gcc|g\+\+|cc1plus|[a-z0-9_]+-linux-gnu-(gcc|g\+\+))['\"]?: (command )?(not found|no such file)"),
            sign(r"command '\S*(gcc|g\+\+|cc|clang)' failed: no such file or directory"),
            sign(r"no cmake_cxx?_compiler could be found"),
            sign(r"fatal error( c1083)?: .{0,60}\b(python|crypt)\.h\b"),
            sign(r"compiler_compat/ld: cannot find -l(pthread|c|m|dl)\b"),
            sign(r"\binclude file ['\"]python\.h['\"] not found"),
            sign(r"(unable|failed) to (find|locate) .{0,30}(c\+\+|host|gcc|c) compiler"),
            sign(r"error: command '(gcc|g\+\+|cc)' (failed|not found)", 1),
            sign(r"cannot execute ['`]?cc1plus"),
            sign(r"\bthe c(xx)? compiler\b.{1,300}is not able to compile a simple test program"),
            sign(r"check for working c(xx)? compiler: .{1,200} (- )?broken"),
            sign(r"calledprocesserror.{0,300}(main|cuda_utils)\.c\b.{0,400}'-l:libcuda\.so\.1'", 2),
        ),
        yields_to=("KW-116", "KW-081"),
    ),
    Cause(
        code="KW-114",
        title="the toolkit's headers clash with the C library's",
        area=Area.TOOLCHAIN,
        why="glibc 2.41 and 2.42 declare functions that CUDA's crt/math_functions.h has had all along (sinpi and cospi, then rsqrt), and "
        "declare that they throw nothing; where the toolkit's header does not say so too, no .cu file compiles, by whatever GCC.",
        fix="sudo sed -i.bak -E 's/\\b((cospi|sinpi|rsqrt)f?)\\((double|float) ([ax])\\)(\\)?);/\\1(\\3 \\4) noexcept(true)\\5;/' "
        '"$(readlink -f "${CUDA_HOME:-/usr/local/cuda}/include/crt/math_functions.h")"',
        then="It declares them as glibc does, and keeps the old header as .bak. CUDA 13's headers have it so for sinpi and cospi, those from "
        "CUDA 13.2 on for rsqrt; conda's compilers (conda install cuda-nvcc cxx-compiler) bring an older C library. An older GCC changes "
        "nothing.",
        signs=(
            sign(
                r"exception specification is incompatible with that of previous function .(a?cospi|a?sinpi|a?tanpi|rsqrt)f?\b"
            ),
            sign(r"\b(a?cospi|a?sinpi|a?tanpi|rsqrt)f?\b.{0,80}\b(noexcept|different exception)"),
            sign(r"math_functions\.h.{0,200}\bexception specifi\w+", 2),
        ),
    ),
    Cause(
        code="KW-115",
        title="the linker does not find the driver's library",
        area=Area.TOOLCHAIN,
        why="-lcuda is libcuda.so of the driver. Where there is none (an image for building, a machine without a GPU) the toolkit has a stub "
        "of that name to link against, in a directory that the linker is not told of.",
        fix='export LIBRARY_PATH="${CUDA_HOME:-/usr/local/cuda}/lib64/stubs${LIBRARY_PATH:+:$LIBRARY_PATH}"',
        then="Or -L with that directory; with CMake CUDA::cuda_driver. Never in LD_LIBRARY_PATH: a program that runs would get the stub for a "
        "driver (KW-006).",
        signs=(
            sign(r"(cannot find|unable to find library|library not found for) -lcuda(?![a-z_])"),
            sign(
                r"(introuvable|nicht finden|no se puede encontrar|\u65e0\u6cd5\u627e\u5230|\u627e\u4e0d\u5230) ?:? ?-lcuda(?![a-z_])"
            ),
            sign(r"calledprocesserror.{0,400}\.c\b.{0,400}'-lcuda'", 2),
            sign(r"libcuda\.so\S* can ?not (be )?found", beside=(r"\btriton\b|os\.path\.join\(path, 'libcuda\.so'\)",)),
            sign(r"please create a symlink of libcuda\.so"),
            sign(r"^cuda_cuda_library( \(advanced\))?$", beside=(r"set to notfound",)),
            sign(r"\bcuda_cuda_library\b.{0,60}notfound|target \S*cuda::cuda_driver\S* (was |is )?not found"),
        ),
        yields_to=("KW-040",),
    ),
    Cause(
        code="KW-116",
        title="the compiler of Visual Studio is missing, or not one that nvcc takes",
        area=Area.TOOLCHAIN,
        why="On Windows nvcc and Python's builds need cl.exe of Visual Studio's Build Tools, on the PATH of the shell that builds; each nvcc takes "
        "the releases up to its own time.",
        fix='winget install --id Microsoft.VisualStudio.2022.BuildTools --override "--wait --passive --add '
        'Microsoft.VisualStudio.Workload.VCTools --includeRecommended"',
        then="Then build in its x64 Native Tools Command Prompt. A release that is too new for nvcc: a newer CUDA, or an older toolset by "
        "vcvarsall.bat x64 -vcvars_ver=14.38.",
        signs=(
            sign(r"unsupported microsoft visual studio version|only the versions between 20\d\d and 20\d\d"),
            sign(r"visual c\+\+ \d+(\.\d+)? (or greater )?is required"),
            sign(
                r"(cannot|could not|unable to) find (the )?(compiler )?['\"]?cl(\.exe)?['\"]|['\"]cl(\.exe)?['\"] is not recognized"
            ),
            sign(
                r"\bcl\.exe['\"]? (was )?not found|(cannot|could not|unable to) find cl\.exe|cannot find compiler ['\"]?cl\b"
            ),
            sign(r"running build_ext[^\n]*\n([^\n]*\n){0,3}error: \[winerror 2\]", 2),
            sign(r"error checking compiler version for cl\b(?!.{0,20}codec)", 2),
            sign(r"unable to find vcvarsall\.bat|could not find (any instance of|specified instance of) visual studio"),
            sign(r"microsoft visual studio .{0,40}(not found|is not installed|could not be found)"),
            sign(r"expected compiler version .{0,20}msvc|error stl1002"),
        ),
    ),
)
