# SPDX-License-Identifier: MIT
"""The driver, containers, boards, disks: what differs by the system that a log is of."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kernelwright.doctor.explain.cures import _families as families
from kernelwright.doctor.explain.cures import _ways
from kernelwright.doctor.explain.cures._cure import Cure, of

if TYPE_CHECKING:
    from kernelwright.doctor.explain.said import Said

_WITHOUT_COMPAT = (
    "export LD_LIBRARY_PATH=\"$(printf %s \"$LD_LIBRARY_PATH\" | tr : '\\n' | grep -v '/compat/*$' | paste -sd :)\""
)


# What Anaconda's own channel has of releases that conda-forge does not.
_OF_ANACONDA = {"8.0": "8.0", "9.0": "9.0", "9.1": "9.0"}
_PTX_OF_12 = 8  # the major number of PTX from which on numba can link by a library of its own


def _of_numba(said: Said) -> Cure:
    """From CUDA 12 on numba can link by a library of its own; before, its toolkit has to be the driver's."""
    update = f"Or a newer driver: {_ways.driver(said).command}."
    knows = said.finds(r"unsupported \.version [\d.]+; current version is '?(\d\.\d)")
    if knows and _ways.number(knows[1])[0] < _PTX_OF_12:
        release = _ways.of_ptx_exactly(knows[1])
        channel = "" if release in _OF_ANACONDA else "-c conda-forge "
        wanted = _OF_ANACONDA.get(release, release)
        then = f"The driver knows PTX {knows[1]}, of CUDA {release}. {update}"
        return Cure(f'conda install -y {channel}"cudatoolkit={wanted}"', then)
    if said.notebook:
        then = (
            "Restart the runtime. Older releases have to be asked: from numba import config; "
            "config.CUDA_ENABLE_PYNVJITLINK = 1."
        )
        return Cure(_ways.pip(said, 'install --upgrade "numba-cuda[cu12]" pynvjitlink-cu12'), then)
    fix = f"{_ways.pip(said, 'install --upgrade pynvjitlink-cu12')} && export NUMBA_CUDA_ENABLE_PYNVJITLINK=1"
    return Cure(fix, f"numba then links by a library of its own, on any driver of CUDA 12. {update}")


@of("KW-001", "KW-005", "KW-019")
def driver(said: Said) -> Cure | None:
    if said.machine is None and said.shows(r"ptx|LinkerError|\b222\b") and said.has(r"\bnumba\b"):
        return _of_numba(said)
    if said.has(r"srun|slurm|sbatch"):
        return Cure("srun --gres=gpu:1 --pty bash", "The node or the job has no GPU: one has to be asked for.")
    if said.container and not said.has(r"nvidia-smi has failed|modprobe|load library failed"):
        return _ways.restart_with_gpu(said)
    # That program is there, and with it the driver: what is not there is its module, for this kernel.
    if said.machine is None and said.shows(r"nvidia-smi has failed") and not (said.windows or said.wsl or said.jetson):
        return _ways.module(said)
    return _ways.driver(said)


@of("KW-002")
def container(said: Said) -> Cure | None:
    installed = (
        f"{_ways.root_install(said)} nvidia-container-toolkit && sudo nvidia-ctk runtime "
        "configure --runtime=docker && sudo systemctl restart docker"
    )
    then = "On the host, once; then docker run --gpus all, on a Jetson with --runtime nvidia."
    if said.has(r"cdi device|unresolvable cdi|inject cdi"):
        return Cure(
            "sudo nvidia-ctk cdi generate --output=/etc/cdi/nvidia.yaml",
            "On the host, after each update of the driver.",
        )
    if said.has(r"k8s|kubernetes|device.plugin|default runtime(?!:)|nodes? "):
        runs = "docker" if said.has(r"\bdocker\b") and not said.has("containerd") else "containerd"
        fix = f"sudo nvidia-ctk runtime configure --runtime={runs} --set-as-default && sudo systemctl restart {runs}"
        return Cure(fix, "On the node, for NVIDIA's device plugin, whose pods have to start anew.")
    if said.has(r"\bpodman\b|\bcrun\b"):
        return Cure(
            "sudo nvidia-ctk cdi generate --output=/etc/cdi/nvidia.yaml && "
            "podman run --rm --device nvidia.com/gpu=all ubuntu nvidia-smi -L",
            "podman takes no GPU by --gpus: each start needs --device nvidia.com/gpu=all.",
        )
    if said.has(r"driver was not detected|start this container with gpu"):
        return _ways.restart_with_gpu(said)
    return Cure(installed, then)


