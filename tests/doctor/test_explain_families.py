# SPDX-License-Identifier: MIT
"""What a package is, what a log shows to be there, and what was tried already decide the first command. The lines are
made up, in the form in which programs print them.
"""

from __future__ import annotations

import pytest

from kernelwright.doctor.explain import explain
from kernelwright.doctor.explain.cures import _families as families
from kernelwright.doctor.explain.cures._prompt import in_cmd
from kernelwright.doctor.explain.said import Said, _seen

SITE = "/srv/env/lib/python3.11/site-packages"
SYMBOL = "undefined symbol: _ZN2at4_ops4ones4callEN3c108ArrayRefIlEE"
NO_IMAGE = "RuntimeError: CUDA error: no kernel image is available for execution on the device"
OTHER = (
    "The detected CUDA version ({}) mismatches the version that was used to compile\n"
    "PyTorch ({}). Please make sure to use the same CUDA versions.\nERROR: Failed building wheel for {}"
)
GONE = "cannot open shared object file: No such file or directory"
ORT = (
    "[ONNXRuntimeError] : 1 : FAIL : Failed to load library libonnxruntime_providers_cuda.so with error: libcudnn.so.9: "
    + GONE
)
NEEDS_LIST = (
    "OSError: Unknown compute capability. Specify the target compute capabilities in the TCNN_CUDA_ARCHITECTURES "
    "environment variable or install PyTorch with the CUDA backend to detect it automatically."
)
NUMBA = (
    "numba.cuda.cudadrv.driver.LinkerError: [222] Call to cuLinkAddData results in CUDA_ERROR_UNSUPPORTED_PTX_VERSION\n"
    "ptxas application ptx input, line 9; fatal   : Unsupported .version {}; current version is '{}'"
)
NVML = "Failed to initialize NVML: Unknown Error"


def fix(log):
    return explain(log).answers[0].fix


PACKAGES = [
    (f"ImportError: {SITE}/pytorch3d/_C.so: {SYMBOL}", "KW-020", "git+https://github.com/facebookresearch/pytorch3d@stable"),
    (f"apex is here\n{NO_IMAGE}", "KW-010", "git+https://github.com/NVIDIA/apex --config-settings"),
    (OTHER.format("11.8", "12.1", "torch-scatter"), "KW-041", 'torch-scatter -f "https://data.pyg.org/whl/torch-$('),
    (f"torch 2.1.2+cu121\n{OTHER.format('11.8', '12.1', 'torch-sparse')}", "KW-041", "whl/torch-2.1.2+cu121.html"),
    (OTHER.format("12.3", "11.7", "flash-attn"), "KW-041", "FLASH_ATTENTION_SKIP_CUDA_BUILD=TRUE python -m pip install"),
    (f"Precompiled wheel not found. Building from source...\n{OTHER.format('12.3', '12.1', 'flash-attn')}", "KW-041", "cuda-toolkit-12-1"),
    ("OSError: Could not find compatible tinycudann extension for compute capability 70.", "KW-010", "TCNN_CUDA_ARCHITECTURES=70 "),
    (f"RTX 3090\n{NEEDS_LIST}", "KW-090", "TCNN_CUDA_ARCHITECTURES=86"),
    (f"C:\\x> pip install .\n{NEEDS_LIST}", "KW-090", "do set TCNN_CUDA_ARCHITECTURES=%i%j"),
    ("tiny_cuda_nn, RTX 4090\nnvcc fatal   : Unsupported gpu architecture 'compute_89'", "KW-044", "TCNN_CUDA_ARCHITECTURES=86"),
    (f'  File "{SITE}/vllm/platforms/cuda.py", line 15\nImportError: libcudart.so.12: {GONE}', "KW-050", "--force-reinstall vllm"),
    ("ImportError: cannot import name '_C' from 'scan3d' (/srv/scans/scan3d/scan3d/__init__.py)", "KW-093", "cd /srv/scans/scan3d && FORCE_CUDA=1 "),
    (('  File "/srv/detect/roi/layers/align.py", line 31, in forward\nRuntimeError: Not compiled with GPU support'),
     "KW-100", "cd /srv/detect/roi/layers && until [ -e setup.py ]"),
    (f'  File "/srv/net/ops/roi_align/roi.py", line 30, in forward\n{NO_IMAGE}', "KW-010", "cd /srv/net/ops/roi_align"),
    ("$ python train.py\nCUDA kernel failed : no kernel image is available for execution on the device", "KW-010", "if [ -e setup.py ]; then"),
]  # fmt: skip

