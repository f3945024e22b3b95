# SPDX-License-Identifier: MIT
# Nothing is built: evaluation is all that is asked. A test that builds puts real.nix in this file's place.
{ system }:
{
  package = name: { builder = "/no-builder"; };
  phases = { builder = "/no-builder"; };
  command = { };
  fetched = wanted: { builder = "/no-builder"; };
}
