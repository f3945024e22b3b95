# SPDX-License-Identifier: MIT
# The tree as a build reads it (toolchain/kernelwright_toolchain/source.py; tests/nix compares): a line in docs/ changes
# no derivation. `more` are files beside, such as an environment's own lock.
more:
let
  root = toString ../.;
  folders = [
    "csrc"
    "src"
    "cmake"
    "toolchain"
    "locks"
  ];
  files = [
    "CMakeLists.txt"
    "pyproject.toml"
    "targets.toml"
    "benchmarks/sass.toml"
    "README.md"
    "LICENSE"
    "kw"
  ];
  begins = text: part: builtins.substring 0 (builtins.stringLength part) text == part;
  wanted =
    name: type:
    if type == "directory" then
      builtins.any (folder: name == folder || begins name "${folder}/") folders
      || builtins.any (file: begins file "${name}/") (files ++ more)
    else
      builtins.elem name (files ++ more) || builtins.any (folder: begins name "${folder}/") folders;
in
builtins.path {
  path = ../.;
  name = "kernelwright-source";
  filter =
    path: type:
    let
      name = builtins.substring (builtins.stringLength root + 1) (builtins.stringLength path) path;
    in
    wanted name type && baseNameOf name != "__pycache__";
}
