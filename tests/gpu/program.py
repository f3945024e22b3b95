# SPDX-License-Identifier: MIT
"""What pytest cannot do in one process: the same calls under another image, another wheel, or a sanitizer.

    python tests/gpu/program.py numbers          every case against float64, on fresh random inputs, in several layouts
    python tests/gpu/program.py save FILE        results of fixed inputs, to compare with another build's
    python tests/gpu/program.py compare FILE
    python tests/gpu/program.py calls [K/N]      every case once in each layout (the large ones once), or the K-th of N
                                                 parts of them, for compute-sanitizer

Which kernels run is said from outside: PYTHONPATH names the installed wheel, KERNELWRIGHT_ARCH an image. So this
reads the operators' records and nothing of the tests.
"""

from __future__ import annotations

import itertools
import math
import os
import random
import sys
from typing import TYPE_CHECKING, Any

import torch

from kernelwright import ops

if TYPE_CHECKING:
    from collections.abc import Iterator


# Elements by which every tensor is moved in memory, and elements between its rows.
Layouts = tuple[tuple[int, int], ...]
LAYOUTS = ((0, 0), (1, 0), (3, 1))
# Of what is timed: more rows or work than this take a reference in float64 too long, or more memory than there is.
MOST_ROWS, MOST_FLOPS = 128, 2e11


def chosen(layouts: Layouts, layouts_of_large: Layouts) -> Iterator[tuple[Any, Any, tuple[int, int]]]:
    """Each operator's cases in each layout; large are those that are timed."""
    for op in (ops.record(name) for name in ops.names()):
        large = tuple(c for c in op.benchmarks if c.shape[0] <= MOST_ROWS and op.flops(c) <= MOST_FLOPS)
        yield from ((op, case, layout) for case in op.cases for layout in layouts)
        yield from ((op, case, layout) for case in large for layout in layouts_of_large)


def cases(
    seed: int, layouts: Layouts = LAYOUTS[:1], layouts_of_large: Layouts | None = None, part: int = 0, parts: int = 1
) -> Iterator[tuple[Any, Any, tuple[Any, ...]]]:
    """With arguments; of `parts` equal ones the one that begins with case number `part`, mixed so that they are alike."""
    generator = torch.Generator("cuda").manual_seed(seed)
    every = list(chosen(layouts, layouts if layouts_of_large is None else layouts_of_large))
    if parts > 1:
        random.Random(seed).shuffle(every)
    for op, case, (offset, gap) in itertools.islice(every, part, None, parts):
        yield op, case, tuple(moved(a, offset, gap) for a in op.make(case, "cuda", generator))


def moved(value: Any, offset: int, gap: int) -> Any:
    if not isinstance(value, torch.Tensor) or (offset == 0 and gap == 0):
        return value
    *rows, cols = value.shape or (1,)
    count, apart = math.prod(rows), cols + (gap if math.prod(rows) > 1 else 0)
    room = torch.empty(offset + count * apart, dtype=value.dtype, device=value.device)
    wide = room[offset:].view(*rows, apart)
    wide[..., cols:] = 0  # it may be read
    return wide[..., :cols].view(value.shape).copy_(value)


def outputs(op: Any, case: Any, arguments: tuple[Any, ...]) -> list[Any]:
    """What the call returns and, after it, the arguments: an operator may write in place."""
    call = getattr(getattr(torch.ops.kernelwright, op.name), case.overload)
    found = call(*arguments)
    tensors = () if found is None else found if isinstance(found, tuple) else (found,)
    return [*tensors, *(a for a in arguments if isinstance(a, torch.Tensor))]


def expected(op: Any, case: Any, arguments: tuple[Any, ...]) -> list[Any]:
    wide = tuple(a.double() if isinstance(a, torch.Tensor) else a for a in arguments)
    found = op.overload(case.overload).reference(*wide)
    tensors = () if found is None else found if isinstance(found, tuple) else (found,)
    return [*(t.double() for t in tensors), *(a for a in wide if isinstance(a, torch.Tensor))]


def written(op: Any, case: Any) -> list[bool]:
    """For each argument whether the overload writes to it."""
    parsed = torch._C.parse_schema(f"kernelwright::{op.name}{op.overload(case.overload).schema}").arguments
    return [a.alias_info is not None and a.alias_info.is_write for a in parsed]


