# SPDX-License-Identifier: MIT
# The release's compilers as Nix fetches them: each file of pip's locks is a fixed output, by the lock's sha256 and the
# name that locks/files.json has for it. They lie unpacked under the names that `./kw provision` gives them, so that a
# build finds them by KW_TOOLS: NVRTC needs the C library alone, zig nothing. CMake and ninja are left to nixpkgs:
# PyPI's programs do not start where there is no /lib64, and no byte of a wheel depends on their release.
{
  pkgs,
  table,
  system,
}:
let
  python = pkgs.python3;
  left = [
    "cmake"
    "ninja"
  ];
  fetched =
    row:
    let
      name = builtins.head (builtins.split "[.]whl$" row.file); # NAME-VERSION-PYTHON-ABI-PLATFORM
      part = builtins.elemAt (builtins.filter builtins.isString (builtins.split "-" name));
    in
    python.pkgs.fetchPypi {
      pname = part 0;
      version = part 1;
      format = "wheel";
      dist = part 2;
      python = part 2;
      abi = part 3;
      platform = part 4;
      inherit (row) sha256;
    };
  # Of NVIDIA's archives each goes by itself: the first part of its path is the component.
  untar =
    set: row:
    let
      archive = pkgs.fetchurl { inherit (row) url sha256; };
      component = builtins.head (builtins.split "/" row.path);
    in
    ''
      python ${../toolchain/kernelwright_toolchain/providers/untar.py} "$out/${set.name}" ${component} ${archive}
    '';
  place =
    set:
    if set ? archives then
      builtins.concatStringsSep "" (map (untar set) set.archives)
    else
      ''
        python ${./unpack.py} "$out/${set.name}" ${toString (map fetched set.files)}
      '';
in
pkgs.runCommand "kernelwright-locked" { nativeBuildInputs = [ python ]; } (
  builtins.concatStringsSep "" (map place (table.setsFor system python.pythonVersion left))
)
