# SPDX-License-Identifier: MIT
# The compilers and tools of one target, out of nixpkgs, checked at evaluation against targets.toml: nothing is
# built, and no shell is entered, with an nvcc, a GCC or an archive that the table does not name. `libraries` are rows
# of the table that another project links with.
{
  nixpkgs,
  table,
  system,
  target,
  libraries ? [ ],
}:
let
  linked = map (
    name:
    (table.library.${name}
      or (throw "no CUDA library ${name} in targets.toml; there are ${toString (builtins.attrNames table.library)}")
    ).nix
  ) libraries;
  nvidia = linked ++ [
    "cuda_nvcc"
    "cuda_cudart"
    "cuda_cccl"
    "cuda_nvrtc"
    "cuda_cuobjdump"
    "cuda_nvdisasm"
  ];
  pkgs = import nixpkgs {
    inherit system;
    config = {
      # NVIDIA's toolkit alone, under NVIDIA's own licence (the CUDA EULA); nothing of it gets into a wheel.
      allowUnfreePredicate =
        package:
        let
          name = package.pname or (builtins.parseDrvName package.name).name;
        in
        builtins.any (known: builtins.match "(.*-)?${known}" name != null) nvidia;
      cudaCapabilities = target.capabilities; # by which nixpkgs chooses between SBSA's archives and Tegra's
    };
  };
  inherit (pkgs) lib;

  cuda =
    pkgs.${target.toolkit.nix}
      or (throw "target ${target.name}: nixpkgs has no ${target.toolkit.nix}; ${pin}");
  nvcc = cuda.cuda_nvcc;
  gcc = cuda.backendStdenv.cc;
  archive = nvcc.src.url or (builtins.head nvcc.src.urls);
  pin = "pin the nixpkgs that flake.lock names (nix flake lock), or change targets.toml";

  want = what: is: should: ok: {
    inherit ok;
    message = "target ${target.name}: ${what} of nixpkgs is ${is}, and targets.toml says ${should}; ${pin}";
  };
  accepted = "the ${toString target.toolkit.gcc.min} to ${toString target.toolkit.gcc.max} that its nvcc takes";
  wanted = [
    (want "nvcc" nvcc.version target.toolkit.components.nvcc (
      nvcc.version == target.toolkit.components.nvcc
    ))
    (want "nvcc's host GCC" gcc.version "${toString target.gcc.major}, of ${accepted}" (
      lib.versions.major gcc.version == toString target.gcc.major
    ))
    (want "nvcc's archive" archive "one of ${target.redist}" (lib.hasInfix "/${target.redist}/" archive))
  ];
  checked = lib.foldl' (value: one: if one.ok then value else throw one.message);

  # The one of pip's lock: this nixpkgs' own is from before pyproject.toml could name a licence by its SPDX expression.
  scikitBuildCore =
    modules:
    let
      pin = table.pinOf system "scikit-build-core";
    in
    modules.buildPythonPackage {
      pname = "scikit-build-core";
      inherit (pin) version;
      format = "wheel";
      src = modules.fetchPypi (
        pin
        // {
          pname = "scikit_build_core";
          format = "wheel";
          dist = "py3";
          python = "py3";
        }
      );
      propagatedBuildInputs = [
        modules.packaging
        modules.pathspec
      ];
    };
  python = pkgs.python3.withPackages (modules: [
    modules.nox
    modules.packaging
    modules.pytest
    (scikitBuildCore modules)
    modules.virtualenv
  ]);
in
checked {
  inherit pkgs target;
  stdenv = cuda.backendStdenv;

  # nvcc includes cuda_runtime.h by itself, so its headers are needed though no source of ours names one.
  libraries = [
    cuda.cuda_cudart
    cuda.cuda_cccl
    cuda.cuda_nvrtc
  ]
  ++ map (name: cuda.${name} or (throw "nixpkgs' ${target.toolkit.nix} has no ${name}")) linked;
  programs = [
    nvcc
    cuda.cuda_cuobjdump
    cuda.cuda_nvdisasm
    pkgs.cmake
    pkgs.ninja
    python
  ];

  # What toolchain/kernelwright_toolchain/providers/nix.py reads, and what nvcc's and CMake's users expect to find set.
  variables = {
    KW_NIX_TARGET = target.name;
    KW_NIX_TOOLKIT = target.toolkit.name;
    CUDACXX = "${lib.getBin nvcc}/bin/nvcc";
    CUDAHOSTCXX = "${gcc}/bin/g++";
    CUDAARCHS = target.cudaArchs;
    KW_LIBDEFLATE = "${lib.getLib pkgs.libdeflate}/lib/libdeflate.so";
    KW_TOOLS = import ./locked.nix { inherit pkgs table system; }; # for `nox -s build -- --release`
    # A wheel is for machines without a Nix store: no path into it, no hardening that asks for newer symbols.
    NIX_DONT_SET_RPATH = "1";
    hardeningDisable = [ "all" ];
  };
} wanted