@of("KW-004")
def two_versions(said: Said) -> Cure | None:
    """A module that is still the old one needs a restart; a compat library of an image has to leave the search path."""
    compat = said.has(r"forward compatibility|error 804|compat(ibility)? (lib|mode|package)|/compat\b|cuda-compat")
    updated = said.has(r"\bapt(-get)?\b|updat|upgrad|driver version|version mismatch|\bdnf\b|pacman")
    if updated and not said.container and said.has(r"\b804\b") and not said.has(r"/compat\b|cuda-compat"):
        then = "Outside of a container it is an update whose module is not loaded yet. If it stays: no cuda-compat."
        return Cure("sudo reboot", then)
    if (
        said.has(r"\b803\b")
        and not said.has(r"version mismatch")
        and said.has(r"\b(vllm|docker|container) image\b|vllm-openai")
    ):
        places = "/usr/local/nvidia/lib64:/usr/lib/$(uname -m)-linux-gnu"
        then = "The image's compat library comes before the host's driver, which is newer; docker run -e sets it, too."
        return Cure(f"export LD_LIBRARY_PATH={places}:$LD_LIBRARY_PATH", then)
    if compat or (said.container and said.has(r"\b803\b|unsupported display driver")):
        return Cure(
            _WITHOUT_COMPAT,
            "The image's compat library serves data center GPUs only; sudo apt-get remove "
            "cuda-compat-* takes it away for good.",
        )
    if said.has(r"version mismatch") and said.has(r"\| nvidia-smi \d+\S+ +driver version"):
        # One prompt has a driver that works: the other is of an image with libraries of its own.
        own = "sudo apt-get purge -y 'libnvidia-*' 'nvidia-utils-*' && sudo ldconfig"
        return Cure(own, "In the container, whose libraries are the host's: none of its own may be before them.")
    again = r"(tried|after|still|did|have|already) .{0,20}\breboot"
    if said.has(rf"{again}|reboot\w* .{{0,60}}(still|does ?n.t work|did ?n.t help|not help)"):
        cure = _ways.driver(said)
        purged = "sudo apt-get purge -y '*nvidia-*' && " if "apt-get" in cure.command else ""
        return Cure(f"{purged}{cure.command} && sudo reboot", "Packages of two releases were mixed; these are of one.")
    return Cure(
        "sudo reboot",
        "The kernel module of the libraries that are installed is loaded then. Without a "
        "restart: sudo rmmod nvidia_drm nvidia_modeset nvidia_uvm nvidia.",
    )


_FIRST_FOR_WSL = 470


@of("KW-008")
def windows_driver(said: Said) -> Cure | None:
    old = _ways.old_windows(said)
    if old:
        return old
    driver = said.finds(r"driver version:? (\d{3})\.\d")
    if driver and int(driver[1]) < _FIRST_FOR_WSL:
        then = f"Windows' own driver serves WSL from {_FIRST_FOR_WSL} on; then wsl.exe --shutdown."
        return Cure("explorer.exe https://www.nvidia.com/drivers", then)
    if said.has(r"blocked by the operating system"):
        return Cure(
            "wsl.exe --update && wsl.exe --shutdown",
            "That ends this session. Windows' own driver has to be as new; a data center GPU there in the mode of a "
            "display (nvidia-smi -dm 0, in Windows as administrator).",
        )
    if said.has(r"nvidia-smi has failed|failed to (initialize|properly shut down) nvml"):
        packages = "'nvidia-driver-*' 'nvidia-utils-*' 'libnvidia-compute-*'"
        return Cure(
            f"sudo apt-get purge -y {packages}; wsl.exe --update && wsl.exe --shutdown",
            "WSL has Windows' driver, which a Linux driver beside it hides. If it stays: a newer or older driver in "
            "Windows itself.",
        )
    return None


