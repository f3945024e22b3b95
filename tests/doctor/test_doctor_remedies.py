# SPDX-License-Identifier: MIT
"""Commands by system: each distribution's own package manager, each container's own program, this Python and no other."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from kernelwright.doctor.causes import all_causes
from kernelwright.doctor.checks import examine
from kernelwright.doctor.machine import python
from kernelwright.doctor.machine._machine import Machine
from kernelwright.doctor.remedies import containers, packages, shell, systems, toolkits
from tests.doctor import made_up
from tests.doctor.made_up import H100, NO_DRIVER, ORIN, WORKSTATION
from tests.doctor.test_doctor_checks import BARE
from tests.doctor.test_doctor_fixes import is_a_command

SYSTEMS = {
    'ID=ubuntu\nID_LIKE=debian\nVERSION_ID="24.04"\n': ("ubuntu-drivers install", "apt-get install -y g++-12"),
    "ID=linuxmint\nID_LIKE=ubuntu\n": ("ubuntu-drivers install", "apt-get install -y g++-12"),
    'ID=debian\nVERSION_ID="12"\n': ("nvidia-driver", "apt-get install -y g++-12"),
    "ID=fedora\nVERSION_ID=42\n": ("akmod-nvidia", "dnf install -y gcc12-c++"),
    'ID="rocky"\nID_LIKE="rhel centos fedora"\nVERSION_ID="9.4"\n': ("nvidia-driver:open-dkms", "gcc-toolset-12"),
    'ID="almalinux"\nID_LIKE="fedora rhel centos"\n': ("nvidia-driver:open-dkms", "gcc-toolset-12"),
    'ID="ol"\nID_LIKE="fedora"\nVERSION_ID="9.5"\n': ("nvidia-driver:open-dkms", "gcc-toolset-12"),
    'ID="amzn"\nID_LIKE="fedora"\nVERSION_ID="2023"\n': ("cuda-amzn2023.repo", "dnf install -y gcc12-c++"),
    "ID=arch\n": ("pacman -Syu --needed nvidia-open", "pacman -S --needed gcc12"),
    'ID="opensuse-leap"\nID_LIKE="suse opensuse"\n': ("zypper install -y nvidia-open", "zypper install -y gcc12-c++"),
    "ID=nixos\n": ("nixos-rebuild switch", "g++-12"),
    "": ("ubuntu-drivers install", "apt-get install -y g++-12"),
}


@pytest.mark.parametrize("release", SYSTEMS, ids=lambda text: text.splitlines()[0] if text else "none")
def test_a_distribution_installs_with_its_own(tmp_path, release):
    machine = BARE.but(files={"/etc/os-release": release}).at(tmp_path)
    wanted, gcc = SYSTEMS[release]
    fix, then = systems.driver(machine, "1.2 or newer")
    assert wanted in fix
    assert is_a_command(fix)
    assert "1.2 or newer" in then
    assert "eboot" in then
    assert gcc in toolkits.older_gcc(machine, 12)[0]
    assert is_a_command(toolkits.older_gcc(machine, 12)[0])
    assert is_a_command(toolkits.install(machine, "12.8")[0])


@pytest.mark.parametrize(
    ("kernel", "wanted"),
    [
        ("5.14.0-427.el9.x86_64", "open-dkms"),
        ("6.1.119-129.201.amzn2023.x86_64", "cuda-amzn2023.repo"),
        ("6.8.0-45-generic", "ubuntu-drivers"),
        ("6.1.0-18-amd64", "nvidia-driver"),
    ],
)
def test_the_driver_of_a_container_is_its_hosts(tmp_path, kernel, wanted):
    """The container says that it is Alpine; the kernel says whose the host is."""
    machine = BARE.but(files={"/.dockerenv": "", "/etc/os-release": "ID=alpine\n"}, kernel=kernel).at(tmp_path)
    fix, then = systems.driver(machine)
    assert wanted in fix
    assert then.startswith("On the host")


CONTAINERS = [
    ({"/.dockerenv": "", "/etc/hostname": "3f2a9c1b7d10\n"}, {},
     "docker run --gpus all -it \"$(docker inspect --format '{{.Config.Image}}' 3f2a9c1b7d10)\""),
    ({"/run/.containerenv": "", "/etc/hostname": "3f2a9c1b7d10\n"}, {}, "podman run --device nvidia.com/gpu=all -it "),
    ({}, {"APPTAINER_NAME": "a.sif", "APPTAINER_CONTAINER": "/data/my image.sif"}, "apptainer shell --nv '/data/my image.sif'"),
    ({"/proc/1/cgroup": "0::/kubepods/x\n", "/etc/hostname": "web-7d4b9c6f5-abcde\n"}, {},
     "kubectl set resources deployment web --limits=nvidia.com/gpu=1"),
    ({"/proc/1/cgroup": "0::/kubepods/x\n", "/etc/hostname": "trainer\n"}, {}, "kubectl get pod trainer -o yaml | "),
    ({"/proc/1/cgroup": "0::/lxc/x\n", "/etc/hostname": "box\n"}, {}, "lxc config set box nvidia.runtime true"),
]  # fmt: skip


@pytest.mark.parametrize(("files", "variables", "wanted"), CONTAINERS, ids=[one[2][:14] for one in CONTAINERS])
def test_a_container_is_started_by_its_own_program(tmp_path, files, variables, wanted):
    machine = BARE.but(files={**files, **made_up.module()}, variables=variables).at(tmp_path)
    assert containers.with_gpu(machine)[0].startswith(wanted)
    found = {one.code: one for one in examine(machine)}["KW-002"]
    assert found.fix.startswith(wanted)
    assert is_a_command(found.fix)


def test_a_container_on_a_jetson(tmp_path):
    made = ORIN.but(files={"/.dockerenv": "", "/usr/lib/aarch64-linux-gnu/nvidia/libcuda.so.1": None}, driver=NO_DRIVER)
    [found] = [one for one in examine(made.at(tmp_path)) if one.code == "KW-035"]
    assert found.fix.startswith("docker run --runtime nvidia -it ")


def test_this_python_and_no_other():
    """On the machine itself: the interpreter that runs, as a shell reads it."""
    here = Machine(dict(os.environ))
    assert packages.interpreter(here) == shell.quote(sys.executable)
    assert shell.quote(sys.executable) in packages.pip(here, "install", "x")


def test_uv_without_pip(tmp_path):
    made = WORKSTATION.but(files={f"{made_up.SITE}/triton-3.4.0.dist-info/INSTALLER": "uv\n"})
    assert packages.pip(made.at(tmp_path), "install", "x") == "uv pip install --python python3 x"
    assert packages.empty_cache(made.at(tmp_path, write=False)) == "uv cache clean"


def test_uv_on_a_jetson(tmp_path):
    """uv has neither pip's configuration nor its cache; its constraint file is named by a variable."""
    info = f"{made_up.SITE}/torch-2.5.0a0+872d972e41.nv24.08.dist-info"
    made = ORIN.but(files={"/etc/pip.conf": None, f"{info}/INSTALLER": "uv\n"})
    (found,) = [found for found in examine(made.at(tmp_path)) if found.code == "KW-037"]
    assert found.fix.endswith("nv24.08 >> ~/jetson.txt && export UV_CONSTRAINT=~/jetson.txt")
    assert is_a_command(found.fix)
    held = made.but(variables={"UV_CONSTRAINT": "/etc/pip.constraints"})
    assert not [found for found in examine(held.at(tmp_path, write=False)) if found.code == "KW-037"]


