# SPDX-License-Identifier: MIT
"""For each rule, small trees that break it in one place, and what puts each right."""

from __future__ import annotations

from dataclasses import dataclass, field

from tests.layout.rules_documents import ERRORS, LAUNCHER

SPDX = "# SPDX-License-Identifier: MIT\n"
C_SPDX = "// SPDX-License-Identifier: MIT\n"
ARCH = "sm" + "_89"


@dataclass(frozen=True)
class Plant:
    """`files` break `rule` once, in words that hold `says`; `right` laid over them puts it right."""

    rule: str
    files: dict[str, str]
    says: str
    right: dict[str, str] = field(default_factory=dict)


def number(path: str, line: str, says: str) -> Plant:
    return Plant("numbers_live_in_the_table", {path: line}, says, {path: "a line without one\n"})


VALUES = [
    number("csrc/ops/x/a.cu", f"// only on {ARCH}\n", "is an architecture;"),
    number("csrc/ops/x/a.cu", "#if __CUDA_ARCH__ >= 800\n", "an architecture macro"),
    number("csrc/core/a.cpp", "if (device->capability >= 89) {\n", "a comparison with a version"),
    number("csrc/core/a.cpp", "return capability / 10 == 9;\n", "a comparison with a version"),
    number("toolchain/a.py", "if release.major >= 13:\n", "a comparison with a version"),
    number("toolchain/a.py", "GCC = 'g++-12'\n", "a compiler of one version"),
    number("toolchain/a.py", "HOME = '/usr/local/cuda12.4'\n", "the release of cu124"),
    number("toolchain/a.py", "TOOLKIT = 'cu122'\n", "a toolkit"),
    number("toolchain/a.py", "TOOLKIT = 'cu199'\n", "a toolkit"),
    number("toolchain/a.py", "# needs CUDA 12.2.\n", "'12.2' is the release of cu122"),
    number("cmake/a.cmake", "find_package(NVRTC 12.2.140)\n", "'12.2.140' is"),
    number("flake.nix", 'driver = "535.54.03";\n', "the driver of cu122"),
    number("noxfile.py", "PINS = ['ninja==1.13.2']\n", "a locked tool (ninja==1.13.2)"),
    number("kw", "GLIBC = '2.28'\n", "2.28"),
    number("CMakeLists.txt", "set(T x86_64-linux-gnu)\n", "the triple of linux-x86_64"),
    number("src/kernelwright/a.py", "TAG = 'manylinux_2_31_x86_64'\n", "a platform tag"),
    number("toolchain/kernelwright_toolchain/workflows/a.yml.in", "GCC: 12.4.0\n", "a locked GCC"),
    Plant(
        "shared_numbers_are_in_geometry",
        {
            "csrc/ops/x/host/a.h": "constexpr int64_t kA = 16;\n",
            "csrc/ops/x/device/a.cuh": "constexpr u32 kA = 8u * 2;\n",
        },
        "csrc/ops/x/host/a.h: kA stands in csrc/ops/x/device/a.cuh too",
        {"csrc/ops/x/device/a.cuh": "constexpr u32 kB = 16;\n"},
    ),
]

FILES = [
    Plant("sources_carry_the_licence", {"src/a.py": '"""Prose."""\n'}, "src/a.py: begins with", {"src/a.py": SPDX}),
    Plant(
        "sources_carry_the_licence", {"kw": "#!/usr/bin/env python3\n\n"}, "kw: begins", {"kw": f"#!/bin/sh\n{SPDX}"}
    ),
    Plant("sources_carry_the_licence", {"csrc/a.h": "#pragma once\n"}, "csrc/a.h", {"csrc/a.h": C_SPDX}),
    Plant("files_can_be_held_in_the_head", {"a.py": "\n" * 401}, "a.py: 401 lines", {"a.py": "\n" * 400}),
    *(
        Plant("nix_files_are_laid_out_alike", {"a.nix": text}, "a.nix", {"a.nix": "{\n  a = 1;\n\n  b = 2;\n}\n"})
        for text in ("{\n\ta = 1;\n}\n", "{ \n}\n", "{\n   a = 1;\n}\n", f"# {'x' * 119}\n", "{\n\n\n}\n", "{ }")
    ),
    Plant("nothing_is_left_for_later", {"a.txt": "x\n# TO" + "DO: y\n"}, "a.txt:2", {"a.txt": "todos los dias\n"}),
    Plant("nothing_is_left_for_later", {"a.txt": "FIX" + "ME\n"}, "a.txt:1", {"a.txt": "fixmen\n"}),
    Plant(
        "no_file_knows_a_machine_or_an_index",
        {"a.sh": "cd /ro" + "ot/x\n"},
        "a.sh:1",
        {"a.sh": "cd $HOME/root/work; ls lib/site-packages/x framework/x\n"},
    ),
    Plant("no_file_knows_a_machine_or_an_index", {"a": "--index https://h/sim" + "ple/\n"}, "a:1", {"a": "--index\n"}),
    Plant("no_file_knows_a_machine_or_an_index", {"a": "/ho" + "me/ann/x\n"}, "a:1", {"a": "~/x\n"}),
]