@of("KW-122")
def lost_devices(said: Said) -> Cure | None:
    name = said.finds(r"root@([0-9a-f]{12}):") or said.finds(r"docker exec (?:-\S+ )*([a-z0-9][\w.-]+) ")
    restart = f"docker restart {name[1] if name else '$(docker ps --latest --quiet)'}"
    if said.has(r"kubectl|\bk8s\b|kubernetes|\bpods?\b"):
        pod = said.finds(r"kubectl (?:exec|describe pod|logs) (?:-\S+ )*([a-z0-9][a-z0-9.-]+)")
        restart = f"kubectl delete pod {pod[1] if pod else '<pod>'}"
    if said.has(r"docker run [^\n]*--gpus[^\n]*nvidia-smi") and not said.has(
        r"daemon-reload|after (a |some|few|\d)|\bhours?\b"
    ):
        place = "/etc/nvidia-container-runtime/config.toml"
        fix = f"sudo sed -i 's/^ *no-cgroups *= *true/no-cgroups = false/' {place} && sudo systemctl restart docker"
        return Cure(fix, "On the host: with no-cgroups no container may open the devices. Rootless docker needs CDI.")
    then = "On the host; it keeps the devices over a daemon-reload. With cgroup v2 also --device /dev/nvidia0 … or CDI."
    return Cure(f"sudo nvidia-ctk system create-dev-char-symlinks --create-all && {restart}", then)


@of("KW-123")
def fabric_manager(said: Said) -> Cure | None:
    branch = said.finds(r"(?:driver version:?|nvidia-smi) (\d{3})\.\d+") or said.finds(
        r"\b(5\d\d)\.\d{2,3}(?:\.\d+)?\b"
    )
    if branch:
        package = f"nvidia-fabricmanager-{branch[1]}"
        return Cure(
            f"sudo apt-get install -y {package} && sudo systemctl enable --now nvidia-fabricmanager",
            "It has to be of exactly the driver's version.",
        )
    return Cure(
        "sudo systemctl enable --now nvidia-fabricmanager && sudo systemctl restart nvidia-fabricmanager",
        "It has to be of exactly the driver's version: nvidia-fabricmanager-<branch>.",
    )


@of("KW-015")
def no_gpu_shown(said: Said) -> Cure | None:
    if said.has(r"slurm|srun|sbatch"):
        return Cure("srun --gres=gpu:1 --pty bash", "A job sees the GPUs that it asks for.")
    if said.has(r"insufficient nvidia\.com/gpu"):
        return Cure(
            "kubectl describe nodes | grep -A8 Allocatable; kubectl rollout restart -n "
            "kube-system daemonset nvidia-device-plugin-daemonset",
            "No node offers a GPU that is free.",
        )
    if said.container:
        return _ways.restart_with_gpu(said)
    if said.has(r"\bollama\b|no nvidia devices detected by library") and not said.windows:
        fix = "sudo rmmod nvidia_uvm; sudo modprobe nvidia_uvm && sudo systemctl restart ollama"
        return Cure(fix, "A suspend leaves that module broken. If it stays: reboot.")
    if said.wsl:
        return Cure(
            "unset CUDA_VISIBLE_DEVICES && export LD_LIBRARY_PATH=/usr/lib/wsl/lib:$LD_LIBRARY_PATH",
            "The driver is Windows' own.",
        )
    return None


