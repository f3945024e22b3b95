# SPDX-License-Identifier: MIT
# What the stand-in says its packages are. Tests change one line of a copy and see the flake refuse it.
{
  nvcc = "12.2.140";
  gcc = "12.4.0";
  python = "3.12";
  jetson = [ "7.2" "8.7" ];
  set = "cudaPackages_12_2";
}