def bounds(op: Any, case: Any, exact: list[Any], expected: list[Any], dtypes: list[Any]) -> Iterator[Any]:
    """How far off each may be: of the results what the record allows, of arguments that are written the tolerance of
    their type. Where nothing is allowed it is next to nothing, so that a share of it can be told."""
    count = len(expected) - sum(isinstance(a, torch.Tensor) for a in exact)
    nothing = torch.tensor(1e-300, dtype=torch.float64)
    for bound in op.allowed(case.overload, exact, expected[:count], dtypes[:count]) if count else ():
        yield bound.double().clamp(min=nothing.to(bound.device))
    pairs = zip(written(op, case), exact, strict=False)  # trailing defaults may have been left out
    writes = [write for write, a in pairs if isinstance(a, torch.Tensor)]
    held = [index for index, write in enumerate(writes, count) if write]
    in_place = op.allowed_in_place(case.overload, exact, [expected[i] for i in held], [dtypes[i] for i in held])
    of_written = dict(zip(held, in_place, strict=True))
    for index, wide in enumerate(expected[count:], count):
        yield of_written.get(index, torch.zeros_like(wide)).clamp(min=nothing.to(wide.device))


def share_of(found: Any, wide: Any, bound: Any) -> float:
    """The most that an element takes of what it may err by; more than 1 is wrong, and so is NaN or infinity alone."""
    same = (found.double() == wide) | (found.isnan() & wide.isnan())  # infinities and NaN in the same places
    share = torch.where(same, 0.0, (found.double() - wide).abs() / bound).nan_to_num(nan=math.inf)
    return share.max().item() if share.numel() else 0.0


def numbers() -> None:
    seed = int.from_bytes(os.urandom(4), "little")
    count, worst = 0, 0.0
    wrong: list[str] = []
    for op, case, arguments in cases(seed, LAYOUTS):
        exact = [a.double().clone() if isinstance(a, torch.Tensor) else a for a in arguments]
        reference, found = expected(op, case, arguments), outputs(op, case, arguments)
        allowed = bounds(op, case, exact, reference, [t.dtype for t in found])
        for tensor, wide, bound in zip(found, reference, allowed, strict=True):
            most = share_of(tensor, wide, bound)
            if most > 1.0:
                wrong.append(f"{op.name} {case}: {most:.2f} times the error allowed (seed {seed})")
            worst = max(worst, most)
        count += 1
    if wrong:
        sys.exit("\n".join([*wrong, f"{count} calls, {len(wrong)} results wrong"]))
    print(f"{count} calls right against float64; the worst has {100 * worst:.0f} % of the error allowed (seed {seed})")


def results() -> dict[str, list[Any]]:
    return {f"{op.name} {case}": [t.cpu() for t in outputs(op, case, a)] for op, case, a in cases(seed=7)}


def same_bits(a: torch.Tensor, b: torch.Tensor) -> bool:
    """Also where a NaN, which is equal to nothing, would hide what it is beside."""
    return a.dtype == b.dtype and torch.equal(a.reshape(-1).view(torch.uint8), b.reshape(-1).view(torch.uint8))


def compare(file: str) -> None:
    other, own = torch.load(file), results()
    different = [name for name in own if not all(map(same_bits, own[name], other[name]))]
    print(f"{len(own)} calls, {len(different)} with other bits: {different[:5]}")
    sys.exit(bool(different))


def calls(part: int = 1, parts: int = 1) -> None:
    count = 0
    for call in cases(3, LAYOUTS, LAYOUTS[:1], part - 1, parts):
        outputs(*call)
        count += 1
        if count % 100 == 0:
            print(f"{count} calls", flush=True)
    torch.cuda.synchronize()
    print(f"{count} calls done")


def main() -> None:
    verb, *rest = sys.argv[1:] or ["numbers"]
    ops.register()
    if verb == "numbers":
        numbers()
    elif verb == "save":
        torch.save(results(), rest[0])
    elif verb == "compare":
        compare(rest[0])
    elif verb == "calls":
        calls(*map(int, rest[0].split("/"))) if rest else calls()
    else:
        sys.exit(f"{verb!r} is none of numbers, save, compare, calls")


if __name__ == "__main__":
    main()