@of("KW-061")
def disk_full(said: Said) -> Cure | None:
    if said.has(r"/var/lib/docker|overlay2?/|docker build|^step \d+/|/var/lib/containerd"):
        return Cure(
            "docker system prune -af",
            "It deletes stopped containers and images that none uses; docker system df shows how much.",
        )
    if said.has(r"\.cache/huggingface|hub/models"):
        return Cure(
            'export HF_HOME="$PWD/huggingface"',
            "On a disk with room; huggingface-cli delete-cache takes old models away.",
        )
    if said.shows(r"['\"]?/tmp") or not said.shows(r"site-packages|envs/|\.venv|/home"):
        return None
    return Cure(f"{_ways.pip(said, 'cache purge')}", "conda clean --all -y too; df -h shows which disk is full.")


@of("KW-115")
def library_of_driver(said: Said) -> Cure | None:
    """Triton links to libcuda.so while it runs: the driver is there, under its longer name alone."""
    if said.has(r"cuda_cuda_library"):
        stub = '"${CUDA_HOME:-/usr/local/cuda}/lib64/stubs/libcuda.so"'
        return Cure(f"cmake -DCUDA_CUDA_LIBRARY={stub} .", "In the build directory, with its other options.")
    if not said.has(r"libcuda\.so\S* can ?not (be )?found|symlink of libcuda|\btriton\b|_inductor"):
        return None
    then = "The driver is there as libcuda.so.1; TRITON_LIBCUDA_PATH, a directory, tells a newer Triton where."
    named = said.finds(r"possible files are located at \['((?:/[\w.+-]+)+)/libcuda\.so")
    if said.wsl:
        return Cure("export TRITON_LIBCUDA_PATH=/usr/lib/wsl/lib && sudo ldconfig /usr/lib/wsl/lib", then)
    if named and ".." not in named[1]:
        return Cure(f"sudo ln -s libcuda.so.1 {named[1]}/libcuda.so && sudo ldconfig", then)
    found = "find / -name libcuda.so.1 -not -path '*/compat/*' -not -path '/proc/*' 2> /dev/null | head -n 1"
    linked = 'sudo ln -sf libcuda.so.1 "${SO%.1}" && sudo ldconfig "${SO%/*}"'
    return Cure(f'SO="$({found})" && {linked}', then)


@of("KW-127")
def shared_memory(said: Said) -> Cure | None:
    if said.has(r"k8s|kubernetes|\bpod\b|seldon"):
        return Cure(
            "kubectl patch deployment <name> --type=json -p "
            '\'[{"op":"add","path":"/spec/template/spec/volumes/-","value":{"name":"shm","emptyDir":{"medium":"Memory"}}}]\'',
            "And mount it at /dev/shm.",
        )
    return Cure(
        "docker run --shm-size=16g --gpus all -it \"$(docker ps --latest --format '{{.Image}}')\"",
        "Or --ipc=host; in compose.yaml shm_size: 16gb. In the program: DataLoader(num_workers=0).",
    )


@of("KW-030")
def servers_build(said: Said) -> Cure | None:
    number = said.l4t[0] if said.l4t else 36
    package = said.package or "<package>"
    if number < 36:
        then = "There are no wheels for this L4T on the index of builds for Jetson; JetPack 6 has them."
        return Cure(_ways.pip(said, families.whole(package)), f"That builds it on the board. {then}")
    release = _ways.label(_ways.at_least("12.5"))
    return Cure(
        "python3 -m pip install --force-reinstall --no-deps --index-url "
        f"https://pypi.jetson-ai-lab.io/jp6/{release} {package}",
        "That index has builds for Jetson (L4T).",
    )


@of("KW-031")
def other_build_first(said: Said) -> Cure | None:
    return (
        None
        if not said.package
        else Cure("unset LD_LIBRARY_PATH && " + _ways.pip(said, f"install --upgrade --force-reinstall {said.package}"))
    )


@of("KW-126")
def board_memory(said: Said) -> Cure | None:
    """On a board caches and the desktop have part of what the GPU wants."""
    if not said.jetson:
        return None
    return Cure(
        "sync && echo 3 | sudo tee /proc/sys/vm/drop_caches",
        (
            "CPU and GPU share one memory: that frees what caches hold. The desktop holds more: sudo systemctl isolate "
            "multi-user.target ends it, and what is open there. Then a smaller model, batch or context."
        ),
    )


