# SPDX-License-Identifier: MIT
"""Classes of logs that once got another name or another first command than ends them, one line for each. The lines are
made up, after what threads of many projects have.
"""

from __future__ import annotations

import pytest

from kernelwright.doctor.explain import Confidence, explain

SITE = "/srv/env/lib/python3.8/site-packages"
GNU = "{}/include/crt/host_config.h:143:2: error: #error -- unsupported GNU version! gcc versions later than 12 are not supported!"
GPU = "nvcc fatal   : Unsupported gpu architecture 'compute_{}'"
NO_HOME = "OSError: CUDA_HOME environment variable is not set. Please set it to your CUDA install root."
COMPAT = "RuntimeError: Unexpected error from cudaGetDeviceCount(). Error 804: forward compatibility was attempted on non supported HW"
DSO = "2024-03-01 10:11:12.131415: W tensorflow/stream_executor/platform/default/dso_loader.cc:64] Could not load dynamic library '{0}'; dlerror: {1}"
CUDNN = "E tensorflow/stream_executor/cuda/cuda_dnn.cc:319] Loaded runtime CuDNN library: {} but source was compiled with: {}.  CuDNN"
REPORT = (
    "PyTorch version: 2.1.0\nCUDA used to build PyTorch: {}\nROCM used to build PyTorch: N/A\nIs CUDA available: False\n"
    "GPU models and configuration: GPU 0: NVIDIA GeForce RTX 3070\nNvidia driver version: {}\n"
)
GONE = "cannot open shared object file: No such file or directory"

NAMES = [
    ("jaxlib: ptxas /tmp/t-51, line 9; fatal   : Unsupported .version 8.4; current version is '8.2'", "KW-041", "nvidia-cuda-nvcc-cu12 && "),
    ("ptxas /tmp/kern.ptx, line 9; fatal   : Unsupported .version 8.5; current version is '7.5'", "KW-041", "cuda-toolkit-12-6"),
    ("W tensorflow/x.cc:230] Falling back to the driver; ptxas does not support CC 8.9\nCUDA_ERROR_NOT_FOUND: named symbol not found",
     "KW-044", "XLA_FLAGS="),
    ("c1xx: fatal error C1083: Cannot open source file: 'C:\\Users\\Zo\u00eb\\AppData\\Local\\Temp\\tmpxft_01.cudafe1.cpp'", "KW-130", "set TEMP="),
    ('catastrophic error: cannot open source file "C:\\Users\\\u4e2d\u6587\\AppData\\Local\\Temp\\t.cu"', "KW-130", "set TMP="),
    (f"root@0123456789ab:/# python\n| NVIDIA-SMI 470.82.01    Driver Version: 470.82.01 |\n{COMPAT}", "KW-003", "ubuntu-drivers install"),
    (f"$ sudo apt upgrade\n{COMPAT}", "KW-004", "sudo reboot"),
    ("Two RTX 3090, torch 1.7.1+cu102\nncclUnhandledCudaError: Call to CUDA functions failed.", "KW-010", "torch==1.7.1+cu110 "),
    ("thread 'main' panicked at build.rs: Unable to find libclang: \"couldn't find any valid shared libraries\"", "KW-047", "libclang-dev"),
    ("Fedora 41\nUnable to find libclang", "KW-047", "dnf install -y clang-devel"),
    ("W tensorflow/core/op_kernel.cc:1816] UNIMPLEMENTED: DNN library is not found.", "KW-051", "tensorflow[and-cuda]"),
    (("RuntimeError: The current installed version of g++ (4.8.5) is less than the minimum required version by CUDA 11.7 (6.0.0). "
     "Please make sure to use an adequate version of g++ (>=6.0.0, <12.0)."), "KW-098", '"gxx=11"'),
    ("ERROR: LoadError: CUDA toolkit at  doesn't contain nvcc", "KW-040", "cuda-toolkit"),
    ("CMake Error at CMakeLists.txt:255 (message):\n  You must set CMAKE_CUDA_ARCHITECTURES to e.g.  'native', 'all-major', '70',\n  etc.",
     "KW-090", "CUDAARCHS="),
    ("Failed to create CUDAExecutionProvider. Require cuDNN 9.* and CUDA 12.*, and the latest MSVC runtime.", "KW-050", "onnxruntime-gpu["),
    (GPU.format("native"), "KW-090", '-DCMAKE_CUDA_ARCHITECTURES="80;86;89;90"'),
    (f"RTX 3090\n{GPU.format('No CUDA devices found.')}", "KW-090", '-DCMAKE_CUDA_ARCHITECTURES="86"'),
    (REPORT.format("Could not collect", "551.86"), "KW-021", "install --force-reinstall torch "),
    (REPORT.format("12.1", "470.82"), "KW-003", "ubuntu-drivers install"),
    ('File "/mnt/c/Users/anna/x.py", line 2\nCudaSupportError: Error at driver init: Call to cuInit results in CUDA_ERROR_NO_DEVICE (100)',
     "KW-008", "/usr/lib/wsl/lib"),
]  # fmt: skip

