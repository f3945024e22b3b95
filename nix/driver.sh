# SPDX-License-Identifier: MIT
# The driver's libraries belong to the machine, not to the Nix store. NixOS has them in a place of their own; elsewhere
# they lie among everything else, and all of that on LD_LIBRARY_PATH would break Nix's programs. So kw_driver makes
# .kw/driver with links to NVIDIA's libraries alone. KW_ROOT is for tests: the root of another system.

kw_driver() {
  local root=${KW_ROOT:-} found="" own folder place library
  if [ -e "$root/run/opengl-driver/lib/libcuda.so.1" ]; then
    export LD_LIBRARY_PATH="$root/run/opengl-driver/lib${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}"
    return 0
  fi
  # L4T first: its libraries have folders of their own, and its libcuda is not always in the linker's cache.
  own=$root/usr/lib/$(uname -m)-linux-gnu
  for folder in "$own/nvidia" "$own/tegra" "$root/usr/lib/wsl/lib" "$own" "$root/usr/lib64" "$root/usr/lib"; do
    if [ -e "$folder/libcuda.so.1" ]; then
      found=$folder
      break
    fi
  done
  if [ -z "$found" ]; then
    echo "kernelwright: no NVIDIA driver (libcuda.so.1) on this machine; building works, running on a GPU does not" >&2
    return 0
  fi
  place=$PWD
  while [ "$place" != / ] && [ ! -e "$place/flake.nix" ]; do place=$(dirname "$place"); done
  [ "$place" = / ] && place=$PWD
  place=$place/.kw/driver
  rm -rf "$place"
  mkdir -p "$place"
  # libdxcore is WSL's: its libcuda reaches the GPU through it.
  for library in "$found"/libcuda.so* "$found"/libnv*.so* "$found"/libdxcore.so; do
    [ -e "$library" ] && ln -s "$library" "$place/"
  done
  export LD_LIBRARY_PATH="$place${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}"
  # One Nix system, two sets of NVIDIA's archives: nothing in Nix can tell which board this is.
  if [ -e "$root/etc/nv_tegra_release" ]; then
    echo "kernelwright: this is a Jetson with L4T; this shell is for ${KW_NIX_TARGET:-an unnamed target}" >&2
  fi
}
