# SPDX-License-Identifier: MIT
# overlays.default: python3Packages.kernelwright, for every Python of a nixpkgs: the released wheel itself.
{ self, table }:
final: prev: {
  pythonPackagesExtensions = prev.pythonPackagesExtensions ++ [
    (
      modules: _:
      let
        inherit (final.stdenv.hostPlatform) system;
        target = table.targetsOf.${system}.${table.defaultOf.${system}};
        name = "release-${target.name}";
        why = "NVRTC ${target.toolkit.release} is not locked for ${system}, so ${name} is not there";
        wheel = self.packages.${system}.${name} or (throw "kernelwright: ${why}");
        inherit ((builtins.fromTOML (builtins.readFile ../pyproject.toml)).project) version;
      in
      {
        kernelwright = modules.buildPythonPackage {
          pname = "kernelwright";
          inherit version;
          format = "wheel";
          src = "${wheel}/kernelwright-${version}-py3-none-${target.platform_tag}.whl";
          dontStrip = true; # its library and images are final
          pythonImportsCheck = [ "kernelwright" ];
          meta = {
            inherit (target) about;
            license = final.lib.licenses.mit;
          };
        };
      }
    )
  ];
}
