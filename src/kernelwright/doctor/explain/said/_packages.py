# SPDX-License-Identifier: MIT
"""Which Python package a log is about: by what pip says, by the path of a file, by the last frame of a traceback."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

_NAME = r"([A-Za-z0-9][A-Za-z0-9._-]{0,60}[A-Za-z0-9])"
_SAID = (
    "failed building (?:editable )?(?:wheel )?for",
    "building wheel for",
    "could not build wheels for",
    "failed to (?:download and )?build",
    "no matching distribution found for",
    "satisfies the requirement",
    r"projects \(",
    "preparing metadata for",
    r"failed to (?:download and )?build `",
)
_BEHIND = r"(?=$|, which is|[\s'\"`=<>!~@\[()])"
_BY_PIP = re.compile(rf"(?:{'|'.join(_SAID)}) ?['\"`]?{_NAME}{_BEHIND}", re.IGNORECASE | re.MULTILINE)
_ASKED = re.compile(
    rf"(?:\bpip3?|\buv(?: pip)?) (?:install|add|wheel)((?: +-\S+| +https?://\S+)*) +['\"]?{_NAME}{_BEHIND}"
)
_UNPACKED = re.compile(r"pip-(?:install|wheel|req-build)-\w+[/\\]([A-Za-z][\w.-]*?)_[0-9a-f]{6,}[/\\]")
_EGG = re.compile(r"^([A-Za-z_]\w*)-\d[^/\\]*\.egg$")
_IMPORTED = re.compile(r"^ *(?:ImportError|OSError): ([^\n]+\.(?:so|pyd)\b)", re.MULTILINE)
_COLLECTED = re.compile(rf"^ *Collecting {_NAME}(?=[\s=<>!~\[;]|$)", re.MULTILINE)
_PATH = re.compile(r"(?:site|dist)-packages[/\\]([A-Za-z_][\w.-]{0,120})")
_FRAME = re.compile(
    r"^[^\"\n]{0,120}?File \"[^\"\n]*(?:site|dist)-packages[/\\]([A-Za-z_]\w{0,60})[/\\.][^\"\n]*\", line \d+",
    re.MULTILINE,
)
_FROM_SOURCES = re.compile(
    r"\bsetup\.py (?:develop|install|build_ext|build)\b|\bpip3? (?:install|wheel) (?:-\S+ )*-e? ?\.(?:\s|$|\[)|"
    r"\bpip wheel \.(?:\s|$)",
    re.MULTILINE,
)
_NO_PACKAGES = frozenset(
    {
        "installable",
        "wheels",
        "wheel",
        "one",
        "or",
        "the",
        "a",
        "package",
        "requirement",
        "install",
        "editable",
        "cuda",
        "extension",
        "kernel",
        "kernels",
    }
)
# Modules whose package is called otherwise, and parts of files' names that tell the package.
_OF_MODULE = {
    "cv2": "opencv-python",
    "_torch_sox": "torchaudio",
    "skimage": "scikit-image",
    "pil": "pillow",
    "llama_cpp": "llama-cpp-python",
    "flash_attn_2_cuda": "flash-attn",
    "flash_attn_cuda": "flash-attn",
    "flash_attn": "flash-attn",
    "flash_attn_3": "flash-attn",
    "onnxruntime": "onnxruntime-gpu",
    "faiss": "faiss-gpu-cu12",
    "causal_conv1d_cuda": "causal-conv1d",
    "selective_scan_cuda": "mamba-ssm",
    "mmcv_ext": "mmcv",
    "awq_ext": "autoawq",
    "exllamav2_ext": "exllamav2",
    "exllama_kernels": "auto-gptq",
    "autogptq_cuda": "auto-gptq",
    "sklearn": "scikit-learn",
    "transformer_engine_torch": "transformer-engine",
    "fused_dense_lib": "flash-attn",
    "dropout_layer_norm": "flash-attn",
    "rotary_emb": "flash-attn",
    "groundingdino": "groundingdino",
    "_minkowskiengine": "MinkowskiEngine",
    "minkowskienginebackend": "MinkowskiEngine",
    "amp_c": "apex",
    "apex_c": "apex",
    "fused_layer_norm_cuda": "apex",
    "_raster": "diff-gaussian-rasterization",
    "_torch_scatter": "torch-scatter",
    "xgboost": "xgboost",
    "paddle": "paddlepaddle-gpu",
    "spconv": "spconv",
    "sgl_kernel": "sgl-kernel",
    "diff_gaussian_rasterization": "diff-gaussian-rasterization",
    "simple_knn": "simple-knn",
    "nvdiffrast": "nvdiffrast",
}
_TELLS = (
    (r"xformers", "xformers"),
    (r"flash[-_]attn|flash[-_]attention|flash_fwd_launch|flash_bwd_launch", "flash-attn"),
    (r"bitsandbytes|/csrc/ops\.cu\b", "bitsandbytes"),
    (r"llama_cpp|llama-cpp-python", "llama-cpp-python"),
    (r"onnxruntime", "onnxruntime-gpu"),
    (r"\bpaddle[\\/]|paddlepaddle", "paddlepaddle-gpu"),
    (r"\bctranslate2", "ctranslate2"),
    (r"\bcupy", "cupy"),
    (r"causal[-_]conv1d", "causal-conv1d"),
    (r"mamba[-_]ssm|selective_scan", "mamba-ssm"),
    (r"\bvllm\b", "vllm"),
    (r"\bsglang\b|sgl[-_]kernel", "sgl-kernel"),
    (r"torch[-_]scatter|torch_sparse|torch_cluster", "torch-scatter"),
    (r"auto[-_]?gptq", "auto-gptq"),
    (r"deepspeed", "deepspeed"),
    (r"detectron2", "detectron2"),
    (r"\bmmcv\b", "mmcv"),
    (r"pytorch3d", "pytorch3d"),
    (r"sageattention|sageattn", "sageattention"),
    (r"tiny[-_]?cuda[-_]?nn", "tinycudann"),
    (r"nvdiffrast", "nvdiffrast"),
    (r"minkowskiengine", "MinkowskiEngine"),
    (r"diff[-_]gaussian[-_]rast", "diff-gaussian-rasterization"),
    (r"simple[-_]knn", "simple-knn"),
    (r"pointnet2[-_]ops", "pointnet2-ops"),
    (r"\bgsplat\b|splatfacto", "gsplat"),
    (r"\bspconv\b", "spconv"),
    (r"torchsparse", "torchsparse"),
    (r"groundingdino", "groundingdino"),
    (r"\bapex\b|fused_layer_norm_cuda|\bamp_c\b|multi_tensor_(lamb|l2norm|sgd|axpby)", "apex"),
)
# A file of these says that a package is missing something, and is not its own.
_NOBODYS = frozenset({"torch", "nvidia", "numpy", "lib", "cuda", "build"})
# Their frames stand in every traceback, and say nothing of who failed.
_EVERYBODYS = frozenset(
    {
        "torch",
        "torchvision",
        "torchaudio",
        "triton",
        "nvidia",
        "numpy",
        "setuptools",
        "pip",
        "pkg_resources",
        "_distutils_hack",
        "wheel",
        "transformers",
        "accelerate",
        "ray",
        "multiprocess",
        "importlib",
        "pydantic",
        "fastapi",
        "uvicorn",
        "starlette",
        "gradio",
        "click",
        "typer",
        "ipykernel",
        "ipython",
        "pytest",
        "_pytest",
        "pluggy",
        "functools",
        "lightning",
        "pytorch_lightning",
        "lib",
        "cuda",
        "build",
    }
)


def normal(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()


def of_module(name: str) -> str:
    """The package of a module, of the file of one, or of an egg; a file's name may end by what is in it."""
    egg = _EGG.match(name)
    if egg:
        return normal(egg[1])
    file = re.search(r"\.(so|pyd|dll)$", name)
    stem = re.sub(r"(\.cpython-\S+|\.abi3|\.cp\d+\S*)?\.(so|pyd|dll)$", "", name).partition(".")[0]
    known = _OF_MODULE.get(stem.lower())
    if known:
        return known
    stem = re.sub(r"_(cuda|cpp|ext|kernels?)$", "", stem) if file else stem
    return normal(re.sub(r"^_+(?=\w)", "", stem))


