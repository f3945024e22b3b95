# SPDX-License-Identifier: MIT
# `nix build .#<target>`: the labelled wheel, built without network by the nvcc and GCC that the shell has; its
# self-check runs there too. release.nix has the released one.
{
  pkgs,
  target,
  stdenv,
  libraries,
  programs,
  variables,
}:
stdenv.mkDerivation (
  variables
  // {
    pname = "kernelwright-${target.name}-${target.toolkit.name}";
    inherit ((builtins.fromTOML (builtins.readFile ../pyproject.toml)).project) version;
    src = import ./source.nix [ "flake.lock" ];
    nativeBuildInputs = programs;
    buildInputs = libraries;

    # CMake and ninja are tools of the build here, not its drivers.
    dontConfigure = true;
    dontUseNinjaBuild = true;
    dontUseNinjaInstall = true;
    dontUseNinjaCheck = true;
    buildPhase = ''
      runHook preBuild
      HOME=$TMPDIR python -m toolchain build --provider nix --target ${target.name} -j "$NIX_BUILD_CORES"
      runHook postBuild
    '';
    installPhase = ''
      runHook preInstall
      install -D -m 644 -t "$out" dist/*.whl
      runHook postInstall
    '';
    dontFixup = true; # the wheel's bytes are final
    meta = {
      description = "kernelwright for ${target.about}";
      license = pkgs.lib.licenses.mit;
    };
  }
)