THERE = [
    (f"ImportError: libcudart.so.11.0: {GONE}\nfind says /opt/cuda-11.2/lib64/libcudart.so.11.0", "KW-050",
     "export LD_LIBRARY_PATH=/opt/cuda-11.2/lib64:"),
    (f"./a.out: error while loading shared libraries: libcudart.so.11.0: {GONE}", "KW-050", "find / -name libcudart.so.11.0"),
    (f"release 11.4, V11.4.48\nImportError: libcublas.so.11: {GONE}", "KW-050", "find / -name libcublas.so.11"),
    (ORT, "KW-050", '[cuda,cudnn]" && export LD_LIBRARY_PATH='),
    (f"library(tensorflow)\nR version 4.3.1\nCould not load dynamic library 'libcudart.so.12'; dlerror: libcudart.so.12: {GONE}",
     "KW-050", "Rscript -e 'reticulate::py_install"),
    ("NixOS 24.05\nRuntimeError: CUDA unknown error - this may be due to an incorrectly set up environment", "KW-009", "/run/opengl-driver/lib"),
    ("macOS 14\nAssertionError: Torch not compiled with CUDA enabled", "KW-021", 'to("mps")'),
    ("libKMCUDA: CUDA_TOOLKIT_ROOT_DIR environment variable must be defined", "KW-040", "cuda-toolkit"),
    ("error: command ':/usr/local/cuda/bin/nvcc' failed: No such file or directory", "KW-081", "export CUDA_HOME=/usr/local/cuda"),
    ("$ docker run -it scan:latest python run.py\ncuda runtime error (35) : CUDA driver version is insufficient for CUDA runtime version",
     "KW-003", "docker run --gpus all"),
    (f"$ docker run --rm --gpus all ubuntu nvidia-smi\n{NVML}", "KW-122", "no-cgroups = false"),
    (f"works, and after some hours:\n$ docker run --rm --gpus all ubuntu nvidia-smi\n{NVML}", "KW-122", "create-dev-char-symlinks"),
    ("ORT failure OrtSessionOptionsAppendExecutionProvider_Cuda: Failed to load shared library\nonnxruntime, Windows 10", "KW-050",
     "winget install --id Nvidia.CUDA"),
    ("C:\\x> python run.py\nWARNING:jax._src.xla_bridge:No GPU/TPU found, falling back to CPU.", "KW-100", "wsl.exe --install"),
    ("jax 0.4\nCan't find libdevice directory ${CUDA_DIR}/nvvm/libdevice.", "KW-045", "XLA_FLAGS="),
]  # fmt: skip

SYSTEMS = [
    ("C:\\x> python run.py\nfailed call to cuInit: CUDA_ERROR_UNKNOWN: unknown error", "KW-009", "shutdown /r"),
    ("microsoft-standard-WSL2\nUserWarning: CUDA initialization: Unexpected error from cudaGetDeviceCount(). Error 2: out of memory",
     "KW-009", "wsl.exe --shutdown"),
    ("wsl, Windows [Version 10.0.19042.1052]\nNVIDIA-SMI has failed because it couldn't communicate with the NVIDIA driver.",
     "KW-008", "ms-settings:windowsupdate"),
    ("RuntimeError: Ninja is required to load C++ extensions", "KW-047", 'get_path("scripts")'),
    ("RuntimeError: Error building extension 'scan_op'", "KW-049", 'rm -rf "${TORCH_EXTENSIONS_DIR:-'),
    (("C:\\x> python\nWARNING[XFORMERS]: xFormers can't load C++/CUDA extensions. xFormers was built for:\n"
     "  PyTorch 2.1.2+cu121 with CUDA 1201 (you have 2.1.2+cpu)"), "KW-020", "xformers torch torchvision --index-url"),
    (f"    import torch_scatter\nOSError: libtorch_cuda_cpp.so: {GONE}", "KW-020", "data.pyg.org"),
    ("assert any(os.path.exists(os.path.join(path, 'libcuda.so')) for path in dirs), msg\nAssertionError: libcuda.so cannot found!",
     "KW-115", "ln -sf libcuda.so.1"),
    (f"library(keras)\ntensorflow-gpu==1.4.0\n/srv/anaconda2\nImportError: libcublas.so.8.0: {GONE}", "KW-050", '"cudatoolkit=8.0"'),
]  # fmt: skip

