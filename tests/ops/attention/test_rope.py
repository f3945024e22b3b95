# SPDX-License-Identifier: MIT
"""Rope against complex numbers in float64: layouts, pairs, tables, positions, memory, gradients, refusals."""

from __future__ import annotations

import itertools

import pytest

torch = pytest.importorskip("torch")

import kernelwright
from kernelwright import _library, errors

pytestmark = pytest.mark.torch

ROUNDING = {"float32": 2e-6, "float16": 2e-3, "bfloat16": 1.6e-2}  # of numbers up to about 4


def draw(*shape, dtype=torch.float64, seed=0, device="cpu"):
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64).to(device, dtype)


def right(x, angles, *, interleaved=False, inverse=False):
    """x [batch, heads, rows, d] by angles [batch or 1, rows, pairs], as products of complex numbers."""
    pairs = angles.shape[-1]
    turning, rest = x[..., : 2 * pairs], x[..., 2 * pairs :]
    form = turning.unflatten(-1, (pairs, 2)) if interleaved else turning.unflatten(-1, (2, pairs)).transpose(-1, -2)
    turns = torch.polar(torch.ones_like(angles), -angles if inverse else angles).unsqueeze(1)
    found = torch.view_as_real(torch.view_as_complex(form.contiguous()) * turns)
    found = found if interleaved else found.transpose(-1, -2)
    return torch.cat((found.flatten(-2), rest), -1)


def full(angles, interleaved):
    return angles.repeat_interleave(2, -1) if interleaved else torch.cat((angles, angles), -1)


def near(found, expected):
    return float((found.double() - expected).abs().max()) <= ROUNDING[str(found.dtype).partition(".")[2]]


# Every dtype with every layout, and with every pair of two others.
FORMS = [
    (dtype, layout, interleaved, table, rotary)
    for number, (dtype, layout, interleaved) in enumerate(
        itertools.product(ROUNDING, ("heads first", "rows first", "packed", "unaligned"), (False, True))
    )
    for table, rotary in itertools.islice(
        itertools.cycle(itertools.product(("half", "full", "each"), (64, 32, 18))), number, number + 5
    )
]


def laid_out(layout, x):
    """The same numbers, in memory as models have them; and what seq_dim is then."""
    if layout == "rows first":  # flash-attn's
        return x.transpose(1, 2).contiguous(), -3
    batch, heads, rows, d = x.shape
    if layout == "packed":  # q in the product that has k and v too, as transformers sees its heads
        both = x.new_full((batch, rows, 3 * heads, d), 99.0)
        view = both[:, :, heads : 2 * heads].transpose(1, 2)
        return view.copy_(x), -2
    if layout == "unaligned":
        view = x.new_full((x.numel() + 1,), 99.0)[1:].view(x.shape)
        return view.copy_(x), -2
    return x, -2


