# SPDX-License-Identifier: MIT
"""In front of Python's path under `kwt exec`: makes a torch for CPUs build for the CUDA that KWT_TORCH_CUDA names.

It is imported by every Python that such a command starts, so it imports nothing until torch's builder is asked for.
"""

from __future__ import annotations

import os
import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from importlib.machinery import ModuleSpec
    from types import ModuleType

_BUILDER = "torch.utils.cpp_extension"


class _Builder:
    """Finds it once, as Python would, and tells it which CUDA there is."""

    @staticmethod
    def find_spec(name: str, path: object = None, target: object = None) -> ModuleSpec | None:  # noqa: ARG004 - importlib's
        if name != _BUILDER:
            return None
        import importlib.util

        sys.meta_path.remove(_Builder)
        spec = importlib.util.find_spec(name)
        if spec is None or spec.loader is None:
            return spec
        run = spec.loader.exec_module

        def told(module: ModuleType) -> None:
            version = importlib.import_module("torch.version")
            version.cuda = os.environ["KWT_TORCH_CUDA"]  # type: ignore[attr-defined]
            run(module)
            module.CUDA_HOME = os.environ["CUDA_HOME"]  # type: ignore[attr-defined]

        spec.loader.exec_module = told  # type: ignore[method-assign]
        return spec


if os.environ.get("KWT_TORCH_CUDA"):
    sys.meta_path.insert(0, _Builder)
