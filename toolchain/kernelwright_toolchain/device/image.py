# SPDX-License-Identifier: MIT
"""One finished image: its bytes, what they say about themselves, and what making them took."""

from __future__ import annotations

import hashlib
import re
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

from kernelwright_toolchain.cubin import Cubin, Ptx, bare, check, loaded, renamed
from kernelwright_toolchain.device.log import Spills, serialized, spills, warnings
from kernelwright_toolchain.errors import CompileError, DeterminismError

if TYPE_CHECKING:
    from kernelwright_toolchain.device.compiler import Compiled, Job

# nvcc and NVRTC name what has internal linkage …_INTERNAL_<hash>_…; NVRTC's hash is always zeros.
_HASHED = re.compile(r"_INTERNAL_(?!00000000)[0-9a-f]{8}_")


@dataclass(frozen=True)
class Image:
    """`seconds` and `peak` are those of the compile, also when the image came out of the cache."""

    op: str
    code: str
    data: bytes
    facts: Cubin | Ptx
    spills: dict[str, Spills]  # empty for PTX
    warnings: tuple[str, ...]
    seconds: float
    peak: int
    cached: bool
    served_by: str = ""  # the code whose equal image is packed in its place

    @cached_property
    def sha256(self) -> str:
        return hashlib.sha256(self.data).hexdigest()

    @cached_property
    def loaded(self) -> str:
        """The sha256 of what is loaded of it; "" for PTX, of which the driver makes what is loaded."""
        return loaded(self.data) if isinstance(self.facts, Cubin) else ""

    @property
    def registers(self) -> int:
        """The most that one of its kernels needs; 0 for PTX."""
        return max(k.registers for k in self.facts.kernels) if isinstance(self.facts, Cubin) else 0

    @property
    def spilled(self) -> int:
        """Bytes that its kernels spill, stores and loads."""
        return sum(s.stores + s.loads for s in self.spills.values())


def finish(job: Job, compiled: Compiled) -> Image:
    """The image of a compile, checked: it is for its code, names no hash, no kernel's products by warpgroups wait for
    each other, and ptxas told what each kernel spills.
    """
    facts = check(compiled.image, job.code)
    for symbol in sorted(facts.symbols):
        if _HASHED.search(symbol):
            raise DeterminismError(
                f"{job}: symbol {symbol} carries a hash of the file's path: something there has internal linkage; "
                "say inline, constexpr, or make it a template"
            )
    for kernel, why in serialized(compiled.log).items():
        raise CompileError(
            f"{job}: ptxas has the products by warpgroups of {kernel} wait for each other, which makes it slow: {why}. "
            "See that nothing between a product and the wait for it touches the product's registers, "
            "and that all threads of a warpgroup take the same way there as far as ptxas can tell"
        )
    spilled = spills(compiled.log)
    if isinstance(facts, Cubin):
        silent = [kernel.name for kernel in facts.kernels if kernel.name not in spilled]
        if silent:
            raise CompileError(f"{job}: ptxas did not say what {silent[0]} spills; the compiler wrote:\n{compiled.log}")
        spilled = {kernel.name: spilled[kernel.name] for kernel in facts.kernels}
    else:
        spilled = {}
    return Image(
        op=job.op,
        code=job.code.name,
        data=compiled.image if isinstance(facts, Cubin) or job.debug else renamed(bare(compiled.image)),
        facts=facts,
        spills=spilled,
        warnings=tuple(warnings(compiled.log)),
        seconds=compiled.seconds,
        peak=compiled.peak,
        cached=False,
    )
