# SPDX-License-Identifier: MIT
{
  description = "A package of CUDA kernels: nix build gives its wheel, nix develop a shell with nvcc and GCC";

  # Change OWNER to where kernelwright lies; flake.lock then holds its commit, and with it every compiler.
  inputs.kernelwright.url = "github:OWNER/kernelwright";

  outputs =
    { self, kernelwright }:
    {
      packages.x86_64-linux.default = kernelwright.lib.buildWheel {
        system = "x86_64-linux";
        src = self;
      };
      devShells.x86_64-linux.default = kernelwright.lib.mkKernelShell { system = "x86_64-linux"; };
    };
}
