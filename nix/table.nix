# SPDX-License-Identifier: MIT
# targets.toml, with what the flake derives from it. Needs no nixpkgs.
let
  table = builtins.fromTOML (builtins.readFile ../targets.toml);
  names = builtins.attrNames table.target;

  # x86-64 and aarch64 as Nix calls them. Several targets may be one system: SBSA and Tegra are both aarch64.
  systemOf = target: "${target.machine}-linux";
  systems = builtins.attrNames (
    builtins.listToAttrs (
      map (name: {
        name = systemOf table.target.${name};
        value = null;
      }) names
    )
  );
  namesOf = system: builtins.filter (name: systemOf table.target.${name} == system) names;

  knows =
    toolkit: span:
    builtins.compareVersions span.first toolkit.release <= 0
    && (!(span ? last) || builtins.compareVersions toolkit.release span.last <= 0);
  number = code: builtins.elemAt (builtins.split "_" code) 2;
  nativeOf = code: builtins.head table.cubin.${code}.runs_on;

  # A target's row with one toolkit's, and what both give.
  resolve =
    name: kit:
    let
      target = table.target.${name};
      toolkit = table.toolkit.${kit} // {
        name = kit;
      };
      madeBy = kind: builtins.filter (code: knows toolkit table.${kind}.${code}.toolkits);
      cubins = madeBy "cubin" target.cubins;
      ptx = madeBy "ptx" target.ptx;
      # Nixpkgs picks NVIDIA's archives by capability. A target for one board has that board's; the released target
      # of the same kind of machine leaves those out, or it would get the board's archives, or a refusal.
      rivals = builtins.filter (
        other: table.target.${other}.machine == target.machine && table.target.${other}.redist != target.redist
      ) names;
      taken = builtins.concatMap (
        other: if target.release then map nativeOf table.target.${other}.cubins else [ ]
      ) rivals;
      capabilities = builtins.filter (cc: !(builtins.elem cc taken)) (map nativeOf cubins);
    in
    target
    // {
      inherit name toolkit capabilities;
      gcc = table.gcc.${kit};
      # What CMake's own CUDA support would compile for, were it used.
      cudaArchs = builtins.concatStringsSep ";" (
        map (code: "${number code}-real") cubins ++ map (code: "${number code}-virtual") ptx
      );
    };

  # A package that pip locks for every Python of a machine: its version, and the one hash of its one file.
  pinOf =
    system: package:
    let
      machines = builtins.attrNames table.tools.locks;
      machine = builtins.head (builtins.filter (name: "${name}-linux" == system) machines);
      text = builtins.readFile (../. + "/${table.tools.locks.${machine}}");
      line = "(^|\n)${package}==([^ \n]+) [\\]\n    --hash=sha256:([0-9a-f]+)\n";
      found = builtins.filter builtins.isList (builtins.split line text);
    in
    if builtins.length found != 1 then
      throw "${table.tools.locks.${machine}} does not pin ${package} with one hash; make it anew: ./kw lock"
    else
      {
        version = builtins.elemAt (builtins.head found) 1;
        sha256 = builtins.elemAt (builtins.head found) 2;
      };

  # What one lock holds, of the files that are named for Nix: those that this Python takes, and the name of their
  # directory, as toolchain/kernelwright_toolchain/providers/pip.py gives it.
  files = builtins.fromJSON (builtins.readFile ../locks/files.json);
  setOf =
    python: left: perPython: lock:
    let
      stem = builtins.replaceStrings [ "locks/" ".txt" ".json" ] [ "" "" "" ] lock;
      digest = builtins.substring 0 16 (builtins.hashFile "sha256" (../. + "/${lock}"));
      tag = if perPython then "-cpython-${builtins.replaceStrings [ "." ] [ "" ] python}" else "";
      isLeft = row: builtins.any (name: builtins.match "${name}-.*" row.file != null) left;
      taken = row: !(row ? pythons) || builtins.elem python row.pythons;
    in
    {
      name = "${stem}-${digest}${tag}";
    }
    // (
      if builtins.match ".*[.]json" lock != null then
        { archives = archivesOf lock; }
      else
        {
          files = builtins.filter (row: taken row && !(isLeft row)) (
            files.${lock} or (throw "locks/files.json does not name the files of ${lock}; make it anew: ./kw lock")
          );
        }
    );

  # NVIDIA's archives, where PyPI has no NVRTC for a machine: providers/archives.py unpacks them in the same places.
  archivesOf =
    lock:
    let
      known = builtins.fromJSON (builtins.readFile (../. + "/${lock}"));
    in
    map (row: row // { url = "${known.from}/${row.path}"; }) known.archives;

  # What a target with a toolkit is called: the default toolkit is not named. Nix has it where the toolkit's row says
  # so; nix/toolchain.nix holds nixpkgs to that.
  nameOf = name: kit: if kit == (table.target.${name}.toolkit or kit) then name else "${name}-${kit}";
  makes =
    name: kit:
    builtins.any (
      code: knows table.toolkit.${kit} table.cubin.${code}.toolkits
    ) table.target.${name}.cubins;
  isThere =
    name: kit:
    builtins.elem table.target.${name}.machine table.toolkit.${kit}.hosts.nix && makes name kit;
  rowsOf =
    system:
    builtins.listToAttrs (
      builtins.concatMap (
        name:
        map (kit: {
          name = nameOf name kit;
          value = resolve name kit;
        }) (builtins.filter (isThere name) (builtins.attrNames table.toolkit))
      ) (namesOf system)
    );

  machineOf = system: builtins.head (builtins.split "-" system);
  toolkitsOf =
    machine:
    builtins.attrNames (
      builtins.listToAttrs (
        map (name: {
          name = table.target.${name}.toolkit;
          value = null;
        }) (builtins.filter (name: canRelease machine table.target.${name}) names)
      )
    );
  canRelease =
    machine: target: builtins.elem machine table.toolkit.${target.toolkit}.hosts.pip;

  toAttrs =
    make: names:
    builtins.listToAttrs (
      map (name: {
        inherit name;
        value = make name;
      }) names
    );
in
{
  inherit (table) library;
  inherit nameOf pinOf;

  # { <system> = { <target> = its row, resolved; <target>-<toolkit> = the same with another toolkit; }; }
  targetsOf = toAttrs rowsOf systems;

  # { <system> = { <target> = its row; }; }: what a machine of the system builds by the release's compilers.
  releasesOf = toAttrs (
    system:
    toAttrs (name: resolve name table.target.${name}.toolkit) (
      builtins.filter (name: canRelease (machineOf system) table.target.${name}) names
    )
  ) systems;

  # The locked packages that such a build takes there, by this Python, without those that are left out of the tools.
  setsFor =
    system: python: left:
    let
      machine = machineOf system;
      toolkits = map (name: table.toolkit.${name}.locks.${machine}) (toolkitsOf machine);
    in
    map (setOf python left false) (toolkits ++ [ "locks/audit.txt" ])
    ++ [ (setOf python left true table.tools.locks.${machine}) ];

  # The released target of each system: what a shell without a name is for.
  defaultOf = toAttrs (
    system: builtins.head (builtins.filter (name: table.target.${name}.release) (namesOf system))
  ) systems;
}
