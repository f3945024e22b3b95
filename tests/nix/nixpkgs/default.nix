# SPDX-License-Identifier: MIT
# nixpkgs as far as this project's flake looks at it. Derivations are real, so they evaluate and have paths; how they
# are built is build.nix's. The choice between NVIDIA's archives follows nixpkgs' own rule: by capability, never by
# machine.
{
  system,
  config ? { },
  overlays ? [ ],
}:
let
  answers = import ./answers.nix;
  build = import ./build.nix { inherit system; };

  package =
    name: version: more:
    derivation (build.package name // { inherit system; name = "${name}-${version}"; })
    // { inherit version; } // more;

  capabilities = config.cudaCapabilities or [ ];
  onJetson = builtins.filter (cc: builtins.elem cc answers.jetson) capabilities;
  archives =
    if system == "x86_64-linux" then
      (if onJetson == [ ] then "linux-x86_64" else throw "stand-in nixpkgs: a Jetson capability on x86_64")
    else if onJetson == [ ] then
      "linux-sbsa"
    else if onJetson == capabilities then
      "linux-aarch64"
    else
      throw "stand-in nixpkgs: Jetson and other capabilities in one package set";

  unfree =
    value:
    if config.allowUnfree or false || (config.allowUnfreePredicate or (package: false)) value then
      value
    else
      throw "stand-in nixpkgs: refusing to evaluate an unfree package";
  nvidia =
    version: name:
    unfree (
      package name version {
        src.url = "https://nvidia.invalid/redist/${name}/${archives}/${name}-${version}-archive.tar.xz";
      }
    );
  nvidiaNames = [
    "cuda_nvcc"
    "cuda_cudart"
    "cuda_cccl"
    "cuda_nvrtc"
    "cuda_cuobjdump"
    "cuda_nvdisasm"
    "libcublas"
    "libcusparse"
  ];

  kinds = [ "packages" "nativeBuildInputs" "buildInputs" ];
  # What becomes of attributes: lists of packages and functions are no environment variables.
  make =
    stdenv: attributes:
    derivation (
      build.phases
      // {
        inherit system;
        name = attributes.name or "${attributes.pname}-${attributes.version}";
        compiler = stdenv.cc;
        packages = builtins.concatMap (kind: attributes.${kind} or [ ]) kinds;
      }
      // removeAttrs attributes ([ "name" "meta" ] ++ kinds)
    );

  stdenvWith = cc: rec {
    inherit cc;
    mkDerivation = make { inherit cc; };
  };
  first = builtins.head (builtins.attrValues answers.sets); # nixpkgs' own GCC is that of the first set here
  gccOf = version: package "gcc-wrapper" version { cc = package "gcc" version { }; };
  cudaPackages =
    set:
    { backendStdenv = stdenvWith (gccOf set.gcc); }
    // builtins.listToAttrs (map (name: { inherit name; value = nvidia set.nvcc name; }) nvidiaNames);

  pythonModules = builtins.listToAttrs (
    map (name: { inherit name; value = package name "0" { }; }) [ "nox" "packaging" "pathspec" "pytest" "virtualenv" ]
  ) // {
    # A fixed output: Nix holds what it gets to the hash, wherever it is from.
    fetchPypi =
      wanted:
      derivation (
        build.fetched wanted
        // {
          inherit system;
          name = "${wanted.pname}-${wanted.version}-${wanted.python}-${wanted.abi or "none"}.whl";
          outputHashAlgo = "sha256";
          outputHashMode = "flat";
          outputHash = wanted.sha256;
        }
      )
      // { inherit (wanted) sha256; };
    buildPythonPackage = wanted: package wanted.pname wanted.version { inherit (wanted) src; };
  };
  stdenvNoCC = stdenvWith (package "no-compiler" "0" { });
  withModules =
    modules: choose:
    make stdenvNoCC (build.package "python3" // { name = "python3-env"; modules = choose modules; });

  # An overlay as far as ours goes: more Python modules.
  extended =
    packages: overlay:
    let
      final = packages // overlay final packages;
      modules = builtins.foldl' (
        all: extension: all // extension modules all
      ) pythonModules final.pythonPackagesExtensions;
    in
    final // { python3 = packages.python3 // { pkgs = modules; withPackages = withModules modules; }; };
  # A fixed output, as fetchPypi's.
  fetchurl =
    { url, sha256 }:
    derivation (
      build.package "fetchurl"
      // {
        inherit system url;
        name = baseNameOf url;
        outputHashAlgo = "sha256";
        outputHashMode = "flat";
        outputHash = sha256;
      }
    );
  whole = builtins.mapAttrs (_: cudaPackages) answers.sets // rec {
  inherit fetchurl;
  lib = {
    versions.major = version: builtins.head (builtins.splitVersion version);
    hasInfix = infix: text: builtins.length (builtins.split infix text) > 1;
    foldl' = builtins.foldl';
    getBin = value: value;
    getLib = value: value;
    optionalString = wanted: text: if wanted then text else "";
    makeLibraryPath = packages: builtins.concatStringsSep ":" (map (one: "${one}/lib") packages);
    escapeShellArgs = words: builtins.concatStringsSep " " (map (word: "'${word}'") words);
    licenses.mit = { };
  };
  mkShell = {
    override = { stdenv }: make stdenv;
  };
  inherit stdenvNoCC;
  stdenv = stdenvWith (gccOf first.gcc) // { hostPlatform = { inherit system; }; };
  zlib = package "zlib" "1.3" { };
  pythonPackagesExtensions = [ ];
  python3 = package "python3" answers.python { } // {
    pythonVersion = answers.python;
    pkgs = pythonModules;
    withPackages = withModules pythonModules;
  };
  cmake = package "cmake" "3.30" { };
  ninja = package "ninja" "1.12" { };
  writeShellScriptBin = name: text: package name "0" { inherit text; };
  libdeflate = package "libdeflate" "1.22" { };
  nixfmt-rfc-style = package "nixfmt" "0" { };
  runCommand =
    name: attributes: script:
    make stdenvNoCC (build.command // removeAttrs attributes [ "passthru" ] // { inherit name script; })
    // (attributes.passthru or { });
    extend = extended whole;
  };
in
builtins.foldl' extended whole overlays
