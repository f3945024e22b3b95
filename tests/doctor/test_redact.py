# SPDX-License-Identifier: MIT
"""`--redact`: nobody's name, machine, address or serial number is left, and all that a report is read for is."""

from __future__ import annotations

import os
import pwd
import re
from dataclasses import dataclass
from pathlib import Path

import pytest

from kernelwright.doctor.causes import all_causes
from kernelwright.doctor.report.facts import gather
from kernelwright.doctor.report.redact import redacted
from kernelwright.doctor.report.text import lines
from tests.doctor.made_up import WORKSTATION

HOMES, USERS = "/" + "home", "/" + "Users"  # in one word each would be a path of somebody's machine


@dataclass
class Who:
    user: str = "anna"
    host: str = "buildbox"
    home: str = f"{HOMES}/anna"
    whole: str = ""
    of_the_account: str = ""


@pytest.fixture
def be(monkeypatch):
    def become(**facts):
        who = Who(**facts)
        account = [who.user, "x", 1234, 100, f"{who.whole},room 3", who.of_the_account or who.home, "/bin/sh"]
        for name, value in {"HOME": who.home, "USER": who.user, "LOGNAME": who.user, "HOSTNAME": who.host}.items():
            monkeypatch.setenv(name, value)
        monkeypatch.delenv("SUDO_USER", raising=False)
        monkeypatch.setattr("socket.gethostname", lambda: who.host)
        monkeypatch.setattr("getpass.getuser", lambda: who.user)
        monkeypatch.setattr("pwd.getpwuid", lambda _: pwd.struct_passwd(account))
        system = os.uname()
        monkeypatch.setattr("os.uname", lambda: os.uname_result([system[0], who.host, *system[2:]]))

    return become


# Who it is, what stands there, what is left of it.
TAKEN = [
    ({}, f"{HOMES}/anna/x /scratch/anna/y", "<home>/x /scratch/<user>/y"),
    ({}, "/scratch/anna2/a /data/anna_old /x/cache-anna-1", "/scratch/<user>2/a /data/<user>_old /x/cache-<user>-1"),
    ({}, "anna-desktop ANNA Anna@cluster CORP\\anna", "<user>-desktop <user> <user>@cluster CORP\\<user>"),
    ({}, "/data/hanna/annabel susanna", "/data/hanna/annabel susanna"),
    ({}, f"{HOMES}/grace/y {HOMES}/anna2/z", f"{HOMES}/<user>/y {HOMES}/<user>/z"),
    ({"home": "/srv/people/anna", "of_the_account": "/net/anna"}, "/srv/people/anna/a /net/anna/b", "<home>/a <home>/b"),
    ({"home": "/opt"}, "/opt/a", "/opt/a"),
    ({"home": "/"}, "/usr/lib", "/usr/lib"),
    ({"whole": "Anna Maria Schmidt"}, "built by anna maria schmidt", "built by <user>"),
    ({"user": "anna.schmidt"}, "/x/anna.schmidt/y ANNA.SCHMIDT", "/x/<user>/y <user>"),
    ({"user": "jo"}, "/x/jo/y jo jo@a joined /x/jo2 cuda.jo", "/x/<user>/y <user> <user>@a joined /x/jo2 cuda.jo"),
    ({"user": "zoë"}, "/x/zoë/y zoës zoë1", "/x/<user>/y zoës <user>1"),
    # A name that the report has as a word: only where a name is expected.
    ({"user": "will"}, "it will fail /data/will/x will@a", "it will fail /data/<user>/x <user>@a"),
    # Names that every system or image has.
    ({"user": "root", "home": "/" + "root"}, "run as root, not /" + "root/x", "run as root, not <home>/x"),
    ({"user": "python"}, "/usr/bin/python3 python 3.12", "/usr/bin/python3 python 3.12"),
    ({"user": "ubuntu", "home": f"{HOMES}/ubuntu"}, f"Ubuntu 24.04 {HOMES}/ubuntu/x", "Ubuntu 24.04 <home>/x"),
    ({"user": "user"}, "a user of user space", "a user of user space"),
    ({"host": "ubuntu"}, "Ubuntu 24.04 LTS", "Ubuntu 24.04 LTS"),
    # Hosts and domains.
    ({"host": "gpu7"}, "gpu7, GPU7.cs.example.edu:/x, b@gpu7.", "<host>, <host>:/x, b@<host>."),
    ({"host": "gpu7"}, "gpu71 mygpu7 gpu7-2", "gpu71 mygpu7 gpu7-2"),
    ({"host": "gpu7.cs.example.edu"}, "gpu8.cs.example.edu gpu7", "gpu8.<domain> <host>"),
    # Addresses, and versions that look like some.
    ({}, "http://10.1.2.3/x nfs 192.168.1.9:/data 10.0.0.0/8", "http://<ip>/x nfs <ip>:/data <ip>/8"),
    ({}, "inet 172.16.0.4, proxy=10.9.8.7:3128", "inet <ip>, proxy=<ip>:3128"),
    ({}, "nvidia-curand 10.4.0.35, 9.19.0.56, 127.0.0.1:80", "nvidia-curand 10.4.0.35, 9.19.0.56, 127.0.0.1:80"),
    ({}, "fe80::1ff:fe23:4567:890a 2001:db8::8a2e:370:7334", "<ip> <ip>"),
    ({}, "at::native 0000:01:00.0 12:34:56 std::add", "at::native 0000:01:00.0 12:34:56 std::add"),
    ({}, "eth0 52:54:00:ab:cd:ef 52-54-00-AB-CD-EF", "eth0 <mac> <mac>"),
    ({}, "https://anna:secret@index.example.org/a", "https://<user>@index.example.org/a"),
    ({}, "grace.hopper@navy.example.org git@github.com", "<mail> git@github.com"),
    # What devices are sold with.
    ({}, "GPU-8932f937-d72c-4106-c12f-20bd9faed9f6", "GPU-<uuid>"),
    ({}, "MIG-GPU-8932f937-d72c-4106/1/2,MIG-89a1ffff", "MIG-GPU-<uuid>/1/2,MIG-<uuid>"),
    ({}, "0a1b2c3d-0000-1111-2222-333344445555", "<uuid>"),
    ({}, "GPU-no MIG-x GPU-based", "GPU-no MIG-x GPU-based"),
    # Directories of people.
    ({}, f"/mnt/c{USERS}/Anna Maria/x /mnt/d{USERS}/bob", f"/mnt/c{USERS}/<user>/x /mnt/d{USERS}/<user>"),
    ({}, r"C:\Users\Anna Maria\x", r"C:\Users\<user>\x"),
    ({}, "/nix/var/nix/profiles/per-user/grace/a /etc/profiles/per-user/grace", "/nix/var/nix/profiles/per-user/<user>/a /etc/profiles/per-user/<user>"),
    ({}, "/media/grace/disk /run/media/grace/disk /run/user/1000/x", "/media/<user>/disk /run/media/<user>/disk /run/user/<user>/x"),
    ({}, "/nix/store/0123-anna-env/bin", "/nix/store/0123-<user>-env/bin"),
]  # fmt: skip


