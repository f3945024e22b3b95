# SPDX-License-Identifier: MIT
"""Fewer names for registers leave every program what it was: each read sees the writes that it saw before."""

from __future__ import annotations

import random
import re
import subprocess

import pytest
from ptx_support import bodies, shape, sources, written

from kernelwright_toolchain.cubin import bare, read, renamed
from kernelwright_toolchain.cubin.elf import Elf
from kernelwright_toolchain.cubin.flow import NotUnderstood, function
from kernelwright_toolchain.device import Job
from kernelwright_toolchain.device.cache import Cache, key_of
from kernelwright_toolchain.device.environment import cache_dir
from kernelwright_toolchain.device.log import spills
from kernelwright_toolchain.device.sources import read_sources
from kernelwright_toolchain.request import resolve
from tests.tree import ROOT

HEAD = ".version 8.2\n.target sm_90\n.address_size 64\n.visible .entry op(\n.param .u64 op_param_0\n)\n"
DECLARED = ".reg .pred %p<40>;\n.reg .b32 %r<90>;\n.reg .b64 %rd<40>;\n"


def program(*lines: str) -> str:
    return f"{HEAD}{{\n{DECLARED}{''.join(f'{line}{chr(10)}' for line in lines)}}}\n"


def shorter(text: str) -> str:
    return renamed(text.encode()).decode()


def compared(before: str, after: str) -> int:
    """The reads that were compared; both programs are the same but for names."""
    assert len(bodies(before)) == len(bodies(after)) > 0
    count = 0
    for one, other in zip(bodies(before), bodies(after), strict=True):
        assert (shape(one), written(one)) == (shape(other), written(other))
        seen = sources(one)
        assert seen == sources(other)
        count += sum(len(reads) for _, reads in seen)
    return count


def images(table, nvrtc, *ops):
    """The PTX of these operators, or of all, as it left the compiler: from the cache of builds where it is there."""
    request = resolve(table, machine="x86_64", root=ROOT)
    cache = Cache(cache_dir(None))
    for code in (code for code in request.codes if code.kind == "ptx"):
        for op in ops or request.images:
            job = Job(ROOT, op, code)
            key = key_of(job, nvrtc, read_sources(ROOT, job.source))
            yield job, (cache.load(key, job) or nvrtc.compile(job)).image


def test_every_image_is_the_same_program(table, nvrtc):
    reads = before = after = 0
    for job, image in images(table, nvrtc):
        plain = bare(image)
        short = renamed(plain)
        assert renamed(bare(image)) == short
        for body in bodies(plain.decode()):
            function(body)  # all of it is understood, or this says what is not
        reads += compared(plain.decode(), short.decode())
        before, after = before + len(plain), after + len(short)
        assert len(short) < len(plain), job
    assert reads > 100_000
    assert after < 0.9 * before


@pytest.mark.parametrize("op", ["attention_gradients", "quantize_4bit", "rope", "swiglu"])
def test_machine_code_needs_no_more(op, table, nvrtc, ptxas, tmp_path):
    """ptxas gives each value a register of its own choice: names change nothing but the order of some instructions."""
    image = next(image for _, image in images(table, nvrtc, op))
    made = {}
    for name, text in (("plain", bare(image)), ("short", renamed(bare(image)))):
        source, cubin = tmp_path / f"{name}.ptx", tmp_path / f"{name}.cubin"
        source.write_bytes(text)
        command = [str(ptxas), "-v", "-arch", "sm_90", "-o", str(cubin), str(source)]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr
        data = cubin.read_bytes()
        elf = Elf(data)
        made[name] = (
            {kernel.name: (kernel, elf.content(elf.by_name[f".text.{kernel.name}"])) for kernel in read(data).kernels},
            spills(done.stdout + done.stderr),
        )
    (plain, spilled), (short, spilled_short) = made["plain"], made["short"]
    assert plain.keys() == short.keys()
    assert spilled == spilled_short
    for name, (kernel, code) in plain.items():
        other = short[name][0]
        assert (kernel.shared, kernel.stack) == (other.shared, other.stack)
        assert abs(kernel.registers - other.registers) <= 4, name
        assert abs(len(code) - len(short[name][1])) <= len(code) // 20, name


def test_names_are_few_and_begin_anew():
    text = shorter(program(*(f"mov.u32 %r{n},{n};\nst.shared.u32 [%r{n}],%r{n};" for n in range(50)), "ret;"))
    assert ".reg .b32 %r<1>;" in text
    assert set(re.findall(r"%r\d+", text)) == {"%r0"}


def test_a_write_under_a_predicate_leaves_the_old_value():
    before = program(
        "mov.u32 %r1,1;", "mov.u32 %r2,2;", "setp.eq.u32 %p1,%r2,3;", "@%p1 bra $L__BB0_2;", "@!%p1 mov.u32 %r1,4;",
        "mov.u32 %r3,5;", "st.shared.u32 [%r3],%r2;", "$L__BB0_2:", "st.shared.u32 [%r2],%r1;", "ret;",
    )  # fmt: skip
    after = shorter(before)
    assert compared(before, after) == 7
    assert "$L0:" in after


