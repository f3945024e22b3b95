# SPDX-License-Identifier: MIT
# `nix build .#release-<target>`: the released wheel, the bytes that `./kw build` makes, by the locked NVRTC and zig.
# One machine builds it for every target. The commit enters the statement beside the wheel alone, in a derivation of
# its own.
{ self }:
{
  pkgs,
  target,
  release,
}:
let
  inherit ((builtins.fromTOML (builtins.readFile ../pyproject.toml)).project) version;
  python = pkgs.python3.withPackages (modules: [ modules.virtualenv ]);
  made = pkgs.stdenvNoCC.mkDerivation {
    pname = "kernelwright-wheel-${target.name}";
    inherit version;
    src = import ./source.nix [ ];
    nativeBuildInputs = [
      pkgs.cmake
      pkgs.ninja
      python
    ];
    KW_TOOLS = release;
    dontConfigure = true;
    dontUseNinjaBuild = true;
    dontUseNinjaInstall = true;
    dontUseNinjaCheck = true;
    buildPhase = ''
      runHook preBuild
      HOME=$TMPDIR python -m toolchain build --release --target ${target.name} -j "$NIX_BUILD_CORES"
      runHook postBuild
    '';
    installPhase = ''
      runHook preInstall
      install -D -m 644 -t "$out" dist/*
      runHook postInstall
    '';
    dontFixup = true; # the wheel's bytes are final
  };
  commit = self.rev or (builtins.replaceStrings [ "-dirty" ] [ "" ] (self.dirtyRev or ""));
  dirty = if self ? rev then "clean" else "dirty";
in
pkgs.runCommand "kernelwright-release-${target.name}-${version}"
  {
    nativeBuildInputs = [ pkgs.python3 ];
    passthru = { inherit made; };
  }
  ''
    python ${./beside.py} ${made} "$out" "${commit}" ${dirty}
  ''