PROGRAMS = [
    ("error: failed to run custom build command for `cudarc v0.11.8`\nUnsupported cuda toolkit version: `12.6`. Please raise an issue.",
     "KW-041", "cargo update -p cudarc"),
    ("cargo:rerun-if-env-changed=CUDARC_CUDA_VERSION\nfailed to run custom build command for `cudarc`\nUnsupported cuda toolkit version: `13.3`.",
     "KW-041", "export CUDARC_CUDA_VERSION="),
    ('thread main panicked at cudarc-0.11.4/src/nvrtc/sys/mod.rs:51:9:\nUnable to find nvrtc lib under the names ["nvrtc", "nvrtc64", "nvrtc64_12", "nvrtc64_125"]. Please open an issue.', "KW-050",
     "cargo update -p cudarc"),
    (f"ImportError: {SITE}/points_cuda.so: undefined symbol: _ZN8pybind116detail11type_casterIN2at6TensorEvE4loadENS_6handleEb",
     "KW-020", "--no-binary points"),
    (f"ImportError: ~/src/scans/ops/scan_cuda.so: {SYMBOL}", "KW-020", "cd ~/src/scans/ops && until"),
    ("nvcc fatal   : Path to libdevice library not specified", "KW-045", "[ -x /usr/local/cuda/bin/nvcc ] || "),
    ("Driver 575.57.08\ncu->cuInit(0) failed -> CUDA_ERROR_NOT_INITIALIZED: initialization error", "KW-009", "uvm_disable_hmm=1"),
    ("nvidia-container-cli: initialization error: cuda error: unknown error", "KW-009", "sudo reboot"),
    ('C:\\x> cmake .\nrelease 11.8, V11.8.89\nCMake Error at DetermineId.cmake:739 (message):\n  Compiling the CUDA compiler identification source file\n  "CMakeCUDACompilerId.cu" failed.',
     "KW-048", 'CMAKE_CUDA_COMPILER="C:/Program Files/NVIDIA GPU Computing Toolkit/CUDA/v11.8/bin/nvcc.exe"'),
    ("ModuleNotFoundError: No module named 'diff_gaussian_rasterization'", "KW-093", "git+https://github.com/graphdeco-inria/"),
    ("failed to resolve reference docker.io/nvidia/cuda:9.0-base: docker.io/nvidia/cuda:9.0-base: not found", "KW-107", "-base-ubuntu20.04"),
    ("google colab\nRuntimeError: Library libcublas.so.11 is not found or cannot be loaded", "KW-050", "/etc/ld.so.conf.d/nvidia.conf && ldconfig"),
    (f"CUDA/cuDNN version: 9.0\nTensorFlow 1.13.1\nImportError: libcublas.so.10.0: {GONE}", "KW-050", "tensorflow-gpu==1.12.0"),
    (("E tensorflow/stream_executor/cuda/cuda_dnn.cc:378] Loaded runtime CuDNN library: 6021 (compatibility version 6000) but source was "
     "compiled with 5105 (compatibility version 5100)."), "KW-051", "cudnn>=5.1,<6"),
    ("/srv/conda/envs/x\n/usr/bin/ld: cannot find -lcudart\ncollect2: error: ld returned 1 exit status", "KW-045", "LIBRARY_PATH=$CUDA_HOME/lib:"),
    ("ns-train splatfacto\n" + NO_IMAGE, "KW-010", "--no-binary gsplat gsplat"),
]  # fmt: skip