def test_what_is_read_and_written_keeps_its_name():
    """A sum that is read and written by one instruction, in a loop, with others in vectors and in inline assembly."""
    before = program(
        "mov.u32 %r10,0;", "mov.u32 %r11,0;", "$L__BB0_1:", "ld.shared.v2.u32 {%r20,%r21},[%r11+8];",
        "{ .reg .b16 lo,hi; mov.b32 {lo,hi},%r20; cvt.u32.u16 %r22,hi; }", "dp4a.s32.s32 %r10,%r21,%r22,%r10;",
        "shfl.sync.bfly.b32 %r23|%p3,%r10,1,31,-1;", "add.s32 %r11,%r11,1;", "@%p3 add.s32 %r11,%r11,%r23;",
        "setp.lt.s32 %p4|%p5,%r11,9;", "@%p4 bra $L__BB0_1;", "@%p5 ret;", "mov.b64 %rd7,{%r10,%r11};",
        "st.shared.u64 [%r11],%rd7;", "ret;",
    )  # fmt: skip
    after = shorter(before)
    compared(before, after)
    assert len(re.findall(r"%r\d+", after)) == len(re.findall(r"%r\d+", before))
    assert int(re.search(r"%r<(\d+)>", after)[1]) < 7


def test_a_loop_keeps_what_its_next_turn_reads():
    before = program(
        "mov.u32 %r1,7;", "mov.u32 %r9,0;", "$L__BB0_1:", "st.shared.u32 [%r9],%r1;", "mov.u32 %r5,3;",
        "add.s32 %r9,%r9,%r5;", "mov.u32 %r1,%r9;", "mov.u32 %r6,4;", "setp.lt.s32 %p1,%r9,%r6;", "@%p1 bra $L__BB0_1;",
        "ret;",
    )  # fmt: skip
    compared(before, shorter(before))


@pytest.mark.parametrize(
    "line",
    [
        "wgmma.mma_async.sync.aligned.m64n8k16.f32.f16.f16 {%r1,%r2},%rd1,%rd2,1,1,1,0,0;",  # written later
        "call.uni (%r1),f,(%r2);",
        "brx.idx %r1,table;",
        "bar.red.popc.u32 %r1,0,%p1;",
        "$L__BB0_1:",  # stands twice
        "@%p1 bra $L__BB0_9;",
        "{ .reg .b32 %r<3>; mov.u32 %r1,2; }",
        "{ .reg .b32 %r1; mov.u32 %r1,2; }",
        ".loc 1 2 3",
    ],
)
def test_what_is_not_understood_stays(line):
    text = program("mov.u32 %r70,1;", "$L__BB0_1:", "st.shared.u32 [%r70],%r70;", line, "ret;")
    assert shorter(text) == text
    with pytest.raises(NotUnderstood):
        function(text[text.index("{") + 2 : text.rindex("}")])
    other = program("mov.u32 %r70,1;", "st.shared.u32 [%r70],%r70;", "ret;").removeprefix(HEAD)
    both = shorter(text + HEAD.replace("op(", "other(") + other)
    assert both.startswith(text)
    assert "mov.u32 %r0,1;" in both  # the next function is shorter all the same


def test_a_file_that_breaks_off_stays():
    text = program("mov.u32 %r70,1;", "ret;")[:-2]
    assert shorter(text) == text


def drawn(draw: random.Random) -> str:
    """A program of a few blocks with branches everywhere, values that are read unwritten, and writes under predicates."""
    blocks = draw.randint(1, 6)
    lines = []
    for block in range(blocks):
        lines.append(f"$L__BB0_{block}:")
        for _ in range(draw.randint(0, 8)):
            a, b, c = (f"%r{number}" for number in draw.sample(range(9), 3))
            p = f"%p{draw.randrange(3)}"
            some = [
                f"add.s32 {a},{b},{a};",
                f"mov.u32 {a},1;",
                f"setp.lt.s32 {p},{a},{b};",
                f"st.shared.u32 [{a}],{b};",
            ]
            some += [f"ld.shared.v2.u32 {{{a},{b}}},[{c}];", f"selp.b32 {a},{b},{c},{p};", f"add.s32 {a},{b},{c};"]
            lines.append(draw.choice(["", "", "", f"@{p} ", f"@!{p} "]) + draw.choice(some))
        to = f"$L__BB0_{draw.randrange(blocks)};"
        lines += draw.choice([[], [f"@%p0 bra {to}"], [f"bra.uni {to}"], ["@%p1 ret;"]])
    return program(*lines, "ret;")


def test_drawn_programs_are_the_same():
    draw = random.Random(7)
    assert sum(compared(before, shorter(before)) for before in (drawn(draw) for _ in range(1500))) > 10_000
