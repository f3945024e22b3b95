# SPDX-License-Identifier: MIT
"""The system around: its kernel modules, its package manager, its images, what may be written."""

from __future__ import annotations

from kernelwright.doctor._cause import Area, Cause, number, sign

CAUSES = (
    Cause(
        code="KW-102",
        title="Secure Boot refuses the driver's kernel module",
        area=Area.DRIVER,
        why="With Secure Boot the kernel loads only signed modules; the driver's module was "
        "built here and its key is not enrolled.",
        fix="sudo mokutil --import /var/lib/shim-signed/mok/MOK.der",
        then="Then reboot and enroll the key in the blue screen (or switch Secure Boot off). Fedora's key is "
        "/etc/pki/akmods/certs/public_key.der.",
        signs=(
            sign(r"(insert|load\w*|modprobe|nvidia)\b.{0,60}(key was rejected by service|required key not available)"),
            sign(r"\bkey was rejected by service\b"),
            sign(r"nvidia\S*:? .{0,30}module verification failed|loading of (unsigned|module with unavailable key)", 2),
        ),
        needs=(sign(r"nvidia|nvrm|cuda|nouveau|akmod"),),
    ),
    Cause(
        code="KW-103",
        title="the driver's kernel module was not built for this kernel",
        area=Area.DRIVER,
        why="The module is compiled for each kernel by DKMS or the installer; the kernel's "
        "headers or the right GCC are missing, or the kernel is "
        "newer than the driver.",
        fix="sudo apt-get install -y linux-headers-$(uname -r) && sudo dkms autoinstall && sudo modprobe nvidia",
        then="Fedora: sudo dnf install -y kernel-devel-$(uname -r) && sudo akmods --force. A kernel that is newer "
        "than the driver needs a newer driver.",
        signs=(
            sign(r"version magic ['\"].{0,80} should be"),
            sign(r"while performing the step: ['\"]building kernel modules"),
            sign(r"bad return status for module build on kernel|error! .{0,40}dkms|dkms.{0,60}\b(fail|error)"),
            sign(r"unable to (find|locate) the kernel source|unable to build the (nvidia )?kernel module"),
            sign(r"modprobe: fatal: module nvidia\S* not found in directory /lib/modules"),
            sign(r"your kernel headers for kernel \S+ cannot be found"),
            sign(r"\*\*\* \[[^\]]*/dkms/nvidia[^\]]*\] \S+ \d+$"),
            sign(r"unable to load the kernel module|\bmakefile\S*: \S*nvidia\S*\.o\] error \d"),
            sign(r"nvidia\S*\.ko\b.{0,60}(not found|no such|failed|error|invalid module format)"),
        ),
        yields_to=("KW-019", "KW-060", "KW-102", "KW-104"),
    ),
    Cause(
        code="KW-104",
        title="nouveau holds the GPU",
        area=Area.DRIVER,
        why="The kernel's own driver for NVIDIA GPUs was loaded first; NVIDIA's cannot take the device.",
        fix="printf 'blacklist nouveau\\noptions nouveau modeset=0\\n' | sudo tee "
        "/etc/modprobe.d/blacklist-nouveau.conf && sudo update-initramfs -u",
        then="Then reboot. Fedora and its like: sudo dracut --force in place of update-initramfs.",
        signs=(
            sign(r"nouveau kernel driver is currently in use"),
            sign(r"nvrm: the nvidia probe routine (was not called|failed)|conflicting .{0,40}nouveau"),
            sign(r"kernel driver in use: nouveau", 2),
        ),
    ),
    Cause(
        code="KW-105",
        title="apt or dnf cannot install the NVIDIA packages",
        area=Area.MACHINE,
        why="The repository that has them is not configured for this release or machine type, or "
        "packages of two repositories hold each other "
        "back.",
        fix="wget https://developer.download.nvidia.com/compute/cuda/repos/$(. /etc/os-release; echo $ID$VERSION_ID | "
        "tr -d .)/$(uname -m | sed s/aarch64/sbsa/)/cuda-keyring_1.1-1_all.deb && sudo dpkg -i "
        "cuda-keyring_1.1-1_all.deb && sudo apt-get update",
        then="That is NVIDIA's repository for this release of Ubuntu or Debian; then the same again. Packages that "
        "hold each other back come from two repositories: remove the others (apt-cache policy shows whose they are).",
        signs=(
            sign(r"unable to locate package .{0,30}(cuda|nvidia|cudnn|nccl|tensorrt|nvinfer|jetpack)"),
            sign(r"package '?\S*(cuda|nvidia|cudnn|jetpack)\S*'? has no installation candidate"),
            sign(
                r"(cuda|nvidia|libcudnn|libnvidia|libnvinfer)\S* ?(:\w+ )?: (depends|predepends"
                r"|conflicts|breaks):? .{0,120}(not (going to be installed|installable)|but .{0,60}is "
                r"to be installed)"
            ),
            sign(
                r": (pre)?depends:? .{0,40}\b(cuda|nvidia|libcudnn|tensorrt|libnvinfer)\S* "
                r".{0,60}(not (going to be installed|installable)|is to be installed)"
            ),
            sign(r"no (match for argument|package):? \S*(cuda|nvidia|cudnn)"),
            sign(r"nothing provides .{0,60}needed by (cuda|nvidia|libcudnn)\S* from \S+$"),
            sign(
                r"problem: .{0,120}(cuda|nvidia)\S*.{0,80}(conflicting requests|nothing provides"
                r"|filtered out by modular)"
            ),
        ),
    ),
    Cause(
        code="KW-106",
        title="the key of NVIDIA's package repository is not known",
        area=Area.MACHINE,
        why="NVIDIA changed its repository keys in 2022; images and machines from before do not trust the new one.",
        fix="wget https://developer.download.nvidia.com/compute/cuda/repos/$(. /etc/os-release; echo $ID$VERSION_ID | "
        "tr -d .)/$(uname -m | sed s/aarch64/sbsa/)/cuda-keyring_1.1-1_all.deb && sudo dpkg -i "
        "cuda-keyring_1.1-1_all.deb && sudo apt-get update",
        then="And sudo apt-key del 7fa2af80, where apt-key is.",
        signs=(
            sign(r"no_pubkey (a4b469963bf863cc|f60f4b3d7fa2af80)"),
            sign(
                r"(gpg error|the repository).{0,60}(developer\.download\.nvidia|nvidia\.github\.io"
                r"|repo\.download\.nvidia)\S*.{0,160}(public key|not signed|no_pubkey|invalid)"
            ),
            sign(r"public key for \S*(cuda|nvidia)\S* is not installed"),
            sign(r"nvidia\.(com|github\.io)/[^\n]*\n[^\n]*(signatures couldn'?t be verified|no_pubkey)"),
            sign(r"no_pubkey ddcae044f796ecb0"),
        ),
    ),
    Cause(
        code="KW-107",
        title="the container image does not exist, or not for this processor",
        area=Area.MACHINE,
        why="NVIDIA takes old tags of nvidia/cuda away, and many images are built for x86-64 alone.",
        fix="docker pull --platform linux/$(uname -m | sed 's/x86_64/amd64/; s/aarch64/arm64/') <image>:<tag>",
        then="With a tag that hub.docker.com/r/nvidia/cuda/tags, or catalog.ngc.nvidia.com for nvcr.io, lists for "
        "this processor.",
        signs=(
            sign(r"no matching manifest for linux/"),
            sign(r"manifest (for \S+ )?(unknown|not found)|manifest unknown"),
            sign(r"(nvidia/cuda|nvcr\.io|l4t-)\S*: not found"),
            sign(r"failed to resolve (source metadata|reference).{0,120}(nvidia/|nvcr\.io|cuda|l4t)", 2),
        ),
    ),
    Cause(
        code="KW-108",
        title="a directory may not be written",
        area=Area.MACHINE,
        why="Compilers of kernels write to a cache under the home directory, pip to "
        "site-packages: with another user id in a container, a "
        "read-only file system or a root-owned cache they cannot.",
        # A fixed name under /tmp would be anybody's: what lies in these caches is executed.
        fix='export XDG_CACHE_HOME="$(mktemp -d)" && export TRITON_CACHE_DIR="$XDG_CACHE_HOME/triton" '
        'TORCH_EXTENSIONS_DIR="$XDG_CACHE_HOME/torch_extensions"',
        then="For pip a virtual environment: python3 -m venv ~/venv.",
        signs=(
            sign(
                r"(permission ?(error|denied)|\[errno 13\]).{0,120}(\.cache|\.triton|torch_extensions"
                r"|flashinfer|torchinductor|site-packages|dist-packages|\.local|\.nv|/tmp/)"
            ),
            sign(
                r"(\.cache|\.triton|torch_extensions|flashinfer|site-packages"
                r"|dist-packages)\S*['\"]?:? .{0,20}permission denied"
            ),
            sign(r"read-only file system"),
        ),
        unless=(sign(r"/dev/|nvmap|nvrm"),),
    ),
    Cause(
        code="KW-095",
        title="the system's Python may not be changed by pip",
        area=Area.MACHINE,
        why="Newer distributions mark their Python as managed by apt or dnf, so that pip cannot "
        "break the system's tools.",
        fix="python3 -m venv ~/venv && ~/venv/bin/pip install <package>",
        then="On a Jetson add --system-site-packages to venv, to keep NVIDIA's packages.",
        signs=(
            sign(r"externally[- ]managed[- ]environment"),
            sign(r"this environment is externally managed"),
        ),
    ),
    Cause(
        code="KW-122",
        title="a container lost its GPU devices",
        area=Area.DRIVER,
        why="systemd manages the container's group: when it reloads its units (a daemon-reload, "
        "an update), it takes back the rights to "
        "devices that it was never told of. The host sees its GPUs as before.",
        fix="sudo nvidia-ctk system create-dev-char-symlinks --create-all && docker restart "
        '"$(docker ps --latest --quiet)"',
        then="On the host. The container starts with its devices, and keeps them over the next "
        "reload; with CDI or --device "
        "/dev/nvidia0 … it does too.",
        signs=(
            sign(r"failed to initialize nvml: unknown error"),
            sign(r"\bnvml\w*: unknown error", 2),
            sign(r"containers? (lost|losing|loses) (access to )?(its |the )?gpus?"),
        ),
    ),
    Cause(
        code="KW-123",
        title="the fabric manager of an NVSwitch machine is not running",
        area=Area.DRIVER,
        why="On machines with NVSwitch (HGX, DGX) CUDA starts only when nvidia-fabricmanager has "
        "set up the links, and that has to be of "
        "exactly the driver's version.",
        fix="sudo systemctl enable --now nvidia-fabricmanager && sudo systemctl restart nvidia-fabricmanager",
        then="On the host. If it does not start: the package nvidia-fabricmanager-<branch> of the "
        "driver's own version.",
        signs=(
            number(802),
            sign(r"fabric ?manager.{0,120}(do(es)?n'?o?t? (not )?match|mismatch)"),
            sign(r"(CUDA_ERROR|cudaError).?SYSTEM_?NOT_?READY|\bsystem not yet initialized\b"),
            sign(r"fabric ?manager.{0,80}(not running|fail|error|version mismatch|status=\d)", 2),
            sign(r"error 802: system not yet"),
        ),
    ),
)
