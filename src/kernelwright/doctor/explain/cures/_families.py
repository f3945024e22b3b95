# SPDX-License-Identifier: MIT
"""What kind of package failed, and hence what brings a working one: some are no name on the index but a repository,
some have wheels for each torch on a page of their own, some fetch theirs unless they are told to compile.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from kernelwright.doctor.explain.said._packages import normal

if TYPE_CHECKING:
    from kernelwright.doctor.explain.said import Said

# Packages that the index does not have, or has only in part: where their sources are.
_REPOSITORIES = {
    "apex": "https://github.com/NVIDIA/apex",
    "detectron2": "https://github.com/facebookresearch/detectron2",
    "diff-gaussian-rasterization": "https://github.com/graphdeco-inria/diff-gaussian-rasterization",
    "fused-ssim": "https://github.com/rahul-goel/fused-ssim",
    "groundingdino": "https://github.com/IDEA-Research/GroundingDINO",
    "minkowskiengine": "https://github.com/NVIDIA/MinkowskiEngine",
    "nvdiffrast": "https://github.com/NVlabs/nvdiffrast",
    "pointnet2-ops": "https://github.com/erikwijmans/Pointnet2_PyTorch#subdirectory=pointnet2_ops_lib",
    "pytorch3d": "https://github.com/facebookresearch/pytorch3d@stable",
    "simple-knn": "https://github.com/camenduru/simple-knn",
    "tinycudann": "https://github.com/NVlabs/tiny-cuda-nn#subdirectory=bindings/torch",
    "torchsparse": "https://github.com/mit-han-lab/torchsparse",
}
# The same under another name.
_CALLED = {"groundingdino-py": "groundingdino", "tiny-cuda-nn": "tinycudann", "mmcv-full": "mmcv"}
# Their setup leaves CUDA out where no GPU is to be seen, as in a container while it is built.
_ASK_FOR_CUDA = frozenset({"detectron2", "groundingdino", "minkowskiengine", "pytorch3d", "torchvision", "torchsparse"})
# They declare exactly one torch, which pip brings with them.
BRING_TORCH = frozenset({"xformers", "vllm", "torchaudio", "torchtext", "sgl-kernel", "torchao"})
_OF_APEX = '--config-settings "--build-option=--cpp_ext" --config-settings "--build-option=--cuda_ext"'
# Packages whose page has wheels by the release of torch, with the label of its CUDA: what each is installed with.
_OF_PYG = frozenset({"torch-scatter", "torch-sparse", "torch-cluster", "torch-spline-conv", "pyg-lib"})
_LABEL = "$(python -c 'import torch; print(torch.__version__)')"
_FETCHES = {"flash-attn": "FLASH_ATTENTION_SKIP_CUDA_BUILD=TRUE", "mamba-ssm": "MAMBA_SKIP_CUDA_BUILD=TRUE",
            "causal-conv1d": "CAUSAL_CONV1D_SKIP_CUDA_BUILD=TRUE"}  # fmt: skip
_WHOLE = "--force-reinstall --no-deps --no-build-isolation --no-cache-dir"


def named(package: str) -> str:
    """The package under the name that these tables have."""
    name = normal(package)
    return _CALLED.get(name, name)


def requirement(package: str) -> str:
    """What pip is told so that it compiles the package."""
    repository = _REPOSITORIES.get(named(package))
    if repository is None:
        return f"--no-binary {package} {package}"
    place, mark, rest = repository.partition("#")
    options = f" {_OF_APEX}" if named(package) == "apex" else ""
    wanted = f'"git+{place}{mark}{rest}"' if mark else f"git+{place}"
    return f"{wanted}{options}"


def is_of_repository(package: str) -> bool:
    return named(package or "x") in _REPOSITORIES


def given(package: str) -> str:
    """Variables that its setup wants before it compiles for a GPU, with a space behind them."""
    return "FORCE_CUDA=1 " if named(package) in _ASK_FOR_CUDA else ""


def whole(package: str) -> str:
    """pip's words for a package that is compiled for what is here."""
    return f"install {_WHOLE} {requirement(package)}"


def wheel(said: Said, package: str) -> tuple[str, str] | None:
    """Words for pip that bring a wheel for the torch that is here, so that nothing is compiled, and variables before
    them; None where nobody makes such wheels.
    """
    name = named(package)
    if said.jetson or said.windows or said.has(r"aarch64|arm64|\bmac ?os|\d\.\d+a0\+|nvcr\.io|\bnv\d\d\.\d\d"):
        return None
    if said.has(r"precompiled wheel not found|torch[^\n]{0,40}\.dev20\d{6}"):
        return None
    if name in _OF_PYG:
        release = f"{said.torch}+cu{said.torch_cuda.replace('.', '')}" if said.torch and said.torch_cuda else _LABEL
        return f'install --force-reinstall --no-deps {name} -f "https://data.pyg.org/whl/torch-{release}.html"', ""
    if name in _FETCHES:
        return f"install {_WHOLE} {name}", f"{_FETCHES[name]} "
    return None


# CUDA's releases, as digits, that spconv has wheels for, and those whose packages are found beside others.
_OF_SPCONV, _BESIDE = frozenset({113, 114, 116, 117, 118, 120, 121, 124, 126}), frozenset({113, 114, 120})


def is_spconv(said: Said) -> bool:
    return named(said.package or "x").startswith(("spconv", "cumm")) or bool(said.shows(r"\b(cumm|tensorview|tv::)"))


def spconv(said: Said) -> str:
    """Both of its packages anew, of one CUDA release, which has to be torch's; beside another they break."""
    own = int(said.torch_cuda.replace(".", "") or 0)
    fit = own if own in _OF_SPCONV else 118 if said.torch_cuda.startswith("11") else max(_OF_SPCONV)
    kinds = " ".join(f"{name}-cu{one}" for name in ("spconv", "cumm") for one in sorted({fit, *_BESIDE}))
    label = f"cu{fit}"
    return f"python -m pip uninstall -y spconv cumm {kinds} && python -m pip install --no-cache-dir spconv-{label}"