LONG = SPDX + "def f():\n" + "    x = 1\n" * 49

PYTHON = [
    Plant(
        "importing_says_nothing",
        {"src/a.py": "if 1:\n    print(1)\n"},
        "src/a.py:2",
        {"src/a.py": "def f(): print(1)\n"},
    ),
    Plant(
        "importing_says_nothing",
        {"toolchain/a.py": "class A:\n    x = [print(n) for n in (1,)]\n"},
        "toolchain/a.py:2",
        {"toolchain/a.py": "f = lambda: print(1)\nif __name__ == '__main__':\n    print(1)\n"},
    ),
    Plant(
        "functions_are_short", {"src/a.py": LONG}, "f has 50 lines", {"src/a.py": LONG.replace("    x = 1\n", "", 1)}
    ),
    Plant(
        "one_file_reads_the_environment",
        {"src/kernelwright/a.py": "import os\nx = os.environ['X']\n"},
        "src/kernelwright/a.py:2",
        {"src/kernelwright/a.py": "", "src/kernelwright/_environment.py": "import os\nx = os.getenv('X')\n"},
    ),
    Plant(
        "one_file_reads_the_environment",
        {"src/kernelwright/a.py": "from os import getenv\nx = getenv('X')\n"},
        "src/kernelwright/a.py:2",
        {"src/kernelwright/a.py": "from os import getcwd\nx = getcwd()\n"},
    ),
    Plant(
        "variables_are_few",
        {"src/a.py": " ".join("KERNELWRIGHT_" + name for name in "ABCDEF")},
        "6 environment variables",
        {"src/a.py": " ".join("KERNELWRIGHT_" + name for name in "ABCDEE")},
    ),
    Plant(
        "the_toolchain_runs_on_a_bare_python",
        {"toolchain/a.py": "import json\nimport nox\n"},
        "toolchain/a.py:2: imports nox",
        {
            "toolchain/a.py": "from kernelwright_toolchain import b\nif TYPE_CHECKING:\n    import nox\ndef f():\n    import nox\n"
        },
    ),
    Plant(
        "installs_are_by_hash",
        {"toolchain/a.py": "run(['install', '--quiet', name])\n"},
        "toolchain/a.py:1: installs without",
        {
            "toolchain/a.py": "FLAGS = ('install', '--require-hashes')\nOTHER = ('--dry-run',)\nrun(['install', *OTHER])\n"
        },
    ),
    Plant(
        "installs_are_by_hash",
        {".github/workflows/a.yml": "- run: python -m pip install nox\n"},
        "a.yml:1: installs without",
        {".github/workflows/a.yml": "- run: python -m pip install --require-hashes -r locks/nox.txt\n"},
    ),
    Plant(
        "the_package_does_not_know_the_toolchain",
        {"src/a.py": "def f():\n    from kernelwright_toolchain.targets import load\n"},
        "src/a.py:2: imports kernelwright_toolchain.targets",
        {"src/a.py": "from . import kernelwright_toolchain\n"},
    ),
]

NATIVE = [
    Plant(
        "public_functions_are_documented",
        {"csrc/include/kernelwright/a.h": "/* Says a. */\nKW_API int kw_a(void);\n\nKW_API int kw_b(void);\n"},
        "csrc/include/kernelwright/a.h:4: no comment stands right above: KW_API int kw_b",
        {
            "csrc/include/kernelwright/a.h": "/* Says\n   a. */\nKW_API int kw_a(void);\n// Says b.\nKW_API int kw_b(void);\n"
        },
    ),
    Plant(
        "no_nvidia_header_is_included",
        {"csrc/ops/x/a.cu": "#include <cuda_fp16.h>\n"},
        "csrc/ops/x/a.cu:1: #include <cuda_fp16.h>",
        {"csrc/ops/x/a.cu": '#include "vector.cuh"\n'},
    ),
    Plant(
        "native_code_reads_only_what_openmp_users_set",
        {"csrc/core/a.cpp": 'getenv("KERNELWRIGHT_X");\n'},
        "csrc/core/a.cpp:1: reads KERNELWRIGHT_X",
        {"csrc/core/a.cpp": 'getenv("OMP_NUM_THREADS");\n'},
    ),
    Plant(
        "native_code_reads_only_what_openmp_users_set",
        {"csrc/core/a.cpp": 'getenv("OMP_NUM_THREADS");\n', "csrc/core/b.cpp": 'getenv("OMP_NUM_THREADS");\n'},
        "several files",
        {"csrc/core/b.cpp": ""},
    ),
    Plant(
        "a_library_never_ends_its_process",
        {"csrc/core/a.cpp": "  if (bad) abort();\n"},
        "csrc/core/a.cpp:1: if (bad) abort();",
        {"csrc/core/a.cpp": "  // nothing calls exit() here\n"},
    ),
]

