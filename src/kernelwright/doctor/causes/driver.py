# SPDX-License-Identifier: MIT
"""The NVIDIA driver: not there, not visible, too old, or two of them."""

from __future__ import annotations

from kernelwright.doctor._cause import Area, Cause, number, sign

# Forward compatibility is tried only where the image's CUDA is newer than the host's driver; a driver that new has
# CUDA 12 of itself, so that a mismatch of two files is left.
_BEFORE_CUDA_12 = r"driver version ?[:|]? ?(3\d\d|4\d\d|51\d)\.\d|\bdriver[ -]?(4\d\d|51\d)\.\d"

# What torch's own report says where it sees no GPU: the CUDA it is built with, and drivers before the first that runs it.
_FIRST_DRIVERS = (
    (r"10\.1", r"3\d\d|40\d|41[0-7]"),
    (r"10\.2", r"3\d\d|4[0-3]\d"),
    (r"11\.\d", r"3\d\d|4[0-4]\d"),
    (r"12\.\d", r"[34]\d\d|51\d|52[0-4]"),
    (r"13\.\d", r"[34]\d\d|5[0-7]\d"),
)
_TOO_OLD_FOR = tuple(
    sign(
        r"is cuda available:? (no|false)",
        beside=(rf"cuda used to build pytorch:? {cuda}", rf"driver version:? ({old})\."),
    )
    for cuda, old in _FIRST_DRIVERS
)

