# SPDX-License-Identifier: MIT
"""What the device tests share: a cubin made by hand, a compiler that is not there, a tree with sources."""

from __future__ import annotations

import struct
import threading
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from kernelwright_toolchain.device import Compiled, Job

if TYPE_CHECKING:
    from pathlib import Path


def record(attribute: int, *words: int) -> bytes:
    """A sized .nv.info record of 32-bit words."""
    return struct.pack(f"<BBH{len(words)}I", 4, attribute, 4 * len(words), *words)


@dataclass
class Made:
    """A cubin built section by section; the defaults are CUDA 12.2's way of writing sm_89."""

    osabi: int = 51
    abi: int = 7
    flags: int = 0x590559
    machine: int = 190
    kernel: str = "op_kernel"
    registers: int = 40
    info: bytes = b""  # more of .nv.info.<kernel>
    extra: dict[str, bytes] = field(default_factory=dict)
    symbols: tuple[str, ...] = ()  # local objects beside the kernel

    def bytes(self) -> bytes:
        strings = b"\0" + b"".join(name.encode() + b"\0" for name in (self.kernel, *self.symbols))
        table, at = [struct.pack("<IBBHQQ", 0, 0, 0, 0, 0, 0)], 1
        for index, name in enumerate((self.kernel, *self.symbols)):
            kind, other = (0x12, 0x10) if index == 0 else (0x01, 0)
            table.append(struct.pack("<IBBHQQ", at, kind, other, 1, 0, 16))
            at += len(name) + 1
        sections = {
            "": b"",
            f".text.{self.kernel}": b"\x90" * 16,
            ".strtab": strings,
            ".symtab": b"".join(table),
            ".nv.info": record(0x2F, 1, self.registers) + record(0x11, 1, 0) + record(0x12, 1, 0),
            f".nv.info.{self.kernel}": record(0x05, 256, 1, 1) + self.info,
            f".nv.constant0.{self.kernel}": bytes(360),
            **self.extra,
        }
        return self._assemble(sections)

    def _assemble(self, sections: dict[str, bytes]) -> bytes:
        names = b"".join(name.encode() + b"\0" for name in (*sections, ".shstrtab"))
        sections = {**sections, ".shstrtab": names}
        order = list(sections)
        body, headers, name_at = bytearray(64), [], 0
        for name, content in sections.items():
            link, entry = (order.index(".strtab"), 24) if name == ".symtab" else (0, 0)
            headers.append(struct.pack("<IIQQQQIIQQ", name_at, 1, 0, 0, len(body), len(content), link, 0, 1, entry))
            body += content
            name_at += len(name) + 1
        start = struct.pack("<4sBBBBB7x", b"\x7fELF", 2, 1, 1, self.osabi, self.abi)
        rest = (2, self.machine, 1, 0, 0, len(body), self.flags, 64, 0, 0, 64, len(headers), len(headers) - 1)
        body[:64] = start + struct.pack("<HHIQQQIHHHHHH", *rest)
        return bytes(body) + b"".join(headers)


def log_of(kernel: str, stores: int = 0, loads: int = 0) -> str:
    return (
        f"ptxas info    : Compiling entry function '{kernel}' for 'sm_0'\n"
        f"ptxas info    : Function properties for {kernel}\n"
        f"    0 bytes stack frame, {stores} bytes spill stores, {loads} bytes spill loads\n"
    )


class FakeCompiler:
    """Makes a small cubin or PTX file of each job and remembers which it was asked for."""

    name = "fake"
    provider = "pip"
    release = "12.2"

    def __init__(self, version: str = "12.2.140", digest: str = "d" * 64, peak: int = 1 << 20) -> None:
        self.version, self.digest, self.peak = version, digest, peak
        self.asked: list[tuple[str, str]] = []
        self.seen: list[bytes] = []
        self._lock = threading.Lock()

    def options(self, job: Job) -> tuple[str, ...]:
        return (f"-arch={job.code.name}", *(["-lineinfo"] if job.debug else []))

    def compile(self, job: Job) -> Compiled:
        with self._lock:
            self.asked.append((job.op, job.code.name))
            self.seen.append((job.root / job.source).read_bytes())
        if job.code.kind == "ptx":
            text = f".version 8.2\n.target sm_{job.code.number}\n.visible .entry {job.op}_k(\n)\n{{ ret; }}\n"
            return Compiled(text.encode(), "", 0.1, self.peak)
        number = int(job.code.number.rstrip("a"))
        flags = number << 16 | 0x500 | number | (0x800 if job.code.name.endswith("a") else 0)
        return Compiled(Made(flags=flags, kernel=f"{job.op}_k").bytes(), log_of(f"{job.op}_k"), 0.1, self.peak)


def tree(root: Path, **sources: str) -> Path:
    """A root with csrc/ops/toy/<name>.cu for each source."""
    (root / "csrc/ops/toy").mkdir(parents=True)
    for name, text in sources.items():
        (root / f"csrc/ops/toy/{name}.cu").write_text(text, encoding="utf-8")
    return root
