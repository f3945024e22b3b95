# SPDX-License-Identifier: MIT
# What the stand-in says its packages are. Tests change one line of a copy and see the flake refuse it.
{
  python = "3.12";
  jetson = [ "7.2" "8.7" ];
  sets = {
    cudaPackages_12_2 = { nvcc = "12.2.140"; gcc = "12.4.0"; };
    cudaPackages_12_4 = { nvcc = "12.4.131"; gcc = "13.3.0"; };
  };
}