def test_a_missing_package_leaves_the_search_path(tmp_path):
    """An empty entry in front of others would be the directory one is in."""
    (tmp_path / "python").write_text("#!/bin/sh\nexit 1\n")
    (tmp_path / "python").chmod(0o755)
    script = all_causes()["KW-050"].fix + '; echo "$LD_LIBRARY_PATH"'
    given = {"PATH": f"{tmp_path}:/usr/bin:/bin", "LD_LIBRARY_PATH": "/srv/lib"}
    done = subprocess.run(["bash", "-c", script], env=given, capture_output=True, text=True, check=True)
    assert done.stdout == "/srv/lib\n"


@pytest.mark.parametrize(
    ("made", "level", "older", "wanted"),
    [
        (WORKSTATION, 12020, False, "/cu128"),
        (WORKSTATION, 12080, True, "/cu126"),
        (WORKSTATION, 13000, False, "/cu130"),
        (WORKSTATION, 99000, False, "/cu130"),
        (WORKSTATION, None, False, "--no-cache-dir torch"),
        (
            WORKSTATION.but(files=made_up.package("torchvision", "0.23.0")),
            12020,
            False,
            " torch torchvision --index-url ",
        ),
        (ORIN, 12060, False, "/jp/v61/pytorch/ torch"),
        (ORIN.but(files={"/etc/nv_tegra_release": "# R36 (release), REVISION: 3.0\n"}), 12020, False, "/jp/v60/"),
        (ORIN.but(files={"/etc/nv_tegra_release": "# R35 (release), REVISION: 4.1\n"}), 11040, False, "/jp/v512/"),
    ],
)
def test_the_torch_of_a_machine(tmp_path, made, level, older, wanted):
    fix, _ = packages.torch(made.at(tmp_path), level, older=older)
    assert wanted in fix
    assert is_a_command(fix)


