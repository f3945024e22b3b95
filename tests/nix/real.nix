# SPDX-License-Identifier: MIT
# How the stand-in's packages are built where a test builds: a package is scripts that run programs of this machine, and
# stdenv the few lines of nixpkgs' that nix/wheel.nix and `nix develop` count on. No other program is on PATH.
{ system }:
let
  prefix = "@prefix@";
  wheels = "@wheels@"; # where the locked files lie; without them, nothing of a release can be built
  programs = {
    cuda_nvcc = [ "nvcc" ];
    cmake = [ "cmake" ];
    ninja = [ "ninja" ];
    python3 = [ "python" "python3" "nox" ];
    gcc-wrapper = [ "g++" "gcc" ];
  };
  ofTheSystem = {
    gcc-wrapper = [ "as" "ld" ];
    stdenv = [
      "basename" "cat" "chmod" "cp" "dirname" "env" "grep" "install" "ln" "ls" "mkdir" "mv" "rm" "sed" "sh" "tr" "uname"
    ];
  };
  # It ends by itself: Nix kills a program that has closed its output, as those of coreutils do before they end.
  bash = script: {
    builder = "/bin/bash";
    args = [ "-euc" "export PATH=/usr/bin:/bin; ${script}\nexit 0" ];
  };
  package =
    name:
    bash ''
      mkdir -p "$out/bin" "$out/lib"
      make() {
        for one in ''${@:2}; do
          printf '#!/bin/sh\nexec "%s" "$@"\n' "$1/$one" > "$out/bin/$one"
          chmod +x "$out/bin/$one"
        done
      }
      make ${prefix}/bin ${toString (programs.${name} or [ ])}
      make /usr/bin ${toString (ofTheSystem.${name} or [ ])}
      [ ${name} != libdeflate ] || ln -s ${prefix}/lib/libdeflate.so "$out/lib/"
      [ ${name} != stdenv ] || cp "$setupPath" "$out/setup"
    '';
  setup = ''
    PATH=$stdenv/bin
    for one in $compiler $packages; do PATH=$PATH:$one/bin; done
    export PATH
    runHook() { :; }
  '';
  # `nix build` and `nix develop` both go by outputs and stdenv.
  common = {
    outputs = [ "out" ];
    stdenv = derivation (
      package "stdenv"
      // {
        inherit system;
        name = "stdenv";
        setupPath = builtins.toFile "setup" setup;
      }
    );
  };
in
{
  inherit package;
  fetched =
    wanted:
    let
      words = [ wanted.pname wanted.version wanted.python wanted.abi wanted.platform ];
    in
    bash ''cp "${wheels}/${builtins.concatStringsSep "-" words}.whl" "$out"'';
  command =
    bash ''
      . "$stdenv/setup"
      eval "$script"
    ''
    // common;
  phases =
    bash ''
      . "$stdenv/setup"
      cp -r "$src" source
      chmod -R u+w source
      cd source
      export HOME=/homeless-shelter
      eval "$buildPhase"
      eval "$installPhase"
    ''
    // common;
}