LATER = [
    ('venv "C:\\x\\webui\\venv\\Scripts\\Python.exe"\nRuntimeError: Torch is not able to use GPU; add --skip-torch-cuda-test', "KW-021",
     "webui\\venv\\Scripts\\python.exe -m pip install --force-reinstall torch"),
    ("NameError: name 'selective_scan_cuda' is not defined", "KW-093", " mamba-ssm"),
    ("NameError: name 'selective_scan_cuda_core' is not defined", "KW-093", "*kernels/selective_scan"),
    ('scan.cu(30): error: namespace "thrust" has no member "host_vector"', "KW-131", "-include thrust/host_vector.h"),
    ('/opt/cuda/include/crt/host_config.h:100:2: error: #error "Unsupported NVHPC compiler found. nvc++ is the only one."', "KW-043",
     "export CC=gcc CXX=g++"),
    ("RuntimeError: Couldn't load custom C++ ops. This can happen if your versions are incompatible", "KW-020", "torch torchvision torchaudio"),
    ("RuntimeError: cuDNN version mismatch: PyTorch was compiled against 7102 but linked against 7605", "KW-051", "cudnn=7.1.2"),
    (f'  File "{SITE}/spconv/core.py", line 21\nImportError: cannot import name \'ConvInput\' from \'cumm.conv.main\'', "KW-096",
     "install --no-cache-dir spconv-cu126"),
    ("torch 1.13.1+cu117\nERROR: No matching distribution found for cumm<0.5.0", "KW-024", "install --no-cache-dir spconv-cu117"),
    (f'  File "{SITE}/spconv/algo.py", line 6\nValueError: /io/include/tensorview/tensor.h(171)\ndon\'t compiled with cuda', "KW-100",
     "uninstall -y spconv cumm "),
]  # fmt: skip

GIVEN = [
    ("Processing /srv/scans/scan-ext\nGetting requirements to build wheel ... error\nModuleNotFoundError: No module named 'torch'",
     "KW-022", "install --no-build-isolation /srv/scans/scan-ext"),
    ("Collecting pytorch3d\nGetting requirements to build wheel ... error\nModuleNotFoundError: No module named 'torch'",
     "KW-022", "--no-build-isolation git+https://github.com/facebookresearch/pytorch3d@stable"),
    ("Using cached torch-0.1.2.post2.tar.gz (128 kB)\nFailed to build torch", "KW-024", "python=3.12"),
    ("C:\\x> pip install torch\nUsing cached torch-0.1.2.post2.tar.gz (128 kB)", "KW-024", "winget install --id Python.Python.3.12"),
    ("Building NVCC (Device) object x.dir/x_generated_scan.cu.o\nnvcc fatal   : Unsupported gpu architecture 'compute_20'\nCMake Error at x.cmake:9",
     "KW-044", "grep -rlE 'compute_20|sm_20'"),
]  # fmt: skip

TRIED = [
    ("I ran pip install tensorflow[and-cuda] and still get\nCannot dlopen some GPU libraries.", "KW-050", "export LD_LIBRARY_PATH="),
    (f"I reinstalled flash_attn, same error\nImportError: {SITE}/flash_attn_2_cuda.so: {SYMBOL}", "KW-020", "FORCE_BUILD=TRUE"),
    (f"{NUMBA.format('8.7', '8.4')}\nI tried pynvjitlink, it did not help", "KW-005", "unset CUDA_HOME CUDA_PATH && "),
    (NUMBA.format("8.7", "8.4"), "KW-005", "pynvjitlink-cu12"),
    (f"colab\n{NUMBA.format('8.5', '8.4')}", "KW-005", '"numba-cuda[cu12]" pynvjitlink-cu12'),
    (NUMBA.format("7.3", "7.2"), "KW-005", '-c conda-forge "cudatoolkit=11.2"'),
    (NUMBA.format("6.3", "6.1"), "KW-005", 'conda install -y "cudatoolkit=9.0"'),
]  # fmt: skip


