# SPDX-License-Identifier: MIT
"""`./kw install`: a wheel from a directory or a server, by its listed sha256; what is refused; when it builds instead."""

from __future__ import annotations

import hashlib
import json
import subprocess
import sys
import threading
import urllib.request
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from types import SimpleNamespace

import pytest
import tiny

from kernelwright_toolchain import files, targets
from kernelwright_toolchain.building import Options, prebuilt
from kernelwright_toolchain.building import install as module
from kernelwright_toolchain.building import place as places
from kernelwright_toolchain.building.publish import SUMS
from kernelwright_toolchain.errors import GateError, RequestError, WheelRefused
from kernelwright_toolchain.exact import wheel
from kernelwright_toolchain.request import find_target

TABLE = targets.load()
HERE = find_target(TABLE)
ASKED = Options(target=HERE.name)
WANT = prebuilt.wanted(module.request_of(ASKED, TABLE), None, None)


def offer(folder: Path, want: prebuilt.Wanted = WANT, **claims: str) -> Path:
    """A wheel of this name, whose manifest says the same or what `claims` has."""
    facts = {"version": want.version, "target": want.target, "toolkit": want.toolkit, **claims}
    members = {
        "kernelwright/manifest.json": json.dumps(facts).encode(),
        "kernelwright/__init__.py": b"",
        "kernelwright/__main__.py": b"print('checked')\nprint('SUCCESS')\n",
        f"{tiny.INFO}METADATA": b"Metadata-Version: 2.1\nName: kernelwright\nVersion: 0.1.0\n",
        f"{tiny.INFO}WHEEL": b"Wheel-Version: 1.0\nRoot-Is-Purelib: false\nTag: py3-none-any\n",
    }
    folder.mkdir(parents=True, exist_ok=True)
    return tiny.write(folder / want.name, {**members, **tiny.sealed(members)})


