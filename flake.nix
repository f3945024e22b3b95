# SPDX-License-Identifier: MIT
{
  description = "kernelwright: a development shell and hermetic wheels for each target and toolkit of targets.toml";

  # A release that still has the reference toolkit, its GCC and NVIDIA's archives for Tegra; later ones dropped all
  # three. flake.lock holds the commit. nix/toolchain.nix refuses, at evaluation, a nixpkgs that has other ones.
  inputs.nixpkgs.url = "github:NixOS/nixpkgs/nixos-24.11";

  outputs =
    { self, nixpkgs }:
    let
      table = import ./nix/table.nix;

      # For each Nix system, what `make` gives for each target that is built on its kind of machine.
      perTarget =
        make: builtins.mapAttrs (system: targets: builtins.mapAttrs (_: make system) targets) table.targetsOf;

      toolchain = system: target: toolchainWith system target [ ];
      toolchainWith =
        system: target: libraries:
        import ./nix/toolchain.nix {
          inherit
            nixpkgs
            table
            system
            target
            libraries
            ;
        };
      shell = system: target: asked: import ./nix/shell.nix asked (toolchain system target);
      shells = builtins.mapAttrs (
        system: targets:
        builtins.listToAttrs (
          builtins.concatMap (name: [
            {
              inherit name;
              value = shell system targets.${name} { };
            }
            {
              name = "${name}-tests";
              value = shell system targets.${name} { tests = true; };
            }
          ]) (builtins.attrNames targets)
        )
      ) table.targetsOf;
      wheels = perTarget (system: target: import ./nix/wheel.nix (toolchain system target));

      # The release's wheels, for every target, from each kind of machine that has their compilers.
      tools = system: import nixpkgs { inherit system; };
      locked =
        system:
        import ./nix/locked.nix {
          inherit table system;
          pkgs = tools system;
        };
      releases = builtins.mapAttrs (
        system: targets:
        builtins.listToAttrs (
          map (name: {
            name = "release-${name}";
            value = import ./nix/release.nix { inherit self; } {
              pkgs = tools system;
              target = targets.${name};
              release = locked system;
            };
          }) (builtins.attrNames targets)
        )
      ) table.releasesOf;

      unreleased = builtins.filter (system: table.releasesOf.${system} == { }) (
        builtins.attrNames table.targetsOf
      );

      withDefault =
        made: builtins.mapAttrs (system: each: each // { default = each.${table.defaultOf.${system}}; }) made;
      formatter = system: (tools system).nixfmt-rfc-style;
      formatted =
        system:
        (tools system).runCommand "kernelwright-format" { nativeBuildInputs = [ (formatter system) ]; } ''
          nixfmt --check ${./flake.nix} ${./nix}/*.nix
          touch "$out"
        '';
      rowOf =
        system: target: toolkit:
        let
          name = if toolkit == null then target else table.nameOf target toolkit;
        in
        table.targetsOf.${system}.${name}
          or (throw "${name} is not there on ${system}; there are ${toString (namesOf system)}");
      namesOf = system: builtins.attrNames table.targetsOf.${system};
    in
    {
      # For other projects' flakes: a shell with a target's compilers, kwt and CUDA libraries to link with; a wheel by
      # the release's compilers.
      lib.mkKernelShell =
        {
          system,
          target ? table.defaultOf.${system},
          toolkit ? null,
          packages ? [ ],
          libraries ? [ ],
        }:
        import ./nix/shell.nix {
          more = packages;
          kwt = true;
        } (toolchainWith system (rowOf system target toolkit) libraries);
      lib.buildWheel =
        {
          system,
          target ? table.defaultOf.${system},
          ...
        }@asked:
        import ./nix/project.nix {
          inherit target;
          pkgs = tools system;
          release = locked system;
        } (builtins.removeAttrs asked [ "system" "target" ]);
      overlays.default = import ./nix/overlay.nix { inherit self table; };
      templates.default = {
        path = ./nix/template;
        description = "A package of CUDA kernels, its wheel and its shell";
      };
      # `nix run . -- doctor`: the installed command, out of the released wheel.
      apps = builtins.mapAttrs (
        system: _:
        let
          pkgs = (tools system).extend self.overlays.default;
          installed = pkgs.python3.withPackages (modules: [ modules.kernelwright ]);
        in
        {
          default = {
            type = "app";
            program = "${installed}/bin/kernelwright";
          };
        }
      ) (builtins.removeAttrs table.targetsOf unreleased);

      devShells = withDefault shells;
      packages = builtins.mapAttrs (system: each: each // releases.${system}) (withDefault wheels);
      # A wheel that is built has checked itself.
      checks = builtins.mapAttrs (
        system: each: each // releases.${system} // { format = formatted system; }
      ) wheels;
      formatter = builtins.mapAttrs (system: _: formatter system) table.targetsOf;
    };
}