@pytest.mark.parametrize(("log", "code", "wanted"), PACKAGES + THERE + SYSTEMS + PROGRAMS + LATER + GIVEN + TRIED)
def test_the_first_command(log, code, wanted):
    answer = explain(log).answers[0]
    assert answer.cause.code == code
    assert wanted in answer.fix, answer.fix


def test_a_board_takes_no_wheels_for_servers():
    log = f"jetson orin, R36 (release), REVISION: 4.3\n{OTHER.format('11.8', '12.1', 'torch-scatter')}"
    assert "data.pyg.org" not in fix(log)


def test_a_torch_that_no_wheel_is_for_is_compiled_for():
    assert families.wheel(Said("nvcr.io/nvidia/pytorch:24.01-py3"), "flash-attn") is None
    assert families.wheel(Said("torch 2.9.0.dev20260101+cu128"), "torch-scatter") is None
    assert families.wheel(Said(""), "scan") is None


def test_every_repository_has_a_name_that_it_is_found_by():
    assert families.requirement("PyTorch3D") == families.requirement("pytorch3d")
    assert families.requirement("tiny-cuda-nn").startswith('"git+https://github.com/NVlabs/tiny-cuda-nn#subdirectory=')
    assert families.requirement("scan") == "--no-binary scan scan"


@pytest.mark.parametrize(
    ("text", "place"),
    [
        ("/opt/cuda-11.2/lib64/libcublas.so.11", "/opt/cuda-11.2/lib64"),
        ("/opt/cuda-11.2/lib64/libcublas.so.11.2.1", ""),
        (f"/opt/x/libcublas.so.11: {GONE}", ""),
        ("libcublas.so.11 => not found", ""),
        ("/opt/../etc/libcublas.so.11", ""),
        ("/usr/local/cuda/lib64/stubs/libcublas.so.11", ""),
        ("$(reboot)/libcublas.so.11", ""),
    ],
)
def test_where_a_library_lies(text, place):
    assert _seen.place_of("libcublas.so.11", text) == place


@pytest.mark.parametrize(
    ("text", "tried"),
    [
        ("I did pip install --upgrade scan, but the error is still there", True),
        ("Even after pip install --upgrade scan it fails", True),
        ("ERROR: it is still missing, please run pip install --upgrade scan", False),
        ("$ pip install --upgrade scan\nCollecting scan", False),
    ],
)
def test_what_was_tried_in_vain(text, tried):
    assert _seen.tried("pip install --upgrade scan", text) is tried


@pytest.mark.parametrize(
    ("unix", "cmd"),
    [
        ('export A="8.6" B=86', 'set "A=8.6" & set "B=86"'),
        ("FORCE_CUDA=1 MAX_JOBS=4 python -m pip install scan", 'set "FORCE_CUDA=1" & set "MAX_JOBS=4" & python -m pip install scan'),
        ("unset HTTP_PROXY HTTPS_PROXY && python -m pip install scan", 'set "HTTP_PROXY=" & set "HTTPS_PROXY=" & python -m pip install scan'),
        ("unset CUDA_VISIBLE_DEVICES", 'set "CUDA_VISIBLE_DEVICES="'),
        ("cd / && FORCE_CUDA=1 python -m pip install scan", 'cd \\ && set "FORCE_CUDA=1" & python -m pip install scan'),
        ("rm -rf build && python -m pip install .", "rmdir /s /q build & python -m pip install ."),
        ("winget install --id Nvidia.CUDA", "winget install --id Nvidia.CUDA"),
        ("sudo apt-get install -y x && export A=1", "sudo apt-get install -y x && export A=1"),
    ],
)  # fmt: skip
def test_a_command_for_the_prompt_of_windows(unix, cmd):
    assert in_cmd(unix) == cmd