def by_pip(log: str) -> list[str]:
    """Names that a package manager says, in the log's order."""
    return [name for name in _BY_PIP.findall(log) if name.lower() not in _NO_PACKAGES]


def by_path(text: str) -> Iterator[str]:
    """Those of whose files a text speaks; of its last part first."""
    for name in reversed(_PATH.findall(text)):
        if not re.search(r"\.(dist|egg)-info", name) and name.lower() not in _NOBODYS:
            yield of_module(name)


def by_import(log: str) -> Iterator[str]:
    """Those whose file could not be imported, where the reason stands on a line of its own."""
    return by_path("\n".join(_IMPORTED.findall(log)))


def by_frames(log: str) -> Iterator[str]:
    """Those of the frames of tracebacks, the innermost first."""
    for name in reversed(_FRAME.findall(log)):
        if name.lower() not in _EVERYBODYS:
            yield of_module(name)


def unpacked(log: str) -> list[str]:
    """Those in whose unpacked sources pip works, under a name and a number of its own; else what it collected last."""
    found: list[str] = _UNPACKED.findall(log)
    return found or _COLLECTED.findall(log)[-1:]


def asked(log: str) -> list[str]:
    """What somebody told pip or uv to install."""
    return [name for _, name in _ASKED.findall(log) if name.lower() not in _NO_PACKAGES]


def told(text: str) -> str:
    """The package whose name or source files a line shows."""
    return next((name for pattern, name in _TELLS if re.search(pattern, text, re.IGNORECASE)), "")


def tell(text: str) -> list[str]:
    """All packages whose names or source files a text shows."""
    return [name for pattern, name in _TELLS if re.search(pattern, text, re.IGNORECASE)]


def from_sources(log: str) -> bool:
    """Whether the project in the current directory is built."""
    return bool(_FROM_SOURCES.search(log))


def only(names: Iterable[str]) -> str:
    """The name where all are one."""
    found = {normal(name): name for name in names}
    return next(iter(found.values())) if len(found) == 1 else ""