@of("KW-036")
def other_processor(said: Said) -> Cure | None:
    if said.board and said.shows(r"lib(torch|c10)\b|libtorch"):
        return _ways.of_board(said)
    if said.has(r"docker|platform|container|exec /"):
        return Cure(
            "docker run --privileged --rm tonistiigi/binfmt --install all",
            "Or an image for this processor: --platform linux/$(uname -m | sed 's/x86_64/amd64/; s/aarch64/arm64/').",
        )
    if said.has(r"illegal instruction") and not said.has(r"x86|amd64|\bavx|\bxeon|\bintel\b"):
        then = "On aarch64 OpenBLAS asks some kernels wrongly for the processor. On x86-64: a build without AVX."
        return Cure("export OPENBLAS_CORETYPE=ARMV8", then)
    if said.package:
        return Cure(
            _ways.pip(said, f"install --force-reinstall --no-cache-dir {said.package}"),
            "On this machine, so that pip picks its wheel.",
        )
    return None


@of("KW-062")
def nix(said: Said) -> Cure | None:
    if said.has(r"used in link"):
        return Cure("export NIX_ENFORCE_PURITY=0", "For this shell; better the library among buildInputs.")
    if said.has(r"pure eval"):
        return Cure("nix develop --impure", "Or the path among the flake's inputs, which needs no --impure.")
    return None


@of("KW-081")
def wrong_home(said: Said) -> Cure | None:
    """A toolkit may be missing, too: then the variable has nothing to name."""
    named = said.finds(r"((?:/[\w.+-]+)+)/bin/nvcc['\"]?:? .{0,20}(?:not found|no such file)")
    if named and ".." not in named[1] and said.has(r":/?\S*/bin/nvcc"):
        return Cure(f"export CUDA_HOME={named[1]}", "One directory, without a colon before or behind it.")
    return _ways.toolkit(said) if said.has(r"does not exist|missingcuda") and not said.has(r":/?\S*/bin/nvcc") else None


@of("KW-103")
def module_not_built(said: Said) -> Cure | None:
    if said.has(r"\.fc\d\d|fedora|akmod"):
        fix = "sudo dnf install -y kernel-devel-$(uname -r) && sudo akmods --force && sudo modprobe nvidia"
        return Cure(fix, "A kernel that is newer than the driver needs a newer driver.")
    if said.has(r"nvidia-linux-\w+-[\d.]+\.run|nvidia-installer\.log"):
        cure = _ways.driver(said)
        then = f"The installer's driver is older than this kernel; the distribution's fits its own. {cure.then}"
        return Cure(cure.command, then)
    missing = said.finds(r"(gcc-\d{1,2}): (?:command )?not found")
    if missing:
        headers = "linux-headers-$(uname -r)"
        return Cure(f"sudo apt-get install -y {missing[1]} {headers} && sudo dkms autoinstall && sudo modprobe nvidia")
    return None


@of("KW-106")
def unknown_key(said: Said) -> Cure | None:
    """The repository of the container toolkit has a key of its own."""
    if not said.has(r"nvidia\.github\.io|ddcae044f796ecb0"):
        return None
    ring, place = (
        "/usr/share/keyrings/nvidia-container-toolkit-keyring.gpg",
        "https://nvidia.github.io/libnvidia-container",
    )
    fetched = f"curl -fsSL {place}/gpgkey | sudo gpg --dearmor --yes -o {ring}"
    listed = (
        f"curl -sL {place}/stable/deb/nvidia-container-toolkit.list | sed 's#deb https#deb [signed-by={ring}] https#' "
        "| sudo tee /etc/apt/sources.list.d/nvidia-container-toolkit.list"
    )
    then = "Older lists in /etc/apt/sources.list.d that name nvidia.github.io have to go."
    return Cure(f"{fetched} && {listed} && sudo apt-get update", then)