@pytest.mark.parametrize(("who", "said", "left"), TAKEN, ids=[str(number) for number in range(len(TAKEN))])
def test_what_is_taken(be, who, said, left):
    be(**who)
    assert redacted(said) == left
    assert redacted({"a": [said, 3, None], "b": {"c": said}}) == {"a": [left, 3, None], "b": {"c": left}}


def test_the_name_of_a_gpu_is_not_a_persons(be):
    """Somebody is called Ada, and so is a GPU."""
    be(user="ada")
    told = redacted({"gpus": [{"name": "RTX 6000 Ada Generation"}], "place": "/data/ada/x"})
    assert told == {"gpus": [{"name": "RTX 6000 Ada Generation"}], "place": "/data/<user>/x"}
    assert redacted("/data/x, ada@a") == "/data/x, <user>@a"


@pytest.mark.parametrize("user", ["root", "user", "ubuntu", "python", "driver", "cuda", "lib", "grace", "anna"])
def test_a_report_stays_one(tmp_path, be, user):
    """Of a machine with nobody's name in it nothing is taken, whatever the account is called."""
    be(user=user, home="/srv/people/x")
    told = gather(WORKSTATION.at(tmp_path))
    told["python"]["executable"], told["library"]["path"] = "/usr/bin/python3", "/usr/lib/libkernelwright.so"
    assert list(lines(redacted(told))) == list(lines(told))


@pytest.mark.parametrize("user", ["anna", "li", "python", "will"])
def test_the_pages_of_causes_stay_whole(be, user):
    be(user=user)
    for cause in all_causes().values():
        for text in (cause.title, cause.why, cause.fix, cause.then):
            assert redacted(text) == text


def test_a_user_id_without_a_name(monkeypatch, be):
    be()
    monkeypatch.setattr("pwd.getpwuid", {}.__getitem__)
    monkeypatch.setattr("getpass.getuser", {}.popitem)
    for name in ("USER", "LOGNAME", "HOME"):
        monkeypatch.delenv(name)
    monkeypatch.setattr(Path, "home", lambda: Path("/srv/people/x"))
    assert redacted("/srv/people/x/y, anna") == "<home>/y, anna"
    assert re.fullmatch(r"<host> .*", redacted("buildbox is it"))
