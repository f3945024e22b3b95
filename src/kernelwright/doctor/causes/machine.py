# SPDX-License-Identifier: MIT
"""What every program needs: memory, disk, and the right to use them."""

from __future__ import annotations

from kernelwright.doctor._cause import Area, Cause, sign

CAUSES = (
    Cause(
        code="KW-060",
        title="memory ran out while compiling",
        area=Area.MACHINE,
        why="Each compiler of CUDA templates takes 1 to 12 GB; as many as there are cores at "
        "once is more than the machine has, and "
        "the kernel (or the CI runner) kills one.",
        fix="export MAX_JOBS=1 CMAKE_BUILD_PARALLEL_LEVEL=1 NVCC_THREADS=1",
        then="Then build again; raise MAX_JOBS until memory is full.",
        signs=(
            sign(r"internal compiler error: killed"),
            sign(
                r"(ptxas|nvlink|cicc|fatbinary|nvcc)\b.{0,20}(fatal|error).{0,10}(memory allocation "
                r"failure|out of memory)"
            ),
            sign(r"killed signal terminated program"),
            sign(r"(cicc|cudafe\+\+|ptxas|cc1plus|nvlink|fatbinary)\S*['\"]? died due to signal"),
            sign(r"fatal error: killed\b"),
            sign(r"virtual memory exhausted|cc1plus: out of memory|out of memory allocating \d+ bytes"),
            sign(r"(signal 9|sigkill|exit (code|status):? (137|-9)|returned? (137|-9)\b|error 137)", 2),
            sign(r"(oom[- ]?kill(er|ed)?|out of memory: killed process|oomkilled)"),
            sign(r"\bexit (code|status):? 143\b|received a shutdown signal|the runner has received", 2),
            sign(r"^\W*killed\W*$|\berror 0x89\b|: line \d+:\s+\d+ killed\b", 2),
            sign(r"MAX_JOBS|NVCC_THREADS", 1),
            sign(r"g?make\S*: \*\*\* .{0,200}\berror (9|137)\b", 2),
            sign(r"cannot allocate memory", 2),
        ),
        needs=(
            sign(
                r"nvcc|cicc|ptxas|cc1plus|g\+\+|ninja|cmake|setup\.py|building wheel|building "
                r"extension|\.cu\b|compil|make\b|bdist|\bbuild"
            ),
        ),
        unless=(sign(r"cuda out of memory|cudaErrorMemoryAllocation|CUDA_ERROR_OUT_OF_MEMORY|npm (err|error)"),),
        without=(sign(r"^npm (err!|error) (errno|code) 1?37"),),
    ),
    Cause(
        code="KW-061",
        title="the disk, or /tmp, is full",
        area=Area.MACHINE,
        why="Compilers and pip unpack gigabytes in TMPDIR, which is often a small memory disk.",
        fix="mkdir -p ~/tmp && export TMPDIR=~/tmp",
        then="Or another directory with room: df -h shows it. python -m pip cache purge and docker system prune make "
        "some.",
        signs=(
            sign(r"no space left on device"),
            sign(r"\bENOSPC\b|\[errno 28\]"),
            sign(r"disk quota exceeded|\[errno 122\]"),
            sign(r"not enough (free )?disk space"),
        ),
        unless=(sign(r"/dev/shm|shared memory"),),  # noqa: S108 - it is looked for
        yields_to=("KW-127",),
    ),
    Cause(
        code="KW-062",
        title="Nix refuses to evaluate or fetch",
        area=Area.TOOLCHAIN,
        why="CUDA is unfree for nixpkgs, is not in its public cache, and old releases are dropped from new channels.",
        fix="export NIXPKGS_ALLOW_UNFREE=1",
        then="With flakes also --impure. For a release that a channel has dropped, or a hash that differs: the "
        "nixpkgs that the flake pins, not the channel.",
        signs=(
            sign(r"(package|refusing to evaluate).{0,260}(has an )?unfree license"),
            sign(
                r"attribute ['\"]?cuda(Packages|toolkit|_)\w*['\"]? (missing|not found)|does not "
                r"provide attribute.{0,60}cuda"
            ),
            sign(r"hash mismatch in fixed-output derivation"),
            sign(r"cudaPackages\S*.{0,60}(has been removed|was removed|is unsupported|unsupported)", 2),
            sign(r"experimental nix feature .{0,30}is disabled"),
            sign(r"is forbidden in pure eval(uation)? mode|impure path .{0,120}used in link"),
        ),
    ),
    Cause(
        code="KW-126",
        title="the GPU's memory is full, in the words of an assert",
        area=Area.MACHINE,
        why="Before torch says that memory is out it asks NVML who has it; where NVML cannot say "
        "(a Jetson, MIG, some containers) that "
        "question fails in its place.",
        fix="export PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True",
        then="Then a smaller model, batch or context. On a Jetson CPU and GPU share the memory: "
        "what else runs counts too.",
        signs=(
            sign(r"nvml_success == r\W.{0,10}internal assert failed"),
            sign(
                r"nvmapmemalloc\w* error 12|nvmap\w*alloc\w*.{0,40}(error 12|failed.{0,20}memory)"
                r"|nvmap_ioc_\w+.{0,30}cannot allocate"
            ),
        ),
    ),
    Cause(
        code="KW-127",
        title="the container's shared memory is too small",
        area=Area.MACHINE,
        why="Processes hand tensors to each other by /dev/shm, of which a container gets 64 MB "
        "unless it is told otherwise: a DataLoader's "
        "worker or a rank that wants more ends with a bus error.",
        fix="docker run --shm-size=16g --gpus all -it \"$(docker ps --latest --format '{{.Image}}')\"",
        then="Or --ipc=host; in compose.yaml shm_size: 16gb. In the program: DataLoader(num_workers=0).",
        signs=(
            sign(
                r"insufficient shared memory|out of shared memory.{0,80}(worker|limit)|raise your shared memory limit"
            ),
            sign(
                r"(no space left on device|bus error).{0,80}/dev/shm|/dev/shm.{0,80}(no space left"
                r"|bus error|too small|ran out)"
            ),
            sign(
                r"unable to (write to|open|mmap|allocate|resize) (shared memory|file|\d+ bytes from"
                r"|.{0,20}object).{0,60}/?torch_\d+"
            ),
            sign(r"dataloader worker .{0,40}killed by signal: bus error"),
            sign(r"error while creating shared memory segment|nccl.{0,80}shared memory.{0,60}(no space|error)"),
        ),
        unless=(sign(r"a100|smem|bytes of shared memory|shared memory per block|triton.*outofresources"),),
    ),
)