SOURCES = [
    ('scan.cuh(503): error: namespace "thrust" has no member "device"\nerror: command \'/usr/local/cuda-12.0/bin/nvcc\' failed',
     "KW-131", "-include thrust/execution_policy.h"),
    ('scan.cu(12): error: identifier "__shfl_down" is undefined', "KW-131", "__shfl\\1_sync(0xffffffff, "),
    ('scan.cu(12): error: identifier "cudaThreadSynchronize" is undefined', "KW-131", "cudaDeviceSynchronize"),
    ('scan.cu(12): error: identifier "cudaBindTexture" is undefined', "KW-131", "cuda-toolkit-11-8"),
    ('scan.cu(12): error: class "cudaDeviceProp" has no member "clockRate"', "KW-131", "cuda-toolkit-12-8"),
]  # fmt: skip

LINKED = [
    (f"ImportError: {SITE}/pycuda/_driver.so: undefined symbol: cuMemHostRegister_v2", "KW-003", "ubuntu-drivers install"),
    ("the following variables are used in this project, but they are set to NOTFOUND:\nCUDA_CUDA_LIBRARY", "KW-115", "stubs/libcuda.so"),
    ("*** WARNING: nvcc not in path.\nC:\\Program Files\\NVIDIA GPU Computing Toolkit\\CUDA\\v8.0\\include", "KW-040", "CUDA\\v8.0\\bin;%PATH%"),
    (("ERROR: No matching distribution found for scan_ssm.models.seq\n"
     f"ImportError: {SITE}/scan_cuda.so: undefined symbol: _ZN2at4_ops10zeros_like4callE"), "KW-020", "scan"),
    (f"ImportError: {SITE}/scan/_C.so: undefined symbol: _ZNSt15__exception_ptr13exception_ptr10_M_releaseEv", "KW-052", "--no-binary scan"),
]  # fmt: skip

LETTERS = [
    ('Hi, when I run the build I get CUDA_ARCHITECTURES is empty for target "scan" and I do not know why.', "KW-090"),
    ('I am stuck with the error CUDA_ARCHITECTURES is empty for target "scan", any idea?', "KW-090"),
    ("Hi, my container stops to work:\nanna@pc:~$ docker exec -it web nvidia-smi\nFailed to initialize NVML: Unknown Error\nCan anybody help?",
     "KW-122"),
    ("Hi, my container stops to work after some hours:\nFailed to initialize NVML: Unknown Error\nCan anybody help?", "KW-122"),
]  # fmt: skip

