# SPDX-License-Identifier: MIT
"""TensorRT's engines: files that only the release reads which made them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kernelwright.doctor.explain.cures import _ways
from kernelwright.doctor.explain.cures._cure import Cure, of

if TYPE_CHECKING:
    from kernelwright.doctor.explain.said import Said


@of("KW-018")
def other_engine(said: Said) -> Cure | None:
    """Programs that make their engine themselves make it again; Python's TensorRT can be that of the file."""
    engine = said.finds(r"expecting library version [\d.]+ got (\d+\.\d+\.\d+)")
    if engine and int(engine[1].partition(".")[0]) > 7 and said.has(r"\[trt\]|\.py\b|import tensorrt"):
        then = "That is the release that made the file; or make it again, by the TensorRT that is here."
        return Cure(_ways.pip(said, f'install "tensorrt=={engine[1]}.*"'), then)
    if said.has(r"jetson|deepstream|ultralytics|frigate|\byolo|onnxruntime"):
        kinds = r"\( -name '*.engine' -o -name '*.plan' -o -name '*.trt' \)"
        then = "The program makes them anew at its next start, where it has the model."
        return Cure(f"find . {kinds} -exec mv {{}} {{}}.old \\;", then)
    return None
