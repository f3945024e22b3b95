# SPDX-License-Identifier: MIT
"""As plants.py, for the rules about an operator's files."""

from __future__ import annotations

from tests.layout.plants import Plant


def op(stem: str, *without: str) -> dict[str, str]:
    """The five files of an op, less some."""
    files = {
        f"csrc/ops/gated/{stem}.cu": "",
        f"csrc/ops/gated/host/{stem}.cpp": "",
        f"csrc/ops/gated/cpu/{stem}.cpp": "",
        f"csrc/ops/gated/api/{stem}.h": f"KW_API kw_status kw_{stem}(void);",
        f"src/kernelwright/ops/gated/{stem}.py": "",
    }
    return {path: text for path, text in files.items() if path not in without}


PLANTS = [
    Plant(
        "one_stem_names_an_op_everywhere",
        op("gelu", "csrc/ops/gated/host/gelu.cpp"),
        "src/kernelwright/ops/gated/gelu.py: its launcher is missing: no csrc/ops/gated/host/gelu.cpp",
        op("gelu"),
    ),
    Plant(
        "one_stem_names_an_op_everywhere", op("gelu", "csrc/ops/gated/api/gelu.h"), "its C ABI is missing", op("gelu")
    ),
    Plant(
        "one_stem_names_an_op_everywhere",
        {**op("gelu", "csrc/ops/gated/cpu/gelu.cpp"), "src/kernelwright/ops/gated/gelu.py": 'OP = Op(no_cpu="")'},
        "its CPU path is missing",
        {"src/kernelwright/ops/gated/gelu.py": 'OP = Op(no_cpu="no CPU has fp3")'},
    ),
    Plant(
        "one_stem_names_an_op_everywhere",
        op("gelu", "csrc/ops/gated/gelu.cu"),
        "gelu.py: its kernels are missing",
        {"csrc/ops/gated/shared.cu": ""},
    ),
    Plant(
        "one_stem_names_an_op_everywhere",
        {**op("gelu"), "csrc/ops/gated/cpu/gleu.cpp": "", "src/kernelwright/ops/gated/__init__.py": ""},
        "csrc/ops/gated/cpu/gleu.cpp: there is no src/kernelwright/ops/gated/gleu.py",
        op("gleu"),
    ),
    Plant(
        "public_headers_declare_their_stem",
        {**op("gelu"), "csrc/ops/gated/api/gelu.h": "KW_API kw_status kw_glu(void);"},
        "does not declare kw_gelu",
        op("gelu"),
    ),
]