TENSORFLOW = [
    (f"{SITE}/tensorflow\n{DSO.format('libcudart.so.11.0', 'libcudart.so.11.0: ' + GONE)}", "nvidia-cuda-runtime-cu11 nvidia-cublas-cu11 "),
    (f"/srv/conda/envs/x\n{SITE}/tensorflow\n{DSO.format('libcudart.so.11.0', 'libcudart.so.11.0: ' + GONE)}", '"cudatoolkit=11.8" "cudnn=8"'),
    (f"tensorflow-gpu==1.15.0\nImportError: libcublas.so.10.0: {GONE}", '"cudatoolkit=10.0" "cudnn=7"'),
    (f"@tensorflow/tfjs-node-gpu\n{DSO.format('libcudart.so.11.0', 'libcudart.so.11.0: ' + GONE)}", '"cudatoolkit=11.8"'),
    (DSO.format("libcusolver.so.11", f"libnvJitLink.so.12: {GONE}"), "nvidia-nvjitlink-cu12"),
    (DSO.format("cudart64_110.dll", "cudart64_110.dll not found"), "cudatoolkit=11.2 cudnn=8.1"),
    (DSO.format("cudart64_101.dll", "cudart64_101.dll not found"), "cudatoolkit=10.1 cudnn=7.6"),
    (CUDNN.format("7.1.4", "7.6.0"), '"cudnn>=7.6,<8"'),
    (CUDNN.format("8.0.5", "8.1.0"), '"nvidia-cudnn-cu11>=8.1,<9"'),
]  # fmt: skip

BUILDS = [
    (f"/usr/local/cuda-11.1/bin/nvcc -c x.cu\n{GPU.format(89)}", "cuda-toolkit-11-8"),
    (f"Building PyTorch extension for tiny-cuda-nn 1.7\nRTX 3090\n{GPU.format('8.6+PTX')}", "TCNN_CUDA_ARCHITECTURES=86"),
    (f"export PATH=${{PATH}}:/usr/local/cuda-13.0/bin\n{GPU.format('120a')}", "PATH=/usr/local/cuda-13.0/bin:$PATH"),
    (f"Operating systems\n\nWindows\n\n{GPU.format(120)}", "winget install --id Nvidia.CUDA --version 12.8"),
    (GNU.format("/nix/store/abc-cuda-merged-12.2"), "nixpkgs#cudaPackages.backendStdenv.cc"),
    (f"OS: EndeavourOS\n{GNU.format('/usr/local/cuda')}", "pacman -S --needed gcc12"),
    ("gcc-c++-14.2.1-3.fc40.x86_64\nerror: parameter packs not expanded with '...'", "dnf install -y gcc$V-c++"),
    ('cupy: NVRTC catastrophic error: cannot open source file "cuda_fp16.h"', "export CUDA_PATH=/usr/local/cuda"),
    ("Collecting llama-cpp-python\n-- The CUDA compiler identification is unknown\nCompiler: /usr/local/cuda-12.4/bin/nvcc",
     "CUDACXX=/usr/local/cuda-12.4/bin/nvcc CMAKE_ARGS="),
    ("error: failed to run custom build command for `wave-kernels`\nbindgen_cuda\nnvcc error   : 'cicc' died due to signal 9", "RAYON_NUM_THREADS=1"),
    ("C:\\src> cargo build\nrelease 12.4, V12.4.99\nbindgen_cuda: Failed to execute `nvcc`: Os { code: 2, kind: NotFound }",
     'setx CUDA_PATH "C:\\Program Files\\NVIDIA GPU Computing Toolkit\\CUDA\\v12.4"'),
    (("pip install -e .\n2.0.1+cu118\n/tmp/pip-build-env-ab/overlay/torch\nThe detected CUDA version (11.8) mismatches the version that was used "
     "to compile\nPyTorch (12.1)."), "install --no-build-isolation -e ."),
    (f"/srv/conda/envs/x/torch/utils/cpp_extension.py\n{NO_HOME}", "print(torch.version.cuda)')\" && conda install"),
    (f"/srv/x/torch/utils/cpp_extension.py\n{NO_HOME}", "cuda-toolkit-${V/./-}"),
    (f"torch 2.0.1+cu117\n/srv/conda/envs/x\n{NO_HOME}", "-c nvidia/label/cuda-11.7.0 cuda-toolkit=11.7"),
    (f"CUDA built: 12.4\nC:\\x> pip install scan\n{NO_HOME}", "winget install --id Nvidia.CUDA --version 12.4"),
    ("C:\\x\\host_config.h(153): fatal error C1189: #error:  -- unsupported Microsoft Visual Studio version!", "-vcvars_ver=14.38"),
]  # fmt: skip