@pytest.mark.parametrize(("dtype", "layout", "interleaved", "table", "rotary"), FORMS)
def test_layouts_and_forms(dtype, layout, interleaved, table, rotary, device):
    kind = getattr(torch, dtype)
    q, k = (draw(2, heads, 5, 64, seed=heads, device=device).to(kind) for heads in (4, 1))
    angles = 3 * draw(2 if table == "each" else 1, 5, rotary // 2, seed=9, device=device)
    given = angles if table == "half" else full(angles, interleaved)
    cos, sin = (t if table == "each" else t[0] for t in (given.cos().float(), given.sin().float()))
    (mine, seq_dim), (others, _) = (laid_out(layout, x) for x in (q, k))
    options = {"rotary_dim": rotary, "seq_dim": seq_dim, "interleaved": interleaved}
    for inverse in (False, True):
        found = kernelwright.rope(mine, cos, sin, k=others, inverse=inverse, **options)
        for y, x, source in zip(found, (q, k), (mine, others), strict=True):
            assert y.dtype is kind
            assert y.stride() == torch.empty_like(source).stride()
            turned = y.transpose(1, 2) if seq_dim == -3 else y
            assert near(turned, right(x.double(), angles, interleaved=interleaved, inverse=inverse))
            assert torch.equal(turned[..., rotary:], x[..., rotary:])  # to the bit
        alone = kernelwright.rope(mine, cos, sin, inverse=inverse, **options)
        assert torch.equal(alone, found[0])


def test_default_of_rotary_dim_is_read_from_the_table(device):
    x, angles = draw(1, 2, 3, 16, device=device), draw(1, 3, 4, seed=1, device=device)
    half = kernelwright.rope(x, angles[0].cos(), angles[0].sin())
    torch.testing.assert_close(half, right(x, angles), rtol=0, atol=1e-12)
    wide = torch.cat((angles, angles), -1).repeat(1, 1, 2)[..., :16]
    every = kernelwright.rope(x, wide.cos(), wide.sin())
    torch.testing.assert_close(every, right(x, wide[..., :8]), rtol=0, atol=1e-12)


def test_what_is_not_turned_is_not_computed_with(device):
    """An infinity in it, or a NaN, reaches no other element."""
    x = draw(1, 2, 3, 24, dtype=torch.bfloat16, device=device)
    x[..., 16], x[..., 23] = torch.inf, torch.nan
    angles = draw(3, 8, seed=1, device=device)
    y = kernelwright.rope(x, angles.cos().bfloat16(), angles.sin().bfloat16())
    assert y[..., :16].isfinite().all()
    assert torch.equal(y[..., 16:].view(torch.int16), x[..., 16:].view(torch.int16))


@pytest.mark.parametrize("kind", [torch.int32, torch.int64])
@pytest.mark.parametrize("dtype", list(ROUNDING))
def test_positions(dtype, kind, device):
    x = draw(3, 2, 4, 32, device=device).to(getattr(torch, dtype))
    angles = draw(20, 16, seed=1, device=device)
    cos, sin = angles.cos().float(), angles.sin().float()
    first = torch.tensor([0, 5, 16], dtype=kind, device=device)
    rows = torch.arange(4, device=device)
    every = torch.tensor([[3, 1, 19, 0], [2, 2, 2, 2], [7, 8, 9, 10]], dtype=kind, device=device)
    for positions, places in ((first, first[:, None] + rows), (every, every), (every[:1], every[:1])):
        assert near(kernelwright.rope(x, cos, sin, positions=positions), right(x.double(), angles[places]))
    outside = torch.tensor([-7, 18, 2**31 - 1], dtype=kind, device=device)  # a sum past 32 bits, too
    places = (outside.long()[:, None] + rows).clamp(0, 19)
    assert near(kernelwright.rope(x, cos, sin, positions=outside), right(x.double(), angles[places]))


@pytest.mark.parametrize("dtype", list(ROUNDING))
@pytest.mark.parametrize("interleaved", [False, True])
def test_in_place_from_c(dtype, interleaved):
    """Results may take the place of arguments; what is not turned is not touched."""
    kind, library = getattr(torch, dtype), _library.load()
    q, k = (draw(2, heads, 5, 40, seed=heads).to(kind) for heads in (4, 1))
    angles = draw(9, 16, seed=9)
    cos, sin = angles.cos().to(kind), angles.sin().to(kind)
    first = torch.tensor([0, 3], dtype=torch.int32)
    expected = kernelwright.rope(q, cos, sin, k=k, positions=first, interleaved=interleaved)
    at = [t.data_ptr() for t in (q, k, q, k, cos, sin, first)]
    code = library.constants[f"KW_{dtype.upper()}"]
    library.call("kw_rope", library.constants["KW_CPU"], None, *at, 2, 4, 1, 5, 9, 40, 32, code, interleaved, 0)
    for found, other in zip((q, k), expected, strict=True):
        assert torch.equal(found, other)


@pytest.mark.parametrize("interleaved", [False, True])
def test_gradients_turn_back(interleaved, device):
    q, k = (draw(2, heads, 3, 16, seed=heads, device=device).requires_grad_() for heads in (2, 1))
    angles = draw(7, 6, seed=3, device=device)
    positions = torch.tensor([1, 4], dtype=torch.int32, device=device)

    def call(q, k):
        return kernelwright.rope(
            q, angles.cos(), angles.sin(), k=k, positions=positions, rotary_dim=12, interleaved=interleaved
        )

    assert torch.autograd.gradcheck(call, (q, k))
    assert torch.autograd.gradgradcheck(call, (q, k))
    for seq_dim in (-2, -3):
        x = draw(2, 3, 3, 16, dtype=torch.float32, device=device).requires_grad_()
        turns = angles[:3].cos().float(), angles[:3].sin().float()
        y = kernelwright.rope(x, *turns, seq_dim=seq_dim, interleaved=interleaved)
        grad = torch.randn_like(y)
        (found,) = torch.autograd.grad(y, x, grad)
        back = kernelwright.rope(grad, *turns, seq_dim=seq_dim, interleaved=interleaved, inverse=True)
        assert torch.equal(found, back)
        assert torch.allclose(kernelwright.rope(y, *turns, seq_dim=seq_dim, interleaved=interleaved, inverse=True), x,
                              atol=1e-5)  # fmt: skip


def test_only_one_of_a_pair_has_a_gradient(device):
    q, k = draw(1, 2, 3, 8, device=device).requires_grad_(), draw(1, 1, 3, 8, seed=1, device=device)
    angles = draw(3, 4, seed=2, device=device)
    found = kernelwright.rope(q, angles.cos(), angles.sin(), k=k)
    found[1].sum().backward()
    assert not q.grad.count_nonzero()
    kernelwright.rope(q, angles.cos(), angles.sin(), k=k)[0].sum().backward()
    assert q.grad.count_nonzero()


@pytest.mark.filterwarnings("ignore:There is a performance drop:UserWarning")  # torch makes a loop of it
def test_batches_by_vmap(device):
    x, angles = draw(3, 2, 2, 4, 8, dtype=torch.float32, device=device), draw(4, 4, seed=2, device=device)
    cos, sin = angles.cos().float(), angles.sin().float()
    found = torch.func.vmap(lambda part: kernelwright.rope(part, cos, sin))(x)
    assert torch.equal(found, torch.stack([kernelwright.rope(part, cos, sin) for part in x]))


def test_autocast_leaves_types(device):
    x, angles = draw(1, 2, 4, 8, dtype=torch.float32, device=device), draw(4, 4, seed=2, device=device)
    plain = kernelwright.rope(x, angles.cos().float(), angles.sin().float())
    with torch.autocast(device, torch.bfloat16):
        assert torch.equal(kernelwright.rope(x, angles.cos().float(), angles.sin().float()), plain)


X, TABLE = (2, 3, 4, 16), (4, 8)


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"x": (3, 4, 16)}, "x has shape .* must have dimensions"),
        ({"seq_dim": 0}, "seq_dim is 0"),
        ({"rotary_dim": 7}, "rotary_dim is 7"),
        ({"rotary_dim": 18}, "rotary_dim is 18"),
        ({"cos": (4, 7)}, "sin has shape"),
        ({"cos": (3, 8), "sin": (3, 8)}, "cos has 3 positions, but x has 4 rows"),
        ({"cos": (3, 4, 8), "sin": (3, 4, 8)}, "1 or 2 batches of 4 rows"),
        ({"k": (2, 3, 5, 16)}, "k has shape"),
        ({"positions": (3,)}, "positions has shape"),
        ({"positions": (2,), "cos": (1, 4, 8), "sin": (1, 4, 8)}, "a row for each row already"),
    ],
)
def test_refusals(changes, words, device):
    shapes = {"x": X, "cos": TABLE, "sin": TABLE, **{name: of for name, of in changes.items() if isinstance(of, tuple)}}
    given = {name: torch.zeros(shape, device=device) for name, shape in shapes.items()}
    if "positions" in given:
        given["positions"] = given["positions"].int()
    options = {name: of for name, of in changes.items() if not isinstance(of, tuple)}
    first = [given.pop(name) for name in ("x", "cos", "sin")]
    with pytest.raises(errors.InvalidArgument, match=words):
        kernelwright.rope(*first, **given, **options)


def test_types_are_refused(device):
    x, table = torch.zeros(X, device=device), torch.zeros(TABLE, device=device)
    with pytest.raises(errors.InvalidDtype, match="x has dtype"):
        kernelwright.rope(x.int(), table, table)
    with pytest.raises(errors.InvalidDtype, match="k has dtype"):
        kernelwright.rope(x, table, table, k=x.half())
    with pytest.raises(errors.InvalidDtype, match="positions has dtype"):
        kernelwright.rope(x, table, table, positions=torch.zeros(2, device=device))
