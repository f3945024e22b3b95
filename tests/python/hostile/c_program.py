# SPDX-License-Identifier: MIT
"""Every C function that returns a status, called with odd arguments, by itself or by kw_call: it must return one.

    python -m tests.python.hostile.c_program COUNT SEED FILE

What an argument may be follows from its name and type in signatures.json. A call that the library accepts must find
memory behind its pointers; so sizes are either small or such that no library may accept them. Tensors are descriptions
(c_tensors.py). Needs no torch.
"""

from __future__ import annotations

import ctypes
import faulthandler
import json
import random
import sys
import time
from collections import Counter
from pathlib import Path
from typing import Any

from kernelwright import _files, _library
from tests.python.hostile.c_tensors import ODD_DEVICES, Described, Tensors
from tests.python.hostile.notebook import Notebook

ROWS, COLS, STRIDE = 4, 40, 48  # at most, where a call may be accepted
PLACES, ROOM = 12, 1 << 16  # buffers, and bytes of each
NEVER = (-1, -(2**63), 2**63 - 1, -(2**31))  # no size
ENUMS = (1, 2, 3, 4, -1, 2**31 - 1, -(2**31))
ODD_BLOCKSIZES = (0, 1, 16, 48, 8192, *ENUMS)
NAMED: dict[str, tuple[tuple[int, ...], tuple[int, ...]]] = {  # what is right, what is odd
    "device": ((-1,), ODD_DEVICES),
    "threads": ((0, 1, 2, 3), (-1, -(2**31))),
    "quant_type": ((0, 1), ENUMS[1:]),
    "count": ((1, 2, 40, 257, 4097), (0, *NEVER)),
}
NUMBERS = (0.0, -1.0, float("nan"), float("inf"), 1e300, -0.0)
TEXTS = (None, b"", b"threads", b"kernels", b"arch", b"cpu_isa", b"rms_norm", b"\xff\xfe", b"x" * 5000, b"%s%n%d", b"0")
VALUES = (None, b"", b"0", b"1", b"-1", b"x", b"scalar", b"99999999999999999999", b"/nowhere", b"\xff", b"%n")


class Memory:
    """Buffers that lie apart, each with room on both sides of where a call is pointed to."""

    def __init__(self) -> None:
        self._raw = [ctypes.create_string_buffer(ROOM) for _ in range(PLACES)]
        self._starts = [
            ctypes.addressof(raw) + ROOM // 2 - (ctypes.addressof(raw) + ROOM // 2) % 64 for raw in self._raw
        ]

    def address(self, place: int) -> int:
        return self._starts[place % PLACES]