ERRORS_PY = """
class KwError(Exception):
    exit_code = 2
class TableError(KwError):
    exit_code = 10
class BusyError(KwError):
    exit_code = 18
"""
RAISES = "def f():\n    raise TableError('x')\nx = {18: BusyError}\n"
BASE_H = "enum {\n  KW_OK = 0,\n  KW_ERROR_CUDA = 9,\n};\n"
PAGE = "| 2 | `KwError` | | |\n| 10 | `TableError` | | |\n| 18 | `BusyError` | | |\n| 9 | `KW_ERROR_CUDA` | | |\n"
EXCEPTION = 'class CudaError(Exception):\n    status = "KW_ERROR_CUDA"\n'
DOCUMENTED = {ERRORS: ERRORS_PY, "csrc/include/kernelwright/base.h": BASE_H}

DOCUMENTS = [
    Plant(
        "exit_codes_are_distinct",
        {ERRORS: ERRORS_PY.replace("18", "10")},
        "BusyError and TableError both end with 10",
        {ERRORS: ERRORS_PY},
    ),
    Plant(
        "exit_codes_are_distinct",
        {ERRORS: ERRORS_PY.replace("    exit_code = 18", "    pass")},
        "BusyError has no exit_code",
        {ERRORS: ERRORS_PY},
    ),
    Plant(
        "exit_codes_are_distinct",
        {ERRORS: ERRORS_PY.replace("18", "1")},
        "BusyError: 1 is Python's own",
        {ERRORS: ERRORS_PY},
    ),
    Plant(
        "exit_codes_are_distinct",
        {ERRORS: ERRORS_PY, "toolchain/a/read.py": "class ReadError(KwError):\n    exit_code = 10\n"},
        "ReadError and TableError both end with 10",
        {"toolchain/a/read.py": "class ReadError(KwError):\n    exit_code = 11\n"},
    ),
    Plant(
        "the_launcher_ends_as_the_toolchain_does",
        {ERRORS: ERRORS_PY, LAUNCHER: 'EXIT = {"TableError": 10, "BusyError": 17}\n'},
        f"{LAUNCHER}: BusyError is 18 in the toolchain, not 17",
        {LAUNCHER: 'EXIT = {"TableError": 10, "BusyError": 18}\n'},
    ),
    Plant(
        "error_classes_are_used",
        {ERRORS: ERRORS_PY, "toolchain/a.py": RAISES.replace("BusyError", "0")},
        "nothing raises BusyError",
        {"toolchain/a.py": RAISES},
    ),
    Plant(
        "error_classes_are_used",
        {
            "src/errors.py": 'class Gone(Exception):\n    status = "KW_ERROR_GONE"\n',
            "csrc/include/kernelwright/base.h": BASE_H,
        },
        "Gone stands for KW_ERROR_GONE",
        {"src/errors.py": 'class Cuda(Exception):\n    status = "KW_ERROR_CUDA"\n'},
    ),
    Plant(
        "status_codes_are_returned",
        {
            "csrc/include/kernelwright/base.h": BASE_H,
            "csrc/core/error.cpp": 'KW_CASE(KW_ERROR_CUDA) case KW_ERROR_CUDA: return "KW_ERROR_CUDA";\nreturn KW_OK;',
        },
        "nothing returns KW_ERROR_CUDA",
        {"csrc/core/launch.cpp": "return fail(KW_ERROR_CUDA, text);"},
    ),
    Plant(
        "errors_are_documented",
        {**DOCUMENTED, "docs/errors.md": PAGE.replace("| 18 | `BusyError` | | |\n", "")},
        "no row for BusyError (18)",
        {"docs/errors.md": PAGE},
    ),
    Plant(
        "errors_are_documented",
        {**DOCUMENTED, "toolchain/b.py": "class ReadError(KwError):\n    exit_code = 20\n", "docs/errors.md": PAGE},
        "no row for ReadError (20)",
        {"docs/errors.md": PAGE + "| 20 | `ReadError` | | |\n"},
    ),
    Plant(
        "errors_are_documented",
        {**DOCUMENTED, "docs/errors.md": PAGE.replace("| 9 |", "| 8 |")},
        "KW_ERROR_CUDA is 9, not 8",
        {"docs/errors.md": PAGE},
    ),
    Plant(
        "errors_are_documented",
        {**DOCUMENTED, "docs/errors.md": PAGE + "| 7 | `GoneError` | | |\n"},
        "GoneError is neither a class",
        {"docs/errors.md": PAGE},
    ),
    Plant(
        "exceptions_are_documented",
        {"src/kernelwright/errors.py": EXCEPTION, "docs/errors.md": "`KW_ERROR_CUDA`\n"},
        "CudaError of src/kernelwright/errors.py is not in it",
        {"docs/errors.md": "| 9 | `KW_ERROR_CUDA` | `CudaError` |\n"},
    ),
    Plant(
        "exceptions_are_documented",
        {"src/kernelwright/errors.py": EXCEPTION, "docs/errors.md": "| 8 | `KW_ERROR_GONE` | `CudaError` |\n"},
        "CudaError does not stand beside KW_ERROR_CUDA",
        {"docs/errors.md": "| 9 | `KW_ERROR_CUDA` | `CudaError` |\n"},
    ),
    Plant("links_lead_somewhere", {"docs/a.md": "[b](../b.md)\n"}, "docs/a.md:1: ../b.md does not", {"b.md": ""}),
    Plant(
        "links_lead_somewhere",
        {"a.md": "[b](b.md#what-is-it)\n[c](https://c)\n", "b.md": "# What it is\n"},
        "no such heading",
        {"b.md": "# B\n\n## What is it?\n"},
    ),
    Plant(
        "variables_are_documented",
        {"docs/use.md": "", "src/kernelwright/_environment.py": 'X = "KERNELWRIGHT_X"\n'},
        "docs/use.md: no row for KERNELWRIGHT_X",
        {"docs/use.md": "| `KERNELWRIGHT_X` | what it does |\n"},
    ),
    Plant(
        "variables_are_documented",
        {"docs/use.md": "| `KERNELWRIGHT_Y` | what it did |\n", "src/kernelwright/_environment.py": ""},
        "docs/use.md: KERNELWRIGHT_Y is not in src/kernelwright/_environment.py",
        {"docs/use.md": "KERNELWRIGHT\n"},
    ),
    Plant("the_front_page_is_short", {"README.md": "a\n" * 121}, "121 lines, 120 is", {"README.md": "a\n" * 120}),
    Plant(
        "every_page_is_in_the_index",
        {"docs/index.md": "[b](b.md)\n", "docs/a.md": "", "docs/b.md": "", "docs/a.svg": ""},
        "docs/index.md: no link to docs/a.md",
        {"docs/index.md": "[a](a.md), [b](b.md)\n"},
    ),
    Plant(
        "cmake_options_are_documented",
        {
            "docs/building.md": "| `KW_A` | not `KW_C` |\n",
            "CMakeLists.txt": 'set(KW_A "" CACHE STRING "a")\noption(KW_B "b" OFF)\n',
        },
        "docs/building.md: no row for KW_B",
        {"docs/building.md": "| `KW_A`, `KW_B` | |\n"},
    ),
    Plant(
        "cmake_options_are_documented",
        {"docs/building.md": "| `KW_A`, `KW_B` | |\n", "CMakeLists.txt": 'set(KW_A "" CACHE STRING "a")\n'},
        "docs/building.md: KW_B is no option",
        {"docs/building.md": "| `KW_A` | |\n"},
    ),
    Plant(
        "verbs_are_documented",
        {
            "docs/building.md": "| `build` | |\n",
            "noxfile.py": "@nox.session\ndef build(s): ...\n@nox.session(tags=[])\ndef tests(s): ...\n",
        },
        "docs/building.md: no row for tests",
        {"docs/building.md": "| `build` | |\n| `tests` | |\n"},
    ),
    Plant(
        "shared_functions_are_documented",
        {
            "docs/c-api.md": "`kw_a`\n",
            "csrc/include/kernelwright/base.h": "KW_API int kw_a(void);\nKW_API int kw_b(int x);\n",
        },
        "docs/c-api.md: kw_b of csrc/include/kernelwright/base.h is not in it",
        {"docs/c-api.md": "`kw_a`, `kw_b`\n"},
    ),
    Plant(
        "the_changelog_begins_with_this_version",
        {"CHANGELOG.md": "# Changes\n\n## 0.1.0 (unreleased)\n", "pyproject.toml": '[project]\nversion = "0.2.0"\n'},
        "begins with 0.1.0, pyproject.toml says 0.2.0",
        {"CHANGELOG.md": "# Changes\n\n## 0.2.0\n\n## 0.1.0\n"},
    ),
    Plant(
        "locks_are_those_of_the_table",
        {"targets.toml": 'locks = { a = "locks/a.txt", b = "locks/b.txt" }\n', "locks/a.txt": ""},
        "locks/b.txt does not exist",
        {"locks/b.txt": ""},
    ),
]

PLANTS = [*VALUES, *FILES, *PYTHON, *NATIVE, *DOCUMENTS]