def test_no_torch_is_named_for_a_driver_that_has_none(tmp_path):
    assert packages.torch(WORKSTATION.at(tmp_path), 11040) is None


def test_condas_torch_is_condas(tmp_path):
    made = WORKSTATION.but(files={"/usr/local/conda-meta/pytorch-2.8.0-h1.json": "{}"})
    machine = made.at(tmp_path)
    (tmp_path / "usr/local/lib/python3.11/conda-meta").mkdir(parents=True)
    assert python.torch(machine).origin == "conda"
    assert packages.torch(machine, 12080)[0].startswith("conda install ")


def test_search_paths(tmp_path):
    machine = WORKSTATION.but(variables={"LD_LIBRARY_PATH": "/a b:/usr/local/cuda/lib64/stubs:/c"}).at(tmp_path)
    assert shell.search_without(machine, "/usr/local/cuda/lib64/stubs") == "export LD_LIBRARY_PATH='/a b:/c'"
    assert shell.search_without(machine, "/a b", "/c", "/usr/local/cuda/lib64/stubs") == "unset LD_LIBRARY_PATH"
    assert shell.search_first(machine, "/c") == "export LD_LIBRARY_PATH='/c:/a b:/usr/local/cuda/lib64/stubs'"


def test_a_gpu_gets_the_build_that_the_table_has(tmp_path):
    """And one that it has not, a way to go on without."""
    for capability, wanted in ((75, "./kw build -- --archs 75"), (35, "export KERNELWRIGHT_DISABLE=1")):
        made = WORKSTATION.but(driver={"init": 0, "level": 13000, "gpus": [{**H100, "capability": capability}]})
        found = {one.code: one for one in examine(made.at(tmp_path / str(capability)))}
        assert found["KW-074"].fix == wanted


def test_a_device_file_of_a_group(tmp_path, monkeypatch):
    """The group that may open it is named; where it is root's alone, the file is opened to all, as is the default."""
    machine = WORKSTATION.at(tmp_path)
    monkeypatch.setattr("os.access", lambda path, _: not str(path).endswith("nvidia0"))
    for group, wanted in (("video", 'sudo usermod -aG video "$(id -un)"'), (None, "sudo chmod a+rw /dev/nvidia0")):
        monkeypatch.setattr(Machine, "group_that_may", lambda *_, group=group: group)
        found = {one.code: one for one in examine(machine)}["KW-014"]
        assert found.fix == wanted


def test_no_sudo_for_root(monkeypatch):
    here = Machine({}, root=Path("/"))
    for user, wanted in ((0, ""), (1000, "sudo ")):
        monkeypatch.setattr(os, "geteuid", lambda user=user: user)
        assert shell.sudo(here) == wanted
