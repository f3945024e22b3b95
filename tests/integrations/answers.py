# SPDX-License-Identifier: MIT
"""What two models answer, and how near the two are."""

from __future__ import annotations

import torch

ROUNDING = 5e-2  # of logits that passed two layers in bfloat16, as a share of all


def logits(model, ids):
    """With gradients on, so that bitsandbytes' layers leave their codes in order."""
    return model(ids).logits.detach().double()


def far(a, b):
    return float((a - b).norm() / b.norm())


def exact(model, ids):
    """The answers of the same codes, computed in float32; the model is used up."""
    for name, weight in wide(model).items():
        layer = torch.nn.Linear(*weight.shape[::-1], bias=False)
        layer.weight = torch.nn.Parameter(weight)
        model.set_submodule(name, layer)
    return logits(torch.nn.Module.float(model), ids)  # transformers refuses to convert a quantized model


def as_near(model, theirs, ids):
    """Rounding in bfloat16 is all that lies between two ways to compute the same.

    Each against its own codes: an FP4 weight may lie between two values to the bit, and the two then take either.
    """
    mine, other = logits(model, ids), logits(theirs, ids)
    assert far(mine, other) <= ROUNDING
    assert far(mine, exact(model, ids)) <= 1.5 * far(other, exact(theirs, ids)) <= ROUNDING


def wide(model):
    """The weights that a model computes with, by the layer's name."""
    import bitsandbytes

    from kernelwright import nn

    found = {}
    for name, module in model.named_modules():
        if isinstance(module, nn.Linear4bit):
            found[name] = module.weight.dequantize()
        elif isinstance(module, bitsandbytes.nn.Linear4bit):
            found[name] = bitsandbytes.functional.dequantize_4bit(module.weight.data, module.weight.quant_state)
    assert len(found) == 14  # seven in each of two layers, and not the output's
    return found


def generates(model, ids):
    """Token by token what the model's own logits say."""
    mask = torch.ones_like(ids)
    found = model.generate(ids, attention_mask=mask, max_new_tokens=6, do_sample=False, eos_token_id=None)
    assert found.shape == (2, 13)
    with torch.no_grad():
        scores = model(found[:, :-1]).logits[:, 6:]
    chosen = scores.gather(-1, found[:, 7:, None])[..., 0]
    # With a cache sums are made in another order: what was chosen is the best, or as good.
    assert (chosen >= scores.max(-1).values - 0.02 * scores.abs().max()).all()
