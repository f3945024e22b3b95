# SPDX-License-Identifier: MIT
"""The GPU itself: its code is not in the program, it is hidden, or it lacks what the program needs."""

from __future__ import annotations

from kernelwright.doctor._cause import Area, Cause, number, sign

# GPUs by name with a CUDA release that came before them: NCCL says of its missing kernel no more than that it failed.
_NCCL_FAILED = r"ncclunhandledcudaerror|nccl error.{0,80}unhandled cuda error"
_AMPERE = r"\brtx ?(30\d0|a\d000)|\ba(100|40|30|10)\b|\bsm_8\d"
_BLACKWELL = r"\brtx ?(50\d0|pro \d000)|\b(g?b200|gb10)\b|\bsm_1[0-2]\d"

CAUSES = (
    Cause(
        code="KW-010",
        title="the program has no code for this GPU",
        area=Area.GPU,
        why="A CUDA binary holds code for the GPUs it was built for. This GPU is not among them, "
        "and there is no PTX that the "
        "driver could compile for it.",
        fix='TORCH_CUDA_ARCH_LIST="$(nvidia-smi --query-gpu=compute_cap --format=csv,noheader | sort -u | paste -sd '
        "';')\" python -m pip install --force-reinstall --no-deps --no-build-isolation --no-binary <package> <package>",
        then="That builds it for the GPUs that are here. Without a compiler: a release or a build whose list has this "
        "GPU's compute capability. With CMake: CUDAARCHS=native; kernelwright: ./kw build -- --archs.",
        signs=(
            sign(
                r"no (\w+ )?(kernels?|code|images?|binar(y|ies))\b.{0,20}(found|available|built"
                r"|compiled)? ?for (compute capability|sm_?\d|device|this gpu|your gpu)"
            ),
            sign(
                r"(does not|doesn't|not) (yet )?support(ed)? .{0,30}\bsm_?\d{2,3}\b|\bsm_?\d{2,3}\w? "
                r"(is )?(not|un)(yet )?supported",
                2,
            ),
            sign(
                r"cuda(_| )?error.{0,20}invalid ?device ?function|cudaErrorInvalidDeviceFunction"
                r"|\binvalid device function\b",
                2,
            ),
            sign(r"could not find compatible tinycudann extension"),
            number(209),
            sign(
                _NCCL_FAILED, beside=(_AMPERE, r"\bcu(9\d|10\d)\b|\bcuda(toolkit)?[-_ =:v]{0,3}(version:? )?(9|10)\.\d")
            ),
            sign(
                _NCCL_FAILED,
                beside=(_BLACKWELL, r"\bcu(11\d|12[0-6])\b|\bcuda(toolkit)?[-_ =:v]{0,3}(11\.\d|12\.[0-6])\b"),
            ),
            sign(r"no kernel image is available"),
            sign(
                r"(was|were|is) not (built|compiled) (to work )?(with|for) (the |this |your "
                r")?(selected |current |installed )?(device|gpu)\b"
            ),
            sign(r"(CUDA_ERROR_NO_BINARY_FOR_GPU|cudaErrorNoKernelImageForDevice)"),
            sign(r"is not compatible with the current pytorch installation"),
            sign(r"the current pytorch install supports cuda capabilities", 2),
            sign(
                r"(was|were|is|are) not (compiled|built) (with|for) (support for )?.{0,30}(sm_?\d+"
                r"|compute capability|gpu arch|cuda arch|your gpu)"
            ),
            sign(
                r"(sm_?\d+|compute capability \d+\.\d+|gpu arch\w*|cuda arch\w*).{0,40}(is|are) not "
                r"(supported|included|available) (by|in) (this|the) (build|binary|wheel|package"
                r"|library)"
            ),
            sign(
                r"no (suitable|compatible|matching) (kernel|cubin|device code|image"
                r"|binary)\b.{0,60}(device|gpu|sm_|arch)"
            ),
            sign(r"does not contain (device )?code for (the|this|your) (gpu|device|architecture)"),
            sign(r"has no device code compatible with"),
            sign(
                r"(was|were|is) (only )?(compiled|built) for:? .{0,20}(sm_)?\d{2,4}\b.{0,80}(your|this|but|device|gpu)",
                2,
            ),
            sign(r"sm_\d+\w? .{0,40}(is )?not (defined|included|in the list|among)", 2),
            sign(
                r"no cubin|(cubin|kernel)s? (is |are |was )?not (found|available) for (sm_?\d|arch"
                r"|compute|this gpu|the gpu|device)"
            ),
        ),
        unless=(sign(r"nvcc fatal|unsupported gpu architecture|ptxas|compiled for python"),),
        yields_to=("KW-011",),
    ),
    Cause(
        code="KW-011",
        title="the GPU is older than the program supports",
        area=Area.GPU,
        why="The program needs instructions that this generation does not have, or its makers no longer build for it.",
        fix='python -m pip install "<package><<the first release that dropped this GPU>"',
        then="No setting gives a GPU instructions that it does not have. Where there is no such release, the "
        "program's fallback path: float16 for bfloat16 (--dtype half), torch's own attention for flash-attn (python "
        "-m pip uninstall flash-attn).",
        signs=(
            sign(r"does not have (cuda )?compute capability \d+\.\d or (greater|higher)"),
            sign(r"detected nvidia .{0,60}\bgpu, which is not supported by this container"),
            sign(
                r"only supports? (nvidia )?(ampere|turing|volta|hopper|ada|blackwell)\b.{0,30}(gpus?"
                r"|or newer|and newer|architecture)?"
            ),
            sign(
                r"(requires?|needs?|only supported on|supported only on|must have).{0,50}(compute "
                r"capability|\bsm_?|cuda capability|\barch\w*)\s*(of )?(at least |>= ?"
                r"|>=?)?\d+(\.\d)?\b.{0,20}(or (newer|higher|later|above)|\+|$)",
                2,
            ),
            sign(
                r"(requires?|needs?).{0,40}\b(ampere|turing|volta|hopper|ada|blackwell)\b.{0,20}(gpu"
                r"|or newer|or later|\+)"
            ),
            sign(r"(cuda|compute) capability.{0,30}(minimum|at least|>=).{0,30}\d\.\d"),
            sign(r"(gpu|device)\b.{0,40}\bis too old\b|pytorch no longer supports this gpu because it is too old"),
            sign(r"bfloat16 is only supported on gpus with compute capability of at least"),
            sign(r"minimum (cuda|compute) capability supported by this library is"),
            sign(r"min(imum)?\.? (required |supported )?(compute |cuda |gpu )?capability:? (is )?\(?\d"),
            sign(
                r"(cuda|compute) capability \d+[. ]\d (is )?(not |un)supported|\bis_sm\w+ (\|\| "
                r"is_sm\w+ )*to be true, but got false"
            ),
            sign(
                r"not supported (for|on|by) (the|this|your) (current )?gpu\b|(current|your) gpu (does "
                r"not|doesn't) support"
            ),
            # The list of the GPUs it is for begins with a newer one.
            sign(
                r"capability sm_([2-4]\d is not compatible"
                r"|[56]\d.*\n?.*supports cuda capabilities sm_([7-9]|1\d)\d"
                r"|7\d.*\n?.*supports cuda capabilities sm_([89]|1\d)\d)\b"
            ),
        ),
    ),
    Cause(
        code="KW-012",
        title="CUDA_VISIBLE_DEVICES hides the GPU that is asked for",
        area=Area.GPU,
        why="Ordinals count the visible devices only; an empty or wrong list leaves none, a MIG "
        "device has to be named by its UUID.",
        fix="unset CUDA_VISIBLE_DEVICES",
        then="Or set it to entries that nvidia-smi -L shows, each once; of a MIG device the whole UUID.",
        signs=(
            sign(r"on cuda device \d+ but torch\.cuda\.device_count\(\) is \d"),
            sign(
                r"device >= 0 && device < num_gpus|(device|gpu) (index|id|ordinal) .{0,20}(out of "
                r"range|is not (available|valid)|must be)"
            ),
            number(101),
            sign(r"\binvalid device ordinal\b"),
            sign(r"(CUDA_ERROR_INVALID_DEVICE|cudaErrorInvalidDevice)\b"),
            sign(r"CUDA_VISIBLE_DEVICES\s*=\s*(''|\"\"|-1|none|nodevfiles)?\s*$", 1),
            sign(r"CUDA_VISIBLE_DEVICES\b.{0,60}(invalid|not (a )?valid|does not (match|exist)|no such)"),
            sign(r"requested .{0,20}(gpu|device)s?.{0,40}(but|only).{0,30}(visible|available|found)", 1),
            sign(r"\bMIG-[0-9a-f-]{8,}.{0,40}(not found|invalid|unknown)"),
        ),
    ),
    Cause(
        code="KW-013",
        title="CUDA was used before the process forked",
        area=Area.GPU,
        why="A child made by fork() cannot use the CUDA context of its parent.",
        fix="python -c 'import multiprocessing, runpy, sys; del sys.argv[0]; "
        'multiprocessing.set_start_method("spawn"); runpy.run_path(sys.argv[0], run_name="__main__")\' <program.py>',
        then="In your own program: multiprocessing.set_start_method('spawn') at its start, and CUDA kept out of a "
        "DataLoader's workers; in vLLM VLLM_WORKER_MULTIPROCESSING_METHOD=spawn.",
        signs=(
            sign(r"cannot re-?initialize cuda in forked subprocess"),
            sign(r"(cuda|driver).{0,60}(after|before|across) (a )?fork\b", 2),
            sign(r"/multiprocessing/(process|popen_fork)\.py[^\n]*\n([^\n]*\n){0,12}[^\n]*\binitialization error\b"),
            sign(
                r"(CUDA_ERROR_NOT_INITIALIZED|cudaErrorInitializationError|initialization "
                r"error)\b.{0,120}(fork|worker|multiprocess)",
                2,
            ),
        ),
    ),
    Cause(
        code="KW-014",
        title="the user may not open the GPU's device files",
        area=Area.GPU,
        why="/dev/nvidia* (on a Jetson /dev/nvmap and /dev/nvhost-*) belong to a group the user "
        "is not in, or the container or "
        "scheduler does not pass them on.",
        fix='sudo usermod -aG video,render "$USER"',
        then="Then log in again. A container or scheduler has to pass the devices on (KW-002).",
        signs=(
            sign(
                r"/dev/(nvidia|nvhost|nvmap|nvgpu|dri/renderd)\S*.{0,40}(permission denied|operation "
                r"not permitted|EACCES)"
            ),
            sign(r"NvRmMem\w*\b.{0,40}(permission denied|error)|NvRm\w* failed.{0,30}permission denied"),
            sign(r"insufficient permissions.{0,40}(gpu|nvidia|nvml|device)"),
            sign(r"(permission denied|operation not permitted).{0,40}/dev/(nvidia|nvhost|nvmap|nvgpu)"),
            sign(r"nvrmmem\w* failed|nvrmmemmgrinit\W+failed|nvmap: failed to open|failed to open /dev/nv"),
        ),
    ),
    Cause(
        code="KW-015",
        title="CUDA starts but shows the program no GPU",
        area=Area.GPU,
        why="The driver's library answers, yet the list is empty: CUDA_VISIBLE_DEVICES or the "
        "scheduler gives this process none, or the "
        "container has no device.",
        fix="unset CUDA_VISIBLE_DEVICES",
        then="Under Slurm ask for --gres=gpu:1, in a container for the GPU (KW-002). If nvidia-smi -L lists none "
        "either, see KW-001.",
        signs=(
            sign(
                r"\bno (compatible|supported|usable|suitable|available)? ?(cuda|nvidia) ?(capable )?(devices?|gpus?)\b",
                2,
            ),
            sign(r"no (compatible|supported|usable) gpus? (were |was )?(discovered|found|detected)", 2),
            sign(r"insufficient nvidia\.com/gpu"),
            number(100),
            sign(r"no cuda gpus? (are|is) available"),
            sign(
                r"(no|0) (nvidia |cuda )?(gpus?|cuda devices?) (were |was |are |is )?(found|detected"
                r"|visible|available)\b",
                2,
            ),
            sign(
                r"cuda(_is)?_?available\S*[ =:(]+\)?\W{0,10}false\b|is_available\(\)\W{0,20}(returned"
                r"|returns|is|gives|gave|prints?|says)?\W{0,20}\bfalse\b|\bcuda available: false",
                2,
            ),
            sign(r"failed to (detect|find) (a|any) (cuda|nvidia) (gpu|device)|no gpu (found|detected)", 2),
            sign(r"\bcuda is(n't| not) avail\w+(?!.{0,40}\b(cpu|fall\w*|default\w*|skip\w*)\b)", 2),
        ),
        unless=(sign(r"metal|rocm|amd|tpu|mps|this happens most frequently when"),),
        yields_to=(
            *(
                f"KW-{number:03}"
                for number in (*range(1, 10), 12, 14, 16, *range(20, 22), 30, 32, 33, 50, 122, 123, 128)
            ),
            "KW-090",
            "KW-100",
            "KW-117",
        ),
    ),
    Cause(
        code="KW-016",
        title="another process holds the GPU",
        area=Area.GPU,
        why="The GPU is in exclusive mode, or MPS or another container has it; CUDA then refuses a second process.",
        fix="sudo nvidia-smi -c DEFAULT",
        then="It ends the exclusive mode. Otherwise end the process that has the GPU: nvidia-smi "
        "--query-compute-apps=pid,name --format=csv names it.",
        signs=(
            number(46),
            sign(r"cuda-capable device\(s\) is/are busy or unavailable"),
            sign(r"cudaErrorDevicesUnavailable|CUDA_ERROR_DEVICE_UNAVAILABLE|all cuda-capable devices are busy"),
            sign(r"exclusive_process|exclusive mode|compute mode .{0,30}(exclusive|prohibited)", 2),
        ),
    ),
    Cause(
        code="KW-017",
        title="the GPU's hardware reports errors",
        area=Area.GPU,
        why="Memory errors that the GPU cannot correct, or a broken link, end every program on "
        "it; no software changes that.",
        fix="sudo nvidia-smi -r",
        then="It resets the GPU, if nothing uses it; or reboot. If the errors come back (nvidia-smi -q -d "
        "ECC,PAGE_RETIREMENT,ROW_REMAPPER), have the card replaced.",
        signs=(
            number(214),
            sign(r"uncorrectable (ecc|nvlink) error|CUDA_ERROR_ECC_UNCORRECTABLE|cudaErrorECCUncorrectable"),
            sign(r"nvrm: xid .{0,40}: (48|63|64|74|94|95),"),
            sign(r"hardware error .{0,30}(gpu|cuda)|row remap\w* .{0,20}(fail|pending)", 2),
        ),
    ),
    Cause(
        code="KW-018",
        title="a TensorRT engine of another GPU or release",
        area=Area.GPU,
        why="An engine file fits the GPU and the TensorRT release that made it, and no other.",
        fix="trtexec --onnx=<model>.onnx --saveEngine=<engine>",
        then="On this machine, with its TensorRT; programs that build their engine themselves do so when its file is "
        "deleted.",
        signs=(
            sign(r"engine plan file is generated on an incompatible device|expecting compute \d\.\d got compute"),
            sign(
                r"(serialization|engine|plan).{0,60}version (mismatch|tag does not match)|engine plan "
                r"file is not compatible with this version"
            ),
            sign(r"magictag.{0,60}(mismatch|failed)|stdversion == .{0,40}failed", 2),
            sign(r"deserialize\w*engine\b.{0,40}error code.{0,40}unexpected call to stub", 2),
        ),
    ),
)
