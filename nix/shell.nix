# SPDX-License-Identifier: MIT
# `nix develop .#<target>`: the target's compilers, nox, and the driver of the machine it runs on.
{
  pkgs,
  target,
  stdenv,
  libraries,
  programs,
  variables,
}:
pkgs.mkShell.override { inherit stdenv; } (
  variables
  // {
    name = "kernelwright-${target.name}";
    packages = programs;
    buildInputs = libraries;
    shellHook = ''
      . ${./driver.sh}
      kw_driver
      echo "kernelwright for ${target.name}: nvcc ${target.toolkit.components.nvcc}; nox -s build" >&2
    '';
  }
)