class Maker:
    """Arguments of a call: what is right, or with the call's probability something odd."""

    def __init__(self, draw: random.Random, memory: Memory, tensors: Tensors) -> None:
        self.draw, self.memory, self.odd, self.tensors = draw, memory, 0.0, tensors

    def pick(self, right: Any, odd: Any) -> Any:
        return self.draw.choice(odd if self.draw.random() < self.odd else right)

    def pointer(self, place: int) -> int | None:
        address = self.memory.address(place)
        return self.pick((address,), (None, None, address + 1, address + 2, address + 8, None))

    def integer(self, name: str) -> int:
        if name == "blocksize":
            return self.pick((self.tensors.blocksize,), ODD_BLOCKSIZES)
        if name in NAMED:
            return self.pick(*NAMED[name])
        if name.endswith("dtype"):
            return self.pick((0, 0, 1, 2), ENUMS)
        if name.endswith("_stride"):
            return self.pick((STRIDE, -STRIDE), (COLS, 0, 1, self.draw.randint(-STRIDE, STRIDE)))
        if name.endswith("_bytes"):
            return self.pick((ROOM // 4,), (0, -1, 1, 16, -(2**63)))
        most = COLS if name == "cols" else ROWS
        return self.pick((1, most, self.draw.randint(1, most)), (0, *NEVER))

    def argument(self, name: str, kind: str, place: int) -> Any:
        if kind.startswith("const char") and "**" not in kind:
            return self.draw.choice(VALUES if name == "value" else TEXTS)
        if kind == "const kw_tensor *":
            return self.tensors.make(name, self.memory.address(place))
        if kind.startswith("const kw_optimizer"):
            return self.optimizer() if kind == "const kw_optimizer *" else self.optimizer_tensors()
        if kind in ("double", "float"):
            return self.pick((1e-6, 1.0), NUMBERS)
        return self.pointer(place) if "*" in kind else self.integer(name)

    def struct(self, name: str, values: list[Any]) -> Any:
        return self.tensors.library.structs[name](*values)

    def described(self, memory: Any, shown: Any) -> Described | None:
        found = Described(ctypes.addressof(memory) + self.pick((0,), (0, 1, 4)))
        found.kept, found.words = (memory,), f"{shown}"
        return self.pick((found,), (found, None))

    def optimizer(self) -> Described | None:
        """The numbers of a step of any rule."""
        numbers = [self.pick((1e-3, 0.9, 0.0), NUMBERS) for _ in range(8)]
        shown = [*numbers, self.pick((1, 2, 1000), (0, *NEVER)), self.pick(range(6), (6, *ENUMS)), 0]
        raw = bytes(self.struct("kw_optimizer", shown)) + bytes(8)
        return self.described((ctypes.c_char * len(raw)).from_buffer_copy(raw), shown)

    def optimizer_tensors(self) -> Described | None:
        """As many as a call takes, each in buffers of its own, or in those of the others too."""
        rows, first = [], self.draw.randrange(PLACES)
        for number in range(ROWS):
            at = [self.pointer(first + number + place) for place in range(6)]
            rows.append([*at, self.pick((1, 40, 257, 600), (0, *NEVER))])
        raw = b"".join(bytes(self.struct("kw_optimizer_tensor", row)) for row in rows) + bytes(8)
        return self.described((ctypes.c_char * len(raw)).from_buffer_copy(raw), rows)

    def call(self, signature: dict[str, Any]) -> list[Any]:
        self.odd = self.draw.choice((0.0, 0.02, 0.1, 0.5))
        self.tensors.begin(self.odd, {name for name, _ in signature["arguments"]})
        return [self.argument(name, kind, place) for place, (kind, name) in enumerate(pairs(signature))]


def pairs(signature: dict[str, Any]) -> list[tuple[str, str]]:
    return [(kind, name) for name, kind in signature["arguments"]]


def fits(signature: dict[str, Any]) -> bool:
    """Whether kw_call takes such a function: no text, and no more numbers than there is room for."""
    kinds = [kind for kind, _ in pairs(signature)]
    doubles = kinds.count("double")
    whole = len(kinds) - doubles <= _library.MOST_WHOLE and doubles <= _library.MOST_DOUBLES
    return whole and not any("char" in kind for kind in kinds)


def made(library: _library.Library, name: str, arguments: list[Any]) -> int:
    """By kw_call, which takes no text."""
    pack, function = library.packer(name)
    return int(library.functions["kw_call"](pack(function, *(0 if a is None else a for a in arguments))))


def right_words(name: str, invalid: bool, words: bytes) -> bool:
    """A wrong argument is told by the function that was called; other causes speak for themselves."""
    return words.startswith(name.encode()) if invalid else bool(words)


def main() -> None:
    faulthandler.enable()
    count, seed, path = int(sys.argv[1]), int(sys.argv[2]), Path(sys.argv[3])
    library, draw, notebook = _library.load(), random.Random(seed), Notebook(path)
    signatures = _files.read(_files.SIGNATURES)["functions"]
    checked = sorted(n for n, s in signatures.items() if s["returns"] == "kw_status" and n in library.functions)
    checked.remove("kw_call")
    packable = {name for name in checked if fits(signatures[name])}
    tensors = Tensors(draw, library)
    maker, ended, failures = Maker(draw, Memory(), tensors), Counter[str](), list[str]()
    known = {value for name, value in library.constants.items() if name.startswith("KW_ERROR_")}
    invalid = library.constants["KW_ERROR_INVALID_ARGUMENT"]
    start = time.perf_counter()
    for _ in range(count):
        name = draw.choice(checked)
        arguments = maker.call(signatures[name])
        packed = name in packable and draw.random() < 0.5
        said = f"{name}{tuple(arguments)!r}{' by kw_call' if packed else ''}"
        notebook.note(said)
        status = made(library, name, arguments) if packed else library.functions[name](*arguments)
        if status == 0:
            ended["right"] += 1
        elif status in known and right_words(name, status == invalid, library.functions["kw_last_error"]() or b""):
            ended["refused"] += 1
        else:
            failures.append(f"{said}: status {status}, {library.functions['kw_last_error']()!r}")
            if len(failures) == 20:
                break
    seconds = round(time.perf_counter() - start, 1)
    print(json.dumps({**ended, "seconds": seconds, "seed": seed, "failures": failures}))


if __name__ == "__main__":
    main()