PACKAGES = [
    (f"ImportError: {SITE}/_torch_sox.cpython-38-x86_64-linux-gnu.so: undefined symbol: _ZN3c1011CPUTensorIdEv", " torchaudio"),
    (f"pip install git+https://github.com/anna/torch_scan\nOSError: {SITE}/torch_scan/_core.so: undefined symbol: _ZNK3c106SymInt1xEv",
     "--no-build-isolation --no-cache-dir git+https://github.com/anna/torch_scan"),
    (f"mmcv-full          1.2.3\nImportError: {SITE}/mmcv/_ext.cpython-38.so: undefined symbol: _ZN2at5emptyEN3c108ArrayRefIlEE",
     "mim install --no-cache-dir mmcv-full==1.2.3"),
    ("pip install mmcv==1.2.7\nModuleNotFoundError: No module named 'mmcv._ext'", "MMCV_WITH_OPS=1"),
    ((f'GPU: RTX 2080 Ti\n  File "{SITE}/flash_attn/flash_attn_interface.py", line 53, in f\n'
     "RuntimeError: CUDA error: no kernel image is available for execution on the device"), "uninstall -y flash-attn"),
    (f"/srv/conda/x\nImportError: {SITE}/scan/_C.so: undefined symbol: _ZNSt15__exception_ptr13exception_ptr10_M_releaseEv", "libstdcxx-ng"),
    ("C:\\x> python\nRuntimeError: CuPy failed to load nvrtc64_120_0.dll: FileNotFoundError: Could not find module 'nvrtc64_120_0.dll'",
     "cupy-cuda12x[ctk]"),
    ("cv2.error: OpenCV(4.5.3) error: (-216:No CUDA support) The library is compiled without CUDA support", "-DOPENCV_DNN_CUDA=ON"),
    ("liblantern.so - /lib64/libstdc++.so.6: version `GLIBCXX_3.4.29' not found", "PRECXX11ABI=1 Rscript"),
    ("% pip install torch==1.12.1+cu113 torchvision==0.13.1+cu113\nmacOS 13\nERROR: No matching distribution found for torch==1.12.1+cu113",
     "install torch==1.12.1 torchvision==0.13.1"),
    (("numba LinkerError: [222] Call to cuLinkAddData results in CUDA_ERROR_UNSUPPORTED_PTX_VERSION\n"
     "ptxas application ptx input, line 9; fatal   : Unsupported .version 8.5; current version is '8.4'"), "pynvjitlink-cu12"),
]  # fmt: skip