def digest(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()


def sums(folder: Path, *paths: Path) -> None:
    (folder / SUMS).write_text("".join(f"{digest(path)}  {path.name}\n" for path in paths), encoding="utf-8")


class Server(SimpleHTTPRequestHandler):
    """Remembers what it was asked for; `lie` breaks a file off after so many bytes, `moved` sends on, `broken` fails."""

    asked: list[str]
    lie: dict[str, int]
    moved: dict[str, str]
    broken: list[str]

    def do_GET(self) -> None:
        self.asked.append(self.path)
        name = self.path.rpartition("/")[2]
        if name in self.broken:
            self.send_error(500)
            return
        if name in self.moved:
            self.send_response(302)
            self.send_header("Location", self.moved[name])
            self.end_headers()
            return
        if name in self.lie:
            data = (Path(self.directory) / name).read_bytes()
            self.send_response(200)
            self.send_header("Content-Length", str(len(data)))
            self.end_headers()
            self.wfile.write(data[: self.lie[name]])
            return
        super().do_GET()

    def log_message(self, *_: object) -> None:
        """Tests stay quiet."""


@pytest.fixture
def shelf(tmp_path):
    return tmp_path / "shelf"


@pytest.fixture
def server(shelf):
    """The shelf by HTTP: its address, what it was asked for, and which files it breaks off."""
    shelf.mkdir(exist_ok=True)
    handler = type("Handler", (Server,), {"asked": [], "lie": {}, "moved": {}, "broken": []})
    with ThreadingHTTPServer(("127.0.0.1", 0), partial(handler, directory=str(shelf))) as running:
        threading.Thread(target=running.serve_forever, daemon=True).start()
        yield SimpleNamespace(
            address=f"http://127.0.0.1:{running.server_address[1]}", asked=handler.asked, lie=handler.lie,
            moved=handler.moved, broken=handler.broken,
        )  # fmt: skip
        running.shutdown()


@pytest.fixture
def get(tmp_path, monkeypatch):
    """What `install` gets for a place; a build makes a wheel at once and is counted."""
    built: list[Options] = []

    def build(options: Options, table: targets.Table) -> SimpleNamespace:
        built.append(options)
        return SimpleNamespace(wheel=offer(tmp_path / "dist"))

    monkeypatch.setattr(module, "build", build)
    monkeypatch.setattr(module, "KEPT", tmp_path / "kept")
    monkeypatch.setenv("no_proxy", "*")

    def act(place, version=None, sha256=None, options=ASKED):
        before = len(built)
        got = module.get(options, TABLE, str(place) if place else None, version, sha256)
        return got, len(built) > before

    return act


def kept(tmp_path: Path) -> list[str]:
    return sorted(path.name for path in (tmp_path / "kept").glob("*"))


def test_a_listed_wheel_is_taken_from_a_directory(get, shelf, tmp_path):
    path = offer(shelf)
    sums(shelf, path)
    got, built = get(shelf)
    assert not built
    assert got.wheel == tmp_path / "kept" / WANT.name
    assert got.wheel.read_bytes() == path.read_bytes()
    assert got.words.startswith(f"prebuilt: {shelf} lists it with this sha256; made from other sources (sha256")


def test_a_listed_wheel_is_fetched_once(get, shelf, server):
    options = Options(target=HERE.name, archs="89", debug=True)  # a label, with its plus
    want = prebuilt.wanted(module.request_of(options, TABLE), None, None)
    assert "+" in want.name
    path = offer(shelf, want)
    sums(shelf, path)
    got, built = get(server.address, options=options)
    assert (built, got.wheel.read_bytes()) == (False, path.read_bytes())
    assert len(server.asked) == 2
    got, _ = get(server.address + "/", options=options)
    assert server.asked[2:] == [f"/{SUMS}"]
    assert "it was taken before" in got.words
    got, _ = get("http://127.0.0.1:9", sha256=digest(path), options=options)  # nobody listens there
    assert "has the sha256 that was asked for" in got.words


@pytest.mark.parametrize("how", ["nothing is listed", "another is listed"])
def test_a_wheel_that_nothing_vouches_for_is_refused(get, shelf, server, tmp_path, how):
    offer(shelf)
    if how == "another is listed":
        (shelf / SUMS).write_text(f"{'0' * 64}  other.whl\n", encoding="utf-8")
    for place in (shelf, server.address):
        with pytest.raises(WheelRefused, match=r"nothing says which bytes it should have.*leave --from out"):
            get(place)
    assert kept(tmp_path) == []


def test_other_bytes_than_the_listed_ones_are_refused_and_not_kept(get, shelf, server, tmp_path):
    path = offer(shelf)
    sums(shelf, path)
    path.write_bytes(path.read_bytes() + b"!")
    for place in (shelf, server.address):
        with pytest.raises(WheelRefused, match=r"has sha256 [0-9a-f]{64}, and its SHA256SUMS says.*Nothing of it is"):
            get(place)
    assert kept(tmp_path) == []


@pytest.mark.parametrize("text", ["<html>not found</html>\n", f"{'0' * 64}  a\n{'1' * 64}  a\n", "0  a\n"])
def test_a_list_that_is_none_is_refused(get, shelf, text):
    offer(shelf)
    (shelf / SUMS).write_text(text, encoding="utf-8")
    with pytest.raises(WheelRefused, match=r"line [12], is not what sha256sum writes"):
        get(shelf)


def test_what_is_not_there_is_built_and_the_reason_said(get, shelf, server, tmp_path, capsys):
    reasons = {}
    (tmp_path / "empty").mkdir()
    for name, place in (("directory", shelf), ("server", server.address), ("empty", tmp_path / "empty")):
        got, built = get(place)
        assert built
        reasons[name] = got.words
        assert f"building: {got.words.removeprefix('built here: ')}" in capsys.readouterr().out
    assert all(f"has neither {WANT.name} nor a {SUMS}" in words for words in reasons.values())
    (shelf / SUMS).write_text("".join(f"{'0' * 64}  {n}.whl\n" for n in "abcdef"), encoding="utf-8")
    assert "it lists a.whl, b.whl, c.whl, d.whl and 2 more" in get(server.address)[0].words
    (shelf / SUMS).write_text(f"{'0' * 64}  {WANT.name}\n", encoding="utf-8")
    assert "lists" in get(shelf)[0].words
    assert "does not have it" in get(shelf)[0].words
    assert get(None)[0].words == "built here: no --from was given"


def test_a_server_that_fails_or_breaks_off_leaves_nothing(get, shelf, server, tmp_path):
    path = offer(shelf)
    sums(shelf, path)
    server.lie[WANT.name] = 100
    got, built = get(server.address)
    assert (built, kept(tmp_path)) == (True, [])
    assert WANT.name in got.words
    got, built = get("http://127.0.0.1:9")
    assert built
    assert f"http://127.0.0.1:9/{SUMS} cannot be read" in got.words
    with pytest.raises(RequestError, match="begins with https"):
        get("ftp://127.0.0.1/x")


def test_the_sha256_that_was_asked_for_counts_wherever_the_wheel_is_from(get, shelf):
    path = offer(shelf)
    sums(shelf, path)
    assert not get(shelf, sha256=digest(path))[1]
    with pytest.raises(WheelRefused, match=r"another build of the same name"):
        get(shelf, sha256="0" * 64)
    with pytest.raises(WheelRefused, match=f"was built here with sha256 [0-9a-f]{{64}}, and {'0' * 64} was asked for"):
        get(None, sha256="0" * 64)
    with pytest.raises(RequestError, match="is no sha256"):
        get(shelf, sha256="abc")


def test_another_version_is_taken_but_not_built(get, shelf):
    want = prebuilt.wanted(module.request_of(ASKED, TABLE), "9.9.9", None)
    path = offer(shelf, want)
    assert path.name.startswith("kernelwright-9.9.9-")
    sums(shelf, path)
    assert not get(shelf, version="9.9.9")[1]
    with pytest.raises(RequestError, match=r"version 9\.9\.8 was asked for, and .* does not list .* check 9\.9\.8 out"):
        get(shelf, version="9.9.8")


@pytest.mark.parametrize(("key", "value"), [("toolkit", "cu999"), ("target", "other"), ("version", "0.0.1")])
def test_a_wheel_under_another_ones_name_is_refused(get, shelf, tmp_path, key, value):
    path = offer(shelf, **{key: value})
    sums(shelf, path)
    with pytest.raises(WheelRefused, match=rf"manifest says {key} {value}, and"):
        get(shelf)
    assert kept(tmp_path) == []


def test_a_listed_file_that_is_no_wheel_is_refused_and_not_kept(get, shelf, tmp_path):
    path = offer(shelf)
    whole = path.read_bytes()
    for data in (b"<html>", whole[:-30], tiny.write(tmp_path / "x.whl", {"a": b""}).read_bytes()):
        path.write_bytes(data)
        sums(shelf, path)
        with pytest.raises(WheelRefused, match=r"is listed, but is no wheel of this project.*Nothing of it is kept"):
            get(shelf)
    assert kept(tmp_path) == []


def test_a_place_that_sends_on_is_followed_but_never_out_of_https(get, shelf, server, tmp_path):
    path = offer(shelf)
    sums(shelf, path)
    (shelf / "store").mkdir()
    path.rename(shelf / "store" / path.name)
    server.moved[WANT.name] = f"{server.address}/store/elsewhere.whl"
    (shelf / "store" / path.name).rename(shelf / "store" / "elsewhere.whl")
    got, built = get(server.address)
    assert (built, got.wheel.name) == (False, WANT.name)
    got.wheel.unlink()
    server.moved[WANT.name] = "ftp://127.0.0.1/k.whl"
    with pytest.raises(
        WheelRefused, match=r"sends on to ftp://127\.0\.0\.1/k\.whl, which anybody on the way may change"
    ):
        get(server.address)
    asked = urllib.request.Request("https://example.org/k.whl")
    with pytest.raises(WheelRefused, match=r"sends on to http://example\.org/k\.whl"):
        places._Redirects().redirect_request(asked, None, 302, "", {}, "http://example.org/k.whl")
    assert places._Redirects().redirect_request(asked, None, 302, "", {}, "https://other.example/k.whl")
    assert kept(tmp_path) == []


@pytest.mark.parametrize(
    ("address", "said"),
    [
        ("https://.example.org/w", "is neither a path nor an address"),
        ("https:///w", "an address is a host and a path"),
        ("https://example.org/w?token=1", "an address is a host and a path"),
        ("https://me:secret@example.org/w", "an address is a host and a path"),
    ],
)
def test_what_is_no_address_is_refused_in_words(get, address, said):
    with pytest.raises(RequestError, match=said) as told:
        get(address)
    assert "secret" not in str(told.value)


def test_an_address_may_have_spaces_and_any_letters(get, shelf, server):
    below = shelf / "Übersetzung, zweite"
    sums(below, offer(below))
    got, built = get(f"{server.address}/{below.name}/")
    assert (built, got.wheel.name) == (False, WANT.name)


@pytest.mark.parametrize("where", ["http://[x/k.whl", "http://.example.org/k.whl"])
def test_a_place_that_sends_on_to_no_address_is_unreachable(get, shelf, server, where):
    sums(shelf, offer(shelf))
    server.moved[WANT.name] = where
    got, built = get(server.address)
    assert built
    assert "cannot be read" in got.words


def test_a_list_that_comes_by_http_vouches_for_nothing(get, shelf, tmp_path, monkeypatch):
    asked: list[str] = []
    monkeypatch.setattr(places, "_open", lambda request, **_: asked.append(request.full_url) or request.missing)
    with pytest.raises(WheelRefused, match=r"by http:// anybody on the way may change .* name the bytes by --sha256"):
        get("http://example.org/wheels")
    assert asked == []
    digest_here = digest(offer(tmp_path / "dist"))
    with pytest.raises(AttributeError, match="missing"):  # it goes on to ask
        get("http://example.org/wheels", sha256=digest_here)
    assert asked == [f"http://example.org/wheels/{SUMS}"]


def test_a_file_without_end_and_a_server_in_trouble_are_given_up(get, shelf, server, monkeypatch, tmp_path):
    path = offer(shelf)
    sums(shelf, path)
    server.broken.append(WANT.name)
    got, built = get(server.address)
    assert built
    assert f"{WANT.name} answers 500" in got.words
    server.broken.clear()
    monkeypatch.setattr(places, "MOST", 400)  # the list has fewer
    got, built = get(server.address)
    assert built
    assert "has more than 400 bytes" in got.words
    assert kept(tmp_path) == []


@pytest.mark.parametrize("version", ["../../x", "1.0/../2", "1.0+cu128", "v1.0"])
def test_a_version_that_is_none_is_refused(get, shelf, version):
    with pytest.raises(RequestError, match="is none, such as"):
        get(shelf, version=version)


def test_which_environment(monkeypatch):
    for name in ("VIRTUAL_ENV", "CONDA_PREFIX"):
        monkeypatch.delenv(name, raising=False)
    assert module.environment(None) is None
    monkeypatch.setenv("CONDA_PREFIX", "/conda")
    assert module.environment(None) == Path("/conda/bin/python")
    monkeypatch.setenv("VIRTUAL_ENV", "/venv")
    assert module.environment(None) == Path("/venv/bin/python")
    assert module.environment("/usr/bin/python3") == Path("/usr/bin/python3")


def test_a_python_that_is_not_there_is_refused_before_anything_is_built(tmp_path, monkeypatch):
    (tmp_path / "venv/bin").mkdir(parents=True)
    (tmp_path / "venv/bin/python").symlink_to(sys.executable)
    assert module.environment(str(tmp_path / "venv")) == tmp_path / "venv/bin/python"
    monkeypatch.setenv(files.CALLED_FROM, str(tmp_path))
    assert module.environment("venv") == tmp_path / "venv/bin/python"
    for wrong in ("/nowhere/python", str(tmp_path), "no-such-python", str(tmp_path / "venv/bin")):
        with pytest.raises(RequestError, match=f"--python {wrong} is neither an interpreter nor"):
            module.environment(wrong)


def test_a_path_is_seen_from_where_the_person_stands(get, shelf, monkeypatch):
    sums(shelf, offer(shelf))
    monkeypatch.setenv(files.CALLED_FROM, str(shelf.parent))
    got, built = get(shelf.name)
    assert not built, got.words


@pytest.mark.parametrize("text", ["http://[::1", "https://[x]/y"])
def test_an_address_that_is_none_is_refused(get, text):
    with pytest.raises(RequestError, match="is neither a path nor an address"):
        get(text)


def test_a_wheel_for_another_machine_is_not_installed(tmp_path):
    other = next(row for row in TABLE.targets.values() if row.machine != HERE.machine)
    request = module.request_of(Options(target=other.name), TABLE)
    with pytest.raises(RequestError, match=f"is for {other.machine}, and this machine is {HERE.machine}"):
        module.install(tmp_path / "k.whl", Path(sys.executable), request)


@pytest.mark.slow
def test_it_is_installed_and_checks_itself(shelf, tmp_path):
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(tmp_path / "venv")], check=True)
    python = tmp_path / "venv" / "bin" / "python"
    request = module.request_of(ASKED, TABLE)
    path = offer(shelf).rename(shelf / "kernelwright-0.1.0-py3-none-any.whl")
    assert module.install(path, python, request) == "SUCCESS"
    broken = tiny.write(path, {**wheel.read(path).members, "kernelwright/__main__.py": b"raise SystemExit('broken')"})
    with pytest.raises(GateError, match=r"was installed, but its self-check failed \(exit code 1\):\nbroken"):
        module.install(broken, python, request)
