# SPDX-License-Identifier: MIT
{
  description = "A stand-in for nixpkgs: what this project's flake asks of it, for evaluation only; it builds nothing";
  outputs = { self }: { };
}