OLDER = [
    ("lightgbm.basic.LightGBMError: GPU Tree Learner was not enabled in this build.", "install --upgrade --force-reinstall lightgbm"),
    ("[TRT] [E] 6: The engine plan file is not compatible with this version of TensorRT, expecting library version 8.4.3 got 8.6.1",
     'install "tensorrt==8.6.1.*"'),
    ("ultralytics: The engine plan file is not compatible with this version of TensorRT", "-name '*.engine'"),
    ("GTX 1080, driver 367.35\nnvcc fatal   : Value 'sm_61' is not defined for option 'gpu-architecture'", "install -y cuda-toolkit-"),
    ("ERROR: Could not find a version that satisfies the requirement torch==1.11.0+cu113 (from versions: none)", "python=3.10 && "),
    (("% pip install torch==1.12.1+cu113 torchvision==0.13.1+cu113\nLooking in links: https://download.pytorch.org/whl/torch_stable.html\n"
     "ERROR: Could not find a version that satisfies the requirement torch==1.12.1+cu113 (from versions: 1.12.0, 1.12.1, 1.13.0)"),
     "install torch==1.12.1 torchvision==0.13.1"),
    ("OSError: (External) CUDA error(209), no kernel image is available for execution on the device. (at ../paddle/phi/x.cu:6)", "/cu129/"),
    (f"x: libcudnn.so: {GONE}", "libcudnn9-dev-cuda-12"),
    (f"/srv/conda/envs/x\nx: libcudart.so: {GONE}", "conda-forge cuda-toolkit && export LD_LIBRARY_PATH"),
    ("CUDA version 10.2\nsrc/x.c:3: fatal error: cudnn.h: No such file or directory", "libcudnn8-dev"),
    ("RuntimeError: operator torchvision::nms does not exist\nC:\\x> pip show torch\nName: torch\nVersion: 2.4.0+cu121",
     "torch==2.4.0 torchvision torchaudio --index-url https://download.pytorch.org/whl/cu121"),
    ("C:\\x> python\nRuntimeError: operator torchvision::nms does not exist", "torch torchvision torchaudio --index-url "),
    ("/srv/envs/x/lib/python3.7/site-packages/numba/cuda/cudadrv/nvvm.py\nOSError: library nvvm not found", "cudatoolkit=11.8"),
    ("numba: libNVVM cannot be found. Do `conda install cudatoolkit`:\nlibrary nvvm not found", "unset NUMBAPRO_NVVM"),
    ('ERROR: No matching distribution found for jaxlib==0.4.25+cuda12.cudnn89; extra == "cuda12_pip"', 'jax[cuda12]"'),
    ("Could not load bitsandbytes native library: /srv/bitsandbytes/bitsandbytes/libbitsandbytes_cpu.so: cannot open shared object file",
     "cd /srv/bitsandbytes && cmake -DCOMPUTE_BACKEND=cuda"),
    ("C:/x/cuda_utils.c:14: error: include file 'Python.h' not found\nF:\\a\\python_embeded\\Lib\\site-packages\\triton\\tcc.exe",
     '"F:\\a\\python_embeded\\Include"'),
]  # fmt: skip

SYSTEMS = [
    ("NVIDIA-SMI has failed because it couldn't communicate with the NVIDIA driver.", "sudo dkms autoinstall; sudo modprobe nvidia || {"),
    ("Fedora 41\nNVIDIA-SMI has failed because it couldn't communicate with the NVIDIA driver.", "sudo akmods --force; sudo modprobe nvidia"),
    ('Debian 11\nsh NVIDIA-Linux-x86_64-525.125.06.run\nERROR: An error occurred while performing the step: "Building kernel modules".',
     "nvidia-driver"),
    ('ollama: msg="no nvidia devices detected by library /usr/lib64/libcuda.so.550.1"\nno compatible GPUs were discovered', "modprobe nvidia_uvm"),
    ("docker compose logs\nservices:\n  web:\n    image: x\nno compatible GPUs were discovered", "--gpus all web"),
    ("Failed to initialize NVML: Driver/library version mismatch\nI tried rebooting, and it still does not work.", "purge -y '*nvidia-*'"),
    ("Jetson Orin Nano JetPack 6.1\nRuntimeError: The NVIDIA driver on your system is too old (found version 12020). torch._C._cuda_init()",
     "jp/v61/pytorch/ torch"),
    ("Jetson Orin, JetPack 6.0\nRuntimeError: operator torchvision::nms does not exist", "pypi.jetson-ai-lab.io/jp6"),
    ("Xavier NX R35 (release), REVISION: 4.1\nRuntimeError: operator torchvision::nms does not exist", "github.com/pytorch/vision"),
    ("Jetson Nano\n/srv/libtorch/lib/libtorch.so: error adding symbols: File in wrong format", "jp/v461/pytorch/ torch"),
    ("kubectl get pods\nDocker 19.03\nFailed to initialize NVML: could not load NVML library.\ndid you set the docker default runtime to nvidia",
     "--runtime=docker --set-as-default"),
    ("kubectl exec -it train-7 -- nvidia-smi\nFailed to initialize NVML: Unknown Error", "kubectl delete pod train-7"),
    ("Ubuntu on WSL2, Windows 10 build 18363\ncudaErrorInsufficientDriver", "ms-settings:windowsupdate"),
    ("WSL2\n| NVIDIA-SMI 461.79       Driver Version: 461.79 |\nRuntimeError: Failed to dlopen libcuda.so", "nvidia.com/drivers"),
]  # fmt: skip


