# SPDX-License-Identifier: MIT
"""`decoder(model)`: what generates with a BitNet model after `optimize`. Importing this file imports torch."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch

from kernelwright.errors import InvalidArgument, Unsupported
from kernelwright.integrations._bitnet_step import SINGLE, Step, joined
from kernelwright.nn._memory import has_hooks
from kernelwright.nn.bit_linear import BitLinear

if TYPE_CHECKING:
    from collections.abc import Callable

    from torch import Tensor

__all__ = ["Decoder"]

_ROOM = 256  # rows by which caches grow
_LOOK = 16  # steps between looks at whether all rows have ended: each waits for the GPU
_SAMPLING = ("temperature", "top_k", "top_p")
_PLAIN: dict[str, tuple[Any, ...]] = {
    "num_beams": (None, 1), "repetition_penalty": (None, 1.0), "no_repeat_ngram_size": (None, 0),
    "encoder_repetition_penalty": (None, 1.0), "encoder_no_repeat_ngram_size": (None, 0), "bad_words_ids": (None,),
    "min_length": (None, 0), "min_new_tokens": (None,), "forced_bos_token_id": (None,),
    "forced_eos_token_id": (None,), "suppress_tokens": (None,), "begin_suppress_tokens": (None,),
    "sequence_bias": (None,), "guidance_scale": (None, 1.0), "watermarking_config": (None,), "stop_strings": (None,),
    "num_return_sequences": (None, 1), "penalty_alpha": (None, 0.0), "min_p": (None,), "typical_p": (None, 1.0),
    "epsilon_cutoff": (None, 0.0), "eta_cutoff": (None, 0.0), "top_h": (None,), "renormalize_logits": (None, False),
    "remove_invalid_values": (None, False), "exponential_decay_length_penalty": (None,), "max_time": (None,),
    "prompt_lookup_num_tokens": (None,), "assistant_early_exit": (None,),
}  # fmt: skip
"""What a generation configuration may say of things that `generate` does not do."""


def _why_not(model: Any) -> str | None:
    config: Any = getattr(model, "config", None)
    if getattr(config, "model_type", None) != "bitnet" or not hasattr(model, "lm_head"):
        return f"it is a {type(model).__name__}, and only BitNetForCausalLM is known"
    if model.training:
        return "it is in training mode; call model.eval()"
    for name, found, known in (
        ("hidden_act", config.hidden_act, "relu2"),
        ("rope_type", config.rope_parameters["rope_type"], "default"),
    ):
        if found != known:
            return f"its {name} is {found}, and only {known} is known"
    for name, layer in model.model.layers.named_children():
        single = [layer.get_submodule(one) for one in SINGLE]
        if not joined(layer) or not all(
            type(one) is BitLinear and one.takes_norm() and one.bias is None for one in single
        ):
            return f"layer {name} is not of packed BitLinears that lie together; call optimize(model) first"
    return _why_not_as_it_lies(model)


def _why_not_as_it_lies(model: Any) -> str | None:
    weight = model.get_submodule("lm_head").weight
    dtype, device = weight.dtype, weight.device
    for name, module in model.named_modules():
        if has_hooks(module):
            return f"{name or 'the model'} has hooks, which would not be called"
        for value in module.parameters(recurse=False):
            if value.dtype is not dtype or value.device != device:
                return f"{name} is {value.dtype} on {value.device}, and lm_head {dtype} on {device}"
    if dtype in (torch.float16, torch.bfloat16) or (dtype is torch.float32 and device.type == "cpu"):
        return None
    return f"it is of {dtype}; float16 and bfloat16 are known, and on the CPU float32"


class Decoder:
    """Generates with a model of transformers, which stays as it is; several calls share memory and CUDA graphs."""

    def __init__(self, model: Any) -> None:
        self._model = model
        self._step: Step | None = None
        self._check()

    def _check(self) -> None:
        reason = _why_not(self._model)
        if reason is not None:
            raise Unsupported(f"decoder: cannot decode this model: {reason}. model.generate() can")

    @torch.no_grad()
    def generate(
        self,
        input_ids: Tensor,
        *,
        max_new_tokens: int,
        attention_mask: Tensor | None = None,
        eos_token_id: Any = ...,
        pad_token_id: int | None = None,
        do_sample: bool | None = None,
        temperature: float | None = None,
        top_k: int | None = None,
        top_p: float | None = None,
        **others: Any,
    ) -> Tensor:
        """The prompts and what follows them, [batch, rows], as `model.generate` gives them.

        input_ids       [batch, rows]; prompts of several lengths are padded on the left
        attention_mask  [batch, rows], 0 for padding; None: there is none
        eos_token_id    one or several, each ends a row, which is padded from there on; None: nothing ends it. Without
                        it and the arguments below the model's generation_config is asked
        """
        self._check()
        if others:
            raise Unsupported(f"generate: {', '.join(sorted(others))}: not known here; model.generate() knows more")
        said = self._model.generation_config
        self._refuse(said)
        ends = said.eos_token_id if eos_token_id is ... else eos_token_id
        kept = self._kept(input_ids, attention_mask)
        if max_new_tokens < 1:
            raise InvalidArgument(f"generate: max_new_tokens is {max_new_tokens}, but must be at least 1")
        list_of_ends = [] if ends is None else [ends] if isinstance(ends, int) else list(ends)
        padding = said.pad_token_id if pad_token_id is None else pad_token_id
        if padding is None:
            padding = list_of_ends[0] if list_of_ends else 0
        sampling = bool(said.do_sample if do_sample is None else do_sample)
        given = dict(zip(_SAMPLING, (temperature, top_k, top_p), strict=True))
        pick = _picker(said, given) if sampling else None
        step = self._start(input_ids, kept, max_new_tokens, list_of_ends, padding)
        return self._run(step, input_ids, max_new_tokens, pick)

    @staticmethod
    def _refuse(said: Any) -> None:
        for name, plain in _PLAIN.items():
            if getattr(said, name, None) not in plain:
                raise Unsupported(
                    f"generate: the model's generation_config has {name}={getattr(said, name)!r}, which is not known "
                    "here; model.generate() knows it"
                )

    @staticmethod
    def _kept(input_ids: Tensor, attention_mask: Tensor | None) -> Tensor:
        if input_ids.dim() != 2 or not input_ids.numel():
            raise InvalidArgument(
                f"generate: input_ids has shape {tuple(input_ids.shape)}, but must have [batch, rows]"
            )
        if attention_mask is None:
            return torch.ones_like(input_ids, dtype=torch.bool)
        if attention_mask.shape != input_ids.shape:
            raise InvalidArgument(
                f"generate: attention_mask has shape {tuple(attention_mask.shape)}, but must have "
                f"{tuple(input_ids.shape)}"
            )
        kept = attention_mask != 0
        if not bool(kept[:, -1].all()) or bool((kept[:, :-1] & ~kept[:, 1:]).any()):
            raise Unsupported("generate: prompts are padded elsewhere than on the left; pad them there")
        return kept

    def _start(self, ids: Tensor, kept: Tensor, more: int, ends: list[int], padding: int) -> Step:
        """The prompts, by the model's own pass."""
        (batch, rows), of_ends = ids.shape, torch.tensor(ends, dtype=torch.int64, device=ids.device)
        if self._step is None or not self._step.fits(batch, rows + more, of_ends, padding):
            self._step = None  # its memory first
            room = -(-(rows + more) // _ROOM) * _ROOM
            self._step = Step(self._model, batch, room, of_ends, padding)
        places = (kept.long().cumsum(-1) - 1).clamp(min=0)
        found = self._model(
            ids, attention_mask=kept.long(), position_ids=places, use_cache=True, logits_to_keep=1
        )  # fmt: skip
        self._step.begin(found.past_key_values, kept, found.logits[:, -1])
        return self._step

    @staticmethod
    def _run(step: Step, ids: Tensor, more: int, pick: Callable[[Tensor, Tensor], Tensor] | None) -> Tensor:
        rows = ids.shape[1]
        found = torch.full((ids.shape[0], rows + more), step.padding, dtype=ids.dtype, device=ids.device)
        found[:, :rows] = ids
        step.choose(step.logits.argmax(-1) if pick is None else pick(ids, step.logits))
        for at in range(rows, rows + more):
            found[:, at].copy_(step.tokens)
            if at + 1 == rows + more or (step.ends.numel() and (at - rows) % _LOOK == 0 and bool(step.done.all())):
                break
            step.advance(pick is None)
            if pick is not None:
                step.choose(pick(found[:, : at + 1], step.logits))
        if not step.ends.numel():
            return found
        ended = step.ended(found[:, rows:]).int().cumsum(-1) > 0
        last = int((~ended.all(0)).sum()) + 1  # the column in which the last row ended is kept
        return found[:, : rows + min(last, more)]


def _picker(said: Any, given: dict[str, Any]) -> Callable[[Tensor, Tensor], Tensor]:
    """As transformers samples: its own warpers in its order."""
    from transformers import generation

    values = {name: getattr(said, name) if value is None else value for name, value in given.items()}
    warpers: list[Any] = []
    if values["temperature"] not in (None, 1.0):
        warpers.append(generation.TemperatureLogitsWarper(values["temperature"]))
    if values["top_k"]:
        warpers.append(generation.TopKLogitsWarper(top_k=values["top_k"]))
    if values["top_p"] is not None and values["top_p"] < 1.0:
        warpers.append(generation.TopPLogitsWarper(top_p=values["top_p"]))

    def pick(ids: Tensor, logits: Tensor) -> Tensor:
        scores = logits.float()
        for warper in warpers:
            scores = warper(ids, scores)
        return torch.multinomial(torch.softmax(scores, -1), 1).squeeze(1)

    return pick
