# SPDX-License-Identifier: MIT
"""Words that the rule about words must see, and what puts each right."""

from __future__ import annotations

from tests.layout.plants import Plant


def word(path: str, line: str, says: str, right: str) -> Plant:
    return Plant("words_say_what_they_mean", {path: line}, says, {path: right})


PLANTS = [
    word("csrc/ops/x/a.cuh", "constexpr bool kAnyhow = true;\n", "a.cuh:1: 'kAnyhow': write unaligned", "kUnaligned\n"),
    word("csrc/ops/x/a.cuh", "// rows that lie anyhow\n", "'anyhow'", "// unaligned rows\n"),
    word("csrc/ops/x/a.cuh", "// rows that lie alike\n", "same alignment", "// rows of the same alignment\n"),
    word("csrc/device/a.cuh", "u32 whole_group_matrix(u32 m);\n", "smem descriptor", "u64 smem_descriptor(u32 m);\n"),
    word("csrc/ops/x/a.cuh", "// Codes come by boxes.\n", "tensor maps", "// Boxes of a tensor map; boxed calls.\n"),
    word("tests/emulator/a.py", "driver.emulator_temper(1)\n", "'emulator_temper'", "temperature = attempt(1)\n"),
    word("toolchain/a.py", "import leftovers\n", "orphans", "import orphans\n"),
    word("csrc/ops/x/a.cu", "void deposit(float sum);\n", "partial sums", "void store_partial_sum(float sum);\n"),
    word("csrc/cpu/a.h", "// stored past the caches\n", "non-temporal", "// non-temporal stores\n"),
    word("src/a.py", 'print("to link anew")\n', "relocatable code", 'print("relocatable code")\n'),
    word("docs/a.md", "| code | what ends it |\n", "docs/a.md:1: 'what ends it': write fix", "| code | fix |\n"),
    word("README.md", "Inside the environment that shall have it\n", "activate", "Activate the environment, then:\n"),
    word("csrc/a.cpp", '"type of %s goes with no other\'s"\n', "must match", '"%s: dtype must match x"\n'),
    word("csrc/a.cpp", '"%lld dimensions (0 to %lld go)"\n', "are supported", '"0 to %lld are supported"\n'),
    word("csrc/a.cpp", '"%s has another shape than it must"\n', "expected B", '"shape is %s, expected %s"\n'),
    word("src/a.py", '"""Calls that nothing watches."""\n', "fast path", '"""The fast path."""\n'),
    word("docs/a.md", "Who replaces a kernel of ours\n", "torch.library", "Overrides made with torch.library\n"),
    Plant(
        "words_say_what_they_mean",
        {"csrc/ops/norm/a.cuh": "// rows that lie anyhow\n", "csrc/ops/gated/a.cuh": "// rows that lie anyhow\n"},
        "csrc/ops/gated/a.cuh:1",
        {"csrc/ops/gated/a.cuh": "// unaligned rows\n"},
    ),
]