PARTS = [
    ('C:\\> python -c "import cupy"\n  File "cupy\\cuda\\device.pyx", line 1, in init cupy.cuda.device\nImportError: DLL load failed while importing runtime: x',
     "KW-050", "cupy-cuda12x[ctk]"),
    ("I tried all of it again.\nImpossible to initialize my nvml : Driver/library version mismatch\nThanks!", "KW-004", "sudo reboot"),
    ("/opt/cuda-4/include/host_config.h:82:2: error: #error -- unsupported\nGNU version! gcc 4.7 and up are not supported!", "KW-042", "4.6"),
    ("/build/ops/all_reduce.h:21:10: fatal error: nccl.h: No such file or directory\ncompilation terminated.", "KW-045", "libnccl-dev"),
    ("plugin.cpp(3): fatal error: NvInfer.h: No such file or directory", "KW-045", "libnvinfer-dev"),
    (("CMake Error at /srv/share/cmake/Caffe2/Caffe2Config.cmake:90 (message):\n  Your installed Caffe2 version uses cuDNN but I cannot find the cuDNN\n"
      "  libraries.  Please set the proper cuDNN prefixes and / or install cuDNN.\n-- /usr/local/cuda-11.8/lib64/libnvrtc.so shorthash is 1"),
     "KW-045", "libcudnn8-dev"),
    ("-- *** cuDNN V7.0 OR GREATER NOT FOUND. ***\n-- Disabling CUDA support.  IT WILL NOT USE CUDA", "KW-045", "libcudnn9-dev-cuda-12"),
    ("D:\\src\\face> cmake -S . -B out\n-- *** cuDNN V7.0 OR GREATER NOT FOUND. ***", "KW-045", "set CMAKE_PREFIX_PATH="),
    ("The following variables are used in this project, but they are set to NOTFOUND.\ncudnn\n    linked by target net", "KW-045", "cudnn"),
    ('  File "/srv/triton/common/build.py", line 30, in libcuda_dirs\nAssertionError: libcuda.so cannot found!', "KW-115", "sudo ldconfig"),
    (("AssertionError: libcuda.so cannot found!\nPossible files are located at ['/lib64/libcuda.so.1'].Please create a symlink of libcuda.so to any "
      "of the file."), "KW-115", "ln -s libcuda.so.1 /lib64/libcuda.so"),
    (("I am on 535, how do I go on?\n` RuntimeError:\n  The detected CUDA version (12.4) mismatches the version that was used to compile\n"
      "  PyTorch (11.7). Please make sure to use the same CUDA versions.`"), "KW-041", "cuda-toolkit-11-7"),
    ("So i am on my laptop.\n \u280b Container chat-1  Creating\nError response from daemon: unknown or invalid runtime name: nvidia\n Default Runtime: runc",
     "KW-002", "--runtime=docker && "),
]  # fmt: skip

