# SPDX-License-Identifier: MIT
# lib.buildWheel: the wheel of another project's kernels, by the locked NVRTC and zig (docs/own-project.md). The
# toolchain and the compilers are this tree's.
{
  pkgs,
  release,
  target,
}:
{
  src,
  name ? "wheel",
  options ? [ ],
}:
pkgs.stdenvNoCC.mkDerivation {
  name = "kernelwright-${name}-${target}";
  inherit src;
  nativeBuildInputs = [
    pkgs.cmake
    pkgs.ninja
    (pkgs.python3.withPackages (modules: [ modules.virtualenv ]))
  ];
  KW_TOOLS = release;
  KW_TOOLCHAIN = import ./source.nix [ ];
  dontConfigure = true;
  dontUseNinjaBuild = true;
  dontUseNinjaInstall = true;
  dontUseNinjaCheck = true;
  buildPhase = ''
    runHook preBuild
    start="$KW_TOOLCHAIN/toolchain/kernelwright_toolchain/start.py"
    HOME=$TMPDIR python -I "$start" "$PWD" kernelwright_toolchain.verbs build --project . --target ${target} \
      -j "$NIX_BUILD_CORES" --out dist ${pkgs.lib.escapeShellArgs options}
    runHook postBuild
  '';
  installPhase = ''
    runHook preInstall
    install -D -m 644 -t "$out" dist/*
    runHook postInstall
  '';
  dontFixup = true; # the wheel's bytes are final
}
