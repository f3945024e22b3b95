# SPDX-License-Identifier: MIT
# `nix develop .#<target>`: the target's compilers, nox, and the driver of the machine it runs on. `more` packages are a
# caller's, and with `kwt` the command is there, for a project that is not this one; with `tests`, modules that pip
# brings find the C++ library that PyPI's torch is linked with.
{
  more ? [ ],
  kwt ? false,
  tests ? false,
}:
{
  pkgs,
  target,
  stdenv,
  libraries,
  programs,
  variables,
}:
let
  tree = import ./source.nix [ ];
  command = pkgs.writeShellScriptBin "kwt" ''
    exec python3 -I ${tree}/toolchain/kernelwright_toolchain/start.py "$PWD" kernelwright_toolchain.verbs "$@"
  '';
in
pkgs.mkShell.override { inherit stdenv; } (
  variables
  // {
    name = "kernelwright-${target.name}-${target.toolkit.name}${if tests then "-tests" else ""}";
    packages = programs ++ more ++ (if kwt then [ command ] else [ ]);
    buildInputs = libraries;
    shellHook = ''
      # Another toolkit that a person's own shell names is not this shell's.
      unset CUDA_HOME CUDA_PATH NVCC_CCBIN
      . ${./driver.sh}
      kw_driver
      ${pkgs.lib.optionalString tests ''
        export LD_LIBRARY_PATH="${
          pkgs.lib.makeLibraryPath [
            pkgs.stdenv.cc.cc
            pkgs.zlib
          ]
        }''${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}"
      ''}
      echo "kernelwright for ${target.name}: nvcc ${target.toolkit.components.nvcc}" >&2
      echo "  nox -s build, by this nvcc and its GCC: a wheel with the label +nix" >&2
      echo "  nox -s build -- --release, by the locked NVRTC and zig: the released wheel's bytes" >&2
    '';
  }
)
