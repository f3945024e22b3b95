# SPDX-License-Identifier: MIT
"""One token of a BitNet model for each row of a batch, with a static cache. Importing this file imports torch.

Of a layer there are six launches: q, k and v with the norm before them; rope, the new row of the cache and attention;
the output layer with its norm and the residual; gate and up with their norm; the gate; down with its norm and the
residual. All that changes from step to step lies in tensors of the step, so that one CUDA graph serves all steps.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import torch
from torch.nn import functional

from kernelwright.nn import _joined, _norms
from kernelwright.nn._straight import CLAMP
from kernelwright.ops.attention.attention_decode import attention_decode
from kernelwright.ops.norm.rms_norm import rms_norm
from kernelwright.ops.ternary.linear_ternary import linear_ternary
from kernelwright.ops.ternary.relu2_gated import relu2_gated

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from torch import Tensor

_QKV = ("self_attn.q_proj", "self_attn.k_proj", "self_attn.v_proj")
_GATE_UP = ("mlp.gate_proj", "mlp.up_proj")
SINGLE = ("self_attn.o_proj", "mlp.down_proj")


@dataclass(frozen=True)
class Product:
    """Layers behind a norm, as linear_ternary takes them."""

    packed: Tensor
    scale: Tensor
    n: int
    weight: Tensor
    eps: float

    def __call__(self, x: Tensor, residual: Tensor | None = None) -> Tensor:
        given = {"n": self.n, "weight": self.weight, "eps": self.eps, "clamp": CLAMP}
        return linear_ternary(x, self.packed, self.scale, residual=residual, **given)


@dataclass(frozen=True)
class Layer:
    qkv: Product
    out: Product
    gate_up: Product
    down: Product


def _norm(layer: Any, name: str) -> tuple[Tensor, float]:
    norm = layer.get_submodule(name)
    return norm.weight, _norms.eps_of(norm)


def _one(layer: Any, name: str, norm: str) -> Product:
    single = layer.get_submodule(name)
    return Product(single.packed, single._factor(), single.out_features, *_norm(layer, norm))  # noqa: SLF001


def _several(layer: Any, names: Sequence[str], norm: str) -> Product:
    packed, scale, n, _ = _joined.together([layer.get_submodule(name) for name in names]).weight
    return Product(packed, scale, n, *_norm(layer, norm))


def layers_of(model: Any) -> list[Layer]:
    return [
        Layer(
            _several(layer, _QKV, "input_layernorm"),
            _one(layer, SINGLE[0], "self_attn.attn_sub_norm"),
            _several(layer, _GATE_UP, "post_attention_layernorm"),
            _one(layer, SINGLE[1], "mlp.ffn_sub_norm"),
        )
        for layer in model.model.layers
    ]


def joined(layer: Any) -> bool:
    """Whether optimize() has put the weights of a decoder layer together."""
    parts = ([layer.get_submodule(name) for name in names] for names in (_QKV, _GATE_UP))
    return all(_joined.together(part) is not None for part in parts)


class Step:
    """Memory of a batch of so many rows, each of so many tokens at most, and what makes the next token of each."""

    def __init__(self, model: Any, batch: int, room: int, ends: Tensor, padding: int) -> None:
        config = vars(model.config)
        self.table, self.head = (model.get_submodule(name).weight for name in ("model.embed_tokens", "lm_head"))
        table = self.table
        here = {"device": table.device, "dtype": table.dtype}
        self.model, self.batch, self.room, self.layers = model, batch, room, layers_of(model)
        self.heads, self.kv_heads = config["num_attention_heads"], config["num_key_value_heads"]
        self.d = self.layers[0].qkv.n // (self.heads + 2 * self.kv_heads)
        positions = torch.arange(room, device=table.device).unsqueeze(0)
        cos, sin = model.get_submodule("model.rotary_emb")(table[:1].unsqueeze(0), positions)
        self.cos, self.sin = (each[0, :, : self.d // 2].contiguous() for each in (cos, sin))
        shape = batch, self.kv_heads, room, self.d
        self.caches = [(torch.zeros(shape, **here), torch.zeros(shape, **here)) for _ in self.layers]
        self.lengths = torch.zeros(batch, dtype=torch.int32, device=table.device)
        self.tokens = torch.zeros(batch, dtype=torch.int64, device=table.device)
        self.done = torch.zeros(batch, dtype=torch.bool, device=table.device)
        self.logits = torch.zeros((batch, len(self.head)), **here)
        self.ends, self.padding = ends, padding
        self._replay: dict[bool, Callable[[], None]] = {}

    def fits(self, batch: int, rows: int, ends: Tensor, padding: int) -> bool:
        """Whether this memory serves a call, and the weights lie where they lay."""
        same = batch == self.batch and rows <= self.room and padding == self.padding and torch.equal(ends, self.ends)
        return same and self._places(self.layers) == self._places(layers_of(self.model))

    @staticmethod
    def _places(layers: list[Layer]) -> list[int]:
        products = [each for layer in layers for each in (layer.qkv, layer.out, layer.gate_up, layer.down)]
        return [t.data_ptr() for each in products for t in (each.packed, each.scale, each.weight)]

    def begin(self, past: Any, kept: Tensor, logits: Tensor) -> None:
        """From the model's own pass over the prompts, of which `kept` tells padding: rows of a cache follow each other
        from its first on."""
        self.lengths.copy_(kept.sum(-1))
        self.done.zero_()
        self.logits.copy_(logits)
        order = torch.argsort((~kept).int(), dim=-1, stable=True)[:, None, :, None]  # what is kept first, in its order
        rows = kept.shape[1]
        for (k, v), layer in zip(self.caches, past.layers, strict=True):
            for to, of in ((k, layer.keys), (v, layer.values)):
                to[:, :, :rows].copy_(of.gather(2, order.expand(of.shape)))

    def choose(self, tokens: Tensor) -> None:
        """The next tokens; of rows that have ended, padding."""
        self.tokens.copy_(torch.where(self.done, self.padding, tokens))
        if self.ends.numel():
            self.done.copy_(self.done | self.ended(self.tokens))

    def ended(self, tokens: Tensor) -> Tensor:
        return (tokens.unsqueeze(-1) == self.ends).any(-1)

    def advance(self, greedy: bool) -> None:
        """From tokens to the logits behind them, and with greedy to the tokens after."""
        if self.tokens.device.type == "cuda":
            if greedy not in self._replay:
                self._replay[greedy] = self._recorded(greedy)
            self._replay[greedy]()
        else:
            self._pass(greedy)

    def _pass(self, greedy: bool) -> None:
        self._step()
        if greedy:
            self.choose(self.logits.argmax(-1))

    def _step(self) -> None:
        x = functional.embedding(self.tokens, self.table)
        split = self.heads * self.d, self.kv_heads * self.d, self.kv_heads * self.d
        for layer, (keys, values) in zip(self.layers, self.caches, strict=True):
            q, k, v = (part.view(self.batch, 1, -1, self.d).transpose(1, 2) for part in layer.qkv(x).split(split, -1))
            # fmt: off
            y: Any = attention_decode(
                q, keys, values, self.lengths, k_new=k, v_new=v, cos=self.cos, sin=self.sin
            )
            # fmt: on
            x = layer.out(y.transpose(1, 2).reshape(self.batch, -1), x)
            gate, up = layer.gate_up(x).chunk(2, -1)
            x = layer.down(relu2_gated(gate, up), x)
        weight, eps = _norm(self.model, "model.norm")
        self.logits.copy_(functional.linear(rms_norm(x, weight, eps=eps), self.head))
        self.lengths.add_(1)

    def _recorded(self, greedy: bool) -> Callable[[], None]:
        """A CUDA graph of a pass. What passes to load kernels changes is put back."""
        state = self.lengths, self.tokens, self.done, self.logits
        kept = [each.clone() for each in state]
        side = torch.cuda.Stream(self.tokens.device)
        side.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(side):
            self._pass(greedy)
        torch.cuda.current_stream().wait_stream(side)
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            self._pass(greedy)
        for each, before in zip(state, kept, strict=True):
            each.copy_(before)
        replay: Callable[[], None] = graph.replay
        return replay