SHRUNK = "ValueError: numpy.dtype size changed, may indicate binary incompatibility. Expected {} from C header, got {} from PyObject"
TOO_NEW = "NVIDIA A100-PCIE-40GB with CUDA capability sm_80 is not compatible with the current PyTorch installation."
LATER = [
    (SHRUNK.format(96, 88), '"numpy<2"'),
    (SHRUNK.format(88, 96), "--upgrade numpy"),
    (f"PyTorch version (v1.9.1)\n{TOO_NEW}", "torch==1.9.1+cu111 "),
    (f'  File "E:\\AI\\python_embeded\\Lib\\site-packages\\torch\\cuda\\x.py", line 2\n{TOO_NEW}',
     "E:\\AI\\python_embeded\\python.exe -m pip install "),
    (f'  File "E:\\my AI\\system\\python\\lib\\site-packages\\torch\\x.py", line 2\n{TOO_NEW}', '"E:\\my AI\\system\\python\\python.exe" -m pip '),
    ("Debian 12\nnvidia-container-cli: requirement error: unsatisfied condition: cuda>=12.8, please update your driver to a newer version",
     "install -y cuda-drivers"),
    ("vllm/vllm-openai:v0.15.0\nRuntimeError: Error 803: system has unsupported display driver / cuda driver combination",
     "LD_LIBRARY_PATH=/usr/local/nvidia/lib64:"),
    ("| NVIDIA-SMI 472.12  Driver Version: 472.12  CUDA Version: 11.4 |\nAssertionError: Torch not compiled with CUDA enabled", "whl/cu118"),
    ('conda 24.1\n  File "C:\\a\\venv\\lib\\site-packages\\torch\\x.py", line 3\nAssertionError: Torch not compiled with CUDA enabled', "whl/cu12"),
    ("nvcr.io/nvidia/pytorch:24.01\nImportError: /x/dist-packages/flash_attn_2_cuda.so: undefined symbol: _ZN2at4_ops5zeros4callE", "FORCE_BUILD=TRUE"),
    ('Microsoft.ML.OnnxRuntime.Gpu 1.17.1\nLoadLibrary failed with error 126 "" when trying to load "D:\\a\\onnxruntime_providers_cuda.dll"',
     "Nvidia.CUDA --version 11.8"),
    ("| NVIDIA-SMI 525.60.13    Driver Version: 525.60.13 |\nana@jupyter-ana:~$ nvidia-smi\nFailed to initialize NVML: Driver/library version mismatch",
     "purge -y 'libnvidia-"),
    ("jaxlib==0.1.70+cuda111\nE cuda_dnn.cc:352] Loaded runtime CuDNN library: 8.0.4 but source was compiled with: 8.2.0.  CuDNN", "nvidia-cudnn-cu11>=8.2"),
    ("nvcc: x.cu Killed\nninja: build stopped: subcommand failed.\nERROR: Failed building editable for scan_ops", "-e ."),
]  # fmt: skip


@pytest.mark.parametrize(("log", "code", "wanted"), [*NAMES, *SOURCES, *LINKED, *PARTS])
def test_the_cause_is_named(log, code, wanted):
    answer = explain(log).answers[0]
    assert (answer.cause.code, wanted in answer.fix) == (code, True), (answer.cause.code, answer.fix)


@pytest.mark.parametrize(("log", "code"), LETTERS)
def test_a_letter_quotes_without_marks(log, code):
    answer = explain(log).answers[0]
    assert answer.cause.code == code
    assert answer.confidence is not Confidence.MEDIUM
    assert "docker restart stops" not in answer.fix


@pytest.mark.parametrize(("log", "wanted"), [*TENSORFLOW, *BUILDS, *PACKAGES, *OLDER, *SYSTEMS, *LATER])
def test_the_command_ends_it(log, wanted):
    assert wanted in explain(log).answers[0].fix, explain(log).answers[0]


@pytest.mark.parametrize(
    "log",
    [
        "Hello, should I get a second GPU or is my CUDA version mismatched, what do you think?\nThanks, Ada",
        "I got the error message when my program ran out of memory, is that the driver?",
        f"{REPORT.format('12.1', '550.54')}Expected: a faster matmul",
        "torch 2.9.0+cpu on a laptop without a GPU: the loss is nan",
    ],
)
def test_no_cause_is_named(log):
    assert not [answer for answer in explain(log).answers if answer.confidence is Confidence.HIGH], explain(log)
