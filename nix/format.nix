# SPDX-License-Identifier: MIT
# A check that every Nix file is as `nix fmt` would write it.
{ self }:
pkgs:
pkgs.runCommand "nix-files-are-formatted" { nativeBuildInputs = [ pkgs.nixfmt-rfc-style ]; } ''
  nixfmt --check ${self}/flake.nix ${self}/nix/*.nix
  touch $out
''