CAUSES = (
    Cause(
        code="KW-001",
        title="no NVIDIA driver can be found",
        area=Area.DRIVER,
        why="libcuda.so.1 comes with the driver, not with a CUDA toolkit or a Python package; "
        "without it, or without its "
        "kernel module, no program reaches the GPU.",
        fix="sudo apt-get update && sudo apt-get install -y ubuntu-drivers-common && sudo ubuntu-drivers install",
        then="Then reboot. That is Ubuntu's command; Debian has the driver as nvidia-driver, Fedora as akmod-nvidia "
        "of RPM Fusion, Arch as nvidia-open. In a container the host has it (KW-002), in WSL Windows (KW-008).",
        signs=(
            sign(r"couldn'?t find libnvidia-ml\.so|libnvidia-ml\.so\S* ?(not found|: cannot open)", 2),
            sign(r"cuda driver initialization failed, you might not have"),
            number(303),
            sign(
                r"(failed to (execute|run)|failed).{0,4}[`'\"]?nvidia-smi|[`'\"]nvidia-smi[`'\"] "
                r"failed|nvidia-smi[`'\"]? is (not )?in your path|no such file or directory: "
                r"['\"]?nvidia-smi",
                2,
            ),
            sign(r"libcuda\.so(\.1)?['\"]?:? (cannot open|not found|no such file)"),
            sign(
                r"(can ?not|could not|couldn't|unable to|failed to) (find|load|open|locate"
                r"|dlopen)\b.{0,60}\blibcuda\.so"
            ),
            sign(r"libcuda\.so.{0,40}\b(not found|missing|cannot be found)"),
            sign(r"found no nvidia driver"),
            sign(r"\b(can'?t|cannot|could not|unable to|failed to) initiali[sz]e nvml\W*$", 2),
            sign(r"nvidia-smi has failed because it couldn'?t communicate with the nvidia driver"),
            sign(r"\bnvidia-smi: (command )?not found", 2),
            sign(r"modprobe: .{0,20}module nvidia\S* not found"),
            sign(
                r"(kernel driver|nvidia driver|cuda driver)\b.{0,40}\b(does not appear to be (running"
                r"|loaded)|is not (installed|loaded|running))"
            ),
            sign(r"\bno cuda-capable device is detected|cudaErrorNoDevice|CUDA_ERROR_NO_DEVICE", 2),
            sign(
                r"failed to (call|initialize).{0,20}(cuinit|nvml|cuda driver).{0,80}(no_device|not "
                r"found|unknown error)",
                2,
            ),
            sign(
                r"libcuda\.so\S* can ?not (be )?found",
                apart=(r"\btriton\b|symlink of libcuda|os\.path\.join\(path, 'libcuda\.so'\)",),
            ),
            sign(r"could not find cuda drivers on your machine", 2),
            sign(
                r"cuda driver library (is )?(not found|missing)|no cuda driver (is )?(found|installed)"
                r"|nvidia driver (is )?not (found|installed)"
            ),
            sign(r"cudasupporterror: error at driver init", 2),
            sign(r"nvmlerror\w*driver_?not_?loaded|load library failed: lib(nvidia-ml|cuda)\.so"),
            sign(r"driver missing function|could not load nvml library", 2),
        ),
        unless=(
            sign(r"/nix/store"),
            sign(r"/usr/lib/wsl"),
            sign(r"\b(ld|lld|collect2)\b.{0,20}cannot find -lcuda"),
            sign(r"driver is too old|insufficient|undefined symbol"),
        ),
        yields_to=(
            "KW-002",
            "KW-007",
            "KW-008",
            "KW-009",
            "KW-122",
            "KW-123",
            "KW-014",
            "KW-102",
            "KW-103",
            "KW-104",
        ),
    ),
    Cause(
        code="KW-002",
        title="the container was started without the GPU",
        area=Area.DRIVER,
        why="A container sees the host's driver only when its runtime mounts it: by --gpus, by "
        "the nvidia runtime, or by CDI.",
        fix="sudo apt-get install -y nvidia-container-toolkit && sudo nvidia-ctk runtime configure --runtime=docker "
        "&& sudo systemctl restart docker",
        then="On the host, once (the package is in NVIDIA's repository for the container toolkit); then the container "
        "is started with docker run --gpus all, on a Jetson with --runtime nvidia, by podman with --device "
        "nvidia.com/gpu=all.",
        signs=(
            sign(r"could not select device driver .{0,30}capabilities ?: ?\[\[gpu"),
            sign(r"nvidia-container-(cli|runtime)\S*:? .{0,60}(error|failed|not found)"),
            sign(r"the nvidia driver was not detected\.? *gpu functionality will not be available"),
            sign(r"use the nvidia container toolkit to start this container with gpu support"),
            sign(r"unknown or invalid runtime name: nvidia|unknown runtime specified nvidia"),
            sign(
                r"did you (set the (docker |containerd )?default runtime to|configure the nvidia container toolkit)|could not load nvml library",
                2,
            ),
            sign(
                r"unresolvable cdi devices|\bcdi (host )?devices?\b.{0,60}(fail|not found|no such)"
                r"|failed to inject (cdi )?devices"
            ),
            sign(r"OCI runtime create failed.{0,200}nvidia", 2),
            sign(r"executable file .?nvidia-smi.? not found in \$path"),
        ),
        unless=(
            sign(r"driver not loaded|(nvml|driver|cuda) error:|load library failed"),
        ),  # the toolkit is there and ran: the host has the trouble
        yields_to=("KW-003", "KW-004", "KW-009", "KW-122"),
    ),
    Cause(
        code="KW-003",
        title="the driver is older than this CUDA release needs",
        area=Area.DRIVER,
        why="Each CUDA release has an oldest driver; a program built with a newer release cannot "
        "start on an older one.",
        fix="sudo apt-get update && sudo apt-get install -y ubuntu-drivers-common && sudo ubuntu-drivers install",
        then="Then reboot. The other way is the build of the program for the CUDA level that nvidia-smi shows at the "
        "top right; in a container the driver is the host's.",
        signs=(
            sign(r"driver (version )?\d[\d.]*\b.{0,20} (is )?(older|lower|less) than"),
            sign(r"built for nvidia driver release \d[\d.]* or later, but version"),
            sign(r"\bcuda \d[\d.]*\b.{0,20}requires? (an? )?(nvidia )?driver( version)?\b.{0,20}\d{3}", 2),
            number(35),
            sign(r"forward compatibility was attempted on non", beside=(_BEFORE_CUDA_12,)),
            *_TOO_OLD_FOR,
            # An extension asks the driver for what that does not have yet.
            sign(
                r"\.so[\w.]*: undefined symbol:? cu(init|device|ctx|module|mem|link|stream|event|graph|launch|func|get"
                r"|kernel|library|tensor|ipc|pointer|array|tex|surf)[a-z]+(_v\d)?$"
            ),
            sign(r"cuda driver version is insufficient for cuda runtime version"),
            sign(r"nvidia driver on your system is too old"),
            sign(r"cudaErrorInsufficientDriver|CUDA_ERROR_INSUFFICIENT_DRIVER"),
            sign(
                r"driver (version )?(is )?(too old|insufficient|not supported|older "
                r"than)\b.{0,60}\b(cuda|runtime|nvidia|required)",
                2,
            ),
            sign(
                r"(requires?|needs?|please (update|upgrade)).{0,40}\b(nvidia |gpu |display |cuda "
                r")driver\b.{0,40}(>=|or (newer|later|higher)|at least|\d{3}\.\d+)",
                2,
            ),
            sign(r"unsatisfied condition: cuda ?>= ?\d+"),
            sign(r"\bdriver is incompatible with (this |the )?(package|build|binary|wheel)", 2),
            sign(r"driver is too old \(found version \d+\)"),
            sign(r"libcuda\.so\S*:? undefined symbol:? ?cu[A-Z]\w+"),
            sign(r"(toolkit|runtime) (version )?.{0,20}\b(is )?newer than (the )?(\w+ )?driver", 2),
            sign(r"toolkit version .{0,20}with (the )?(cuda )?driver version .{0,20}(requires|is not|incompatible)", 2),
            sign(
                r"cuda (driver|runtime) version .{0,20}(is )?(insufficient|too old)|driver (does not"
                r"|doesn't) support .{0,20}cuda"
            ),
        ),
        unless=(sign(r"unsupported toolchain|ptx"),),
    ),
    Cause(
        code="KW-004",
        title="two parts of the driver are of different versions",
        area=Area.DRIVER,
        why="The driver's libraries were updated under a kernel module that is still loaded, or "
        "a second set of libraries "
        "(another package, a container image, a compat directory) is found first.",
        fix="sudo reboot",
        then="The kernel module of the libraries that are installed is loaded then. In a container, or if it stays: "
        "take away the second libcuda.so.1 or libnvidia-ml.so.1; the driver's packages belong on the host alone.",
        signs=(
            number(803),
            sign(r"\berror (code )?804\b", 2, apart=(_BEFORE_CUDA_12,)),
            sign(r"driver/library version mismatch"),
            sign(r"CUDA_ERROR_SYSTEM_DRIVER_MISMATCH|cudaErrorSystemDriverMismatch"),
            sign(r"unsupported display driver / cuda driver combination"),
            sign(r"NVRM: API mismatch"),
            sign(r"nvml_success == driverapi::get\(\)->nvmlinit", 2),
            sign(
                r"kernel version \S+ does not match dso version|client .{0,20}version "
                r"\S+.{0,20}but.{0,20}kernel module.{0,20}version"
            ),
            sign(r"forward compatibility was attempted on non[- ]supported h(ard)?w(are)?", apart=(_BEFORE_CUDA_12,)),
            sign(r"cudaErrorCompatNotSupportedOnDevice|CUDA_ERROR_COMPAT_NOT_SUPPORTED_ON_DEVICE"),
        ),
    ),
    Cause(
        code="KW-005",
        title="the driver is too old to compile this PTX",
        area=Area.DRIVER,
        why="The program has no finished code for this GPU, only PTX of a newer CUDA release "
        "than the driver's, which the "
        "driver cannot compile.",
        fix="sudo apt-get update && sudo apt-get install -y ubuntu-drivers-common && sudo ubuntu-drivers install",
        then="Then reboot; or install a build that has this GPU's own code, which no driver has to compile.",
        signs=(
            number(222, 218),
            sign(r"ptx was compiled with an unsupported toolchain"),
            sign(r"(CUDA_ERROR|cudaError).?UNSUPPORTED_?PTX_?VERSION"),
            sign(r"unsupported \.version \d+\.\d+; current version is"),
            sign(r"(CUDA_ERROR_INVALID_PTX|cudaErrorInvalidPtx)|a PTX JIT compilation failed", 2),
            sign(r"ptxas.{0,60}(fatal|error).{0,60}unsupported \.version", 2),
        ),
        # The driver's own compiler calls its input "application ptx input"; a program is given a file.
        unless=(
            sign(r"ptxas (fatal|error).{0,10}: .{0,40}(sm_|value)"),
            sign(r"ptxas (?!application )\S.{0,200}, line \d+; fatal"),
        ),
    ),
    Cause(
        code="KW-006",
        title="libcuda.so.1 is the toolkit's stub, not a driver",
        area=Area.DRIVER,
        why="CUDA toolkits carry an empty libcuda.so to link against, in lib64/stubs. A search "
        "path that names it hides the "
        "driver's.",
        fix="export LD_LIBRARY_PATH=\"$(printf %s \"$LD_LIBRARY_PATH\" | tr : '\\n' | grep -v '/stubs/*$' | paste -sd "
        ':)"',
        then="A line with /stubs in /etc/ld.so.conf.d has to go too, and then sudo ldconfig.",
        signs=(
            number(34),
            sign(r"cuda driver is a stub library"),
            sign(r"cudaErrorStubLibrary|CUDA_ERROR_STUB_LIBRARY"),
            sign(r"\b(mapped|loaded|loading|dlopen\w*|opened)\b[^\n]{0,40}[\n]?[^\n]{0,80}/stubs/libcuda\.so"),
            sign(r"you are linking (with|against) the stub|libcuda\.so\.1 .{0,20}stubs?/libcuda"),
            sign(r"LD_LIBRARY_PATH\S*/stubs(:|/|$)", 1),
        ),
    ),
    Cause(
        code="KW-007",
        title="under Nix the host's driver is not visible",
        area=Area.DRIVER,
        why="Programs from the Nix store do not search the host's library directories. NixOS puts the driver at "
        "/run/opengl-driver; other hosts do not.",
        fix="mkdir -p ~/.cache/host-driver && ln -sf /usr/lib/$(uname "
        "-m)-linux-gnu/lib{cuda,nvidia-ml,nvidia-ptxjitcompiler}.so.1 ~/.cache/host-driver/ && export "
        'LD_LIBRARY_PATH="$HOME/.cache/host-driver${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}"',
        then="nix develop of this project does so by itself; nixGL is another way. On NixOS: hardware.graphics.enable "
        "and the nvidia driver in configuration.nix.",
        signs=(
            sign(r"libcuda\.so.{0,120}/nix/store|/nix/store.{0,160}libcuda\.so.{0,60}(cannot|not found|no such)"),
            sign(r"/run/opengl-driver(/lib)?.{0,60}(no such file|not found|does not exist|cannot)"),
            sign(
                r"found no nvidia driver|(could not|cannot|unable to|failed to) (dlopen|load|find"
                r"|open).{0,40}libcuda\.so|libcuda\.so\S* (=> )?not found",
                2,
            ),
            sign(r"libcuda\.so\S*: cannot open shared object|cuda\.is_available\S*\W{1,40}\bfalse\b", 2),
            sign(r"cuda (is )?available\S*:? *false|no cuda-capable device|cuinit.{0,30}fail", 1),
        ),
        needs=(sign(r"/nix/store|\bnix(os\b|-shell|-build| develop| run)|nixpkgs|opengl-driver"),),
        unless=(sign(r"unfree|hash mismatch"),),
    ),
    Cause(
        code="KW-008",
        title="in WSL the driver's library is not found",
        area=Area.DRIVER,
        why="In WSL the driver is Windows' own; its library lies in /usr/lib/wsl/lib, and a "
        "Linux driver installed beside it "
        "hides it.",
        fix='export LD_LIBRARY_PATH="/usr/lib/wsl/lib${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}"',
        then="Remove any Linux NVIDIA driver from the WSL system. If that directory has no libcuda.so.1, install "
        "NVIDIA's driver in Windows and run wsl.exe --update.",
        signs=(
            sign(r"/usr/lib/wsl/(lib|drivers)\S*.{0,60}(not a symbolic link|cannot|no such|not found)", 2),
            sign(
                r"(libcuda\.so|nvidia-smi|no cuda-capable device|found no nvidia driver|gpu access "
                r"blocked by the operating system)",
                1,
            ),
            sign(r"gpu access blocked by the operating system"),
            sign(
                r"cuinit results in|cuda_error_no_device|failed to (dlopen|load|open) libcuda"
                r"|libcuda\.so(\.1)?: cannot open",
                2,
            ),
            sign(
                r"nvidia-smi has failed because|failed to (initialize|properly shut down) nvml|found no nvidia driver"
            ),
        ),
        # The last is said in WSL alone: there "the operating system" is Windows.
        needs=(
            sign(
                r"\bwsl2?\b|microsoft-standard|/usr/lib/wsl|/mnt/[a-z]/users/|gpu access blocked by the operating system"
            ),
        ),
    ),
    Cause(
        code="KW-009",
        title="the driver is there but CUDA does not start",
        area=Area.DRIVER,
        why="cuInit fails although the library is found: the nvidia_uvm module is not loaded, or "
        "a suspend left it broken.",
        fix="sudo modprobe -r nvidia_uvm && sudo modprobe nvidia_uvm",
        then="If it stays, reboot; the kernel's log (dmesg, lines of NVRM) has the reason. With NVSwitch: KW-123.",
        signs=(
            sign(r"cuinit\S* failed.{0,20}cuda_error_not_initialized"),
            sign(
                r"(cuda error|failed to initialize cuda|cuda failure|cuda initialization)\W{1,4}initialization error", 2
            ),
            sign(r"cuda runtime error \((3|30|999)\) ?: ", 2),
            sign(r"cudaerrorunknown\b|cuda error: unknown error|\bcuda version: err!", 2),
            sign(r"unexpected error from cudagetdevicecount\(\).{0,160}\berror (2|3|999): "),
            sign(r"cuda ?(error|check)\b.{0,120}: (initialization|unknown) error\b", 2),
            number(999),
            sign(r"(driver|cuda) (library )?init(ialization)? fail(ed|ure)\W{1,3}(?!100\b)\d+"),
            sign(r"cuda unknown error - this may be due to an incorrectly set ?up environment"),
            sign(r"cuinit.{0,40}(999|unknown error|CUDA_ERROR_UNKNOWN)"),
            sign(r"call to cuinit results in (unknown|cuda_error_(not_initialized|system|operating|invalid))", 2),
            sign(r"unable to determine the device handle for gpu"),
            sign(r"nvidia-smi\b.{0,40}no devices were found|^no devices were found$"),
            sign(r"\bdriver not loaded\b"),
            sign(r"nvidia-container-cli: initialization error: (driver|cuda) error"),
            sign(r"\brminitadapter failed|uvm.{0,40}(failed|not loaded)"),
            sign(r"failed to initialize nvml: (?!driver/library|could not load|insufficient|unknown error)\w+", 2),
        ),
        unless=(sign(r"\(303\)"),),
        yields_to=("KW-008", "KW-013", "KW-117", "KW-122", "KW-123"),
    ),
    Cause(
        code="KW-019",
        title="the driver's kernel module does not support this GPU",
        area=Area.DRIVER,
        why="Drivers leave old GPUs to a legacy branch, and the open kernel modules want a GPU "
        "of the Turing generation or newer: the module "
        "is loaded, and takes no device.",
        fix="sudo apt-get update && sudo apt-get install -y ubuntu-drivers-common && sudo ubuntu-drivers install",
        then="It takes the branch that still has this GPU; then reboot. Of the packages for GPUs older than Turing "
        "none that ends in -open.",
        signs=(
            sign(r"installed in this system is\b"),
            sign(r"(supported through|requires?|use) the nvidia \d{3}\.\S* legacy|nvidia legacy driver"),
            sign(
                r"gpu .{0,60}is not supported by (the|this|your) (installed |open |current )?(nvidia "
                r"|kernel )?(driver|nvidia\.ko)"
            ),
            sign(r"does not include the required gpu system processor"),
        ),
        # The installer's list of all that may be so.
        unless=(sign(r"this happens most frequently when"),),
        needs=(sign(r"nvrm|legacy|nvidia\.ko|kernel module|driver"),),
    ),
    Cause(
        code="KW-117",
        title="a GPU fell off the bus",
        area=Area.DRIVER,
        why="The GPU no longer answers on PCI Express (Xid 79): its power, its slot or riser, "
        "its heat or the card itself failed for a "
        "moment. Until the machine starts anew it is lost to every program.",
        fix="sudo reboot",
        then="If it stays away, switch the machine off for a minute. If it comes back and goes "
        "again under load: power cables and supply, "
        "the riser, heat; sudo nvidia-smi -pl with fewer watts shows whether it is the supply.",
        signs=(
            sign(r"nvrm: xid .{0,60}\b79\b|gpu has fallen off the bus"),
            sign(r"\bgpu is lost\b|reboot the system to recover this gpu"),
            sign(r"nvmlerror\w*gpu_?is_?lost|nvml_error_gpu_is_lost"),
            sign(r"unable to determine the device handle for gpu", 2),
        ),
    ),
)
