// SPDX-License-Identifier: MIT
// What a launcher may do beyond one launch a call, by toys: several launches with a workspace that is planned once, and
// tensor maps of two to five dimensions, of any element type, with pitches.
#include "harness.h"

CASE(several_launches_a_call) {
  use_standin("cuda12");
  Package package("9.0");
  int64_t bytes = 0;
  CHECK(package.get<decltype(&kw_probe_workspace)>("kw_probe_workspace")(0, 5000, &bytes) == KW_OK, "%s",
        package.words());
  CHECK(bytes == 5 * 4, "five blocks leave a sum each, and the workspace has %lld bytes", (long long)bytes);
  auto both = package.get<decltype(&kw_probe_both)>("kw_probe_both");
  void* const workspace = reinterpret_cast<void*>(0x1000);
  void* const stream = reinterpret_cast<void*>(0x2000);
  CHECK_STATUS(both(0, workspace, bytes - 1, 5000, stream), KW_ERROR_INVALID_ARGUMENT, package.words(), "kw_probe_both",
               "19 bytes", "says 20");
  CHECK_TOLD(package, "cuLaunchKernelEx", 0);
  CHECK(both(0, workspace, bytes, 5000, stream) == KW_OK, "%s", package.words());
  CHECK_TOLD(package, "cuLaunchKernelEx", 2);
  CHECK_TOLD(package,
             "probe_plain device=0 grid=5 block=256 shared=0 cluster=1 overlap=0 stream=0x2000 "
             "params=00100000000000008813000000000000",
             1);
  CHECK_TOLD(package,
             "probe_other device=0 grid=1 block=32 shared=0 cluster=1 overlap=1 stream=0x2000 "
             "params=00100000000000008813000000000000",
             1);
  CHECK_TOLD(package, "cuLibraryLoadData", 1);
}

// The first launch is refused: nothing follows it.
CASE(a_refusal_between_launches) {
  use_standin("cuda12");
  setenv("KW_STANDIN_FAILS", "cuLaunchKernelEx:719", 1);
  Package package("9.0");
  auto both = package.get<decltype(&kw_probe_both)>("kw_probe_both");
  CHECK_STATUS(both(0, reinterpret_cast<void*>(0x1000), 20, 5000, nullptr), KW_ERROR_CUDA, package.words(),
               "launching probe_plain");
  CHECK_TOLD(package, "cuLaunchKernelEx", 0);
}

namespace {

alignas(64) unsigned char map[128];

// An array of this element size: rows of 64 elements and 16 bytes between them, then planes without gaps.
ProbeMap array(int32_t dtype, int64_t bytes, int32_t dims, int32_t swizzle) {
  ProbeMap made{reinterpret_cast<const void*>(0x4000), dtype, dims, swizzle, {64, 6, 5, 4, 3}, {}, {}};
  made.pitches[1] = 64 * bytes + 16;
  for (int i = 2; i < 5; ++i) made.pitches[i] = made.pitches[i - 1] * made.sizes[i - 1];
  for (int i = 0; i < 5; ++i) made.box[i] = i == 0 ? 16 : 2;
  return made;
}

}  // namespace

CASE(tensor_maps) {
  use_standin("cuda12");
  Package package("9.0");
  auto described = package.get<decltype(&kw_probe_map)>("kw_probe_map");
  const struct {
    int32_t dtype, bytes, driver;  // the driver's number
  } kTypes[] = {{KW_FLOAT32, 4, 7}, {KW_FLOAT16, 2, 6}, {KW_BFLOAT16, 2, 9},     {KW_FLOAT64, 8, 8},
                {KW_INT32, 4, 3},   {KW_INT8, 1, 0},    {KW_FLOAT8_E4M3FN, 1, 0}};
  for (const auto& type : kTypes)
    for (int32_t dims = 2; dims <= 5; ++dims) {
      const ProbeMap wanted = array(type.dtype, type.bytes, dims, 0);
      memset(map, 0xff, sizeof map);
      CHECK(described(0, &wanted, map) == KW_OK, "%s", package.words());
      CHECK(map[0] == type.driver + dims && map[127] == map[0], "type %d, %d dimensions: %d", type.dtype, dims, map[0]);
    }
  CHECK_TOLD(package, "type=9 rank=2 64/16 by 2 6/2 by 144 swizzle=0 promotion=0", 1);
  CHECK_TOLD(package, "type=9 rank=5 64/16 by 2 6/2 by 144 5/2 by 864 4/2 by 4320 3/2 by 17280 swizzle=0", 1);
  CHECK_TOLD(package, "type=0 rank=3 64/16 by 1 6/2 by 80 5/2 by 480 swizzle=0", 2);
}

CASE(swizzles_of_tensor_maps) {
  use_standin("cuda12");
  Package package("9.0");
  auto described = package.get<decltype(&kw_probe_map)>("kw_probe_map");
  for (int32_t swizzle : {32, 64, 128}) {
    ProbeMap wanted = array(KW_BFLOAT16, 2, 3, swizzle);
    wanted.box[0] = swizzle / 2;
    CHECK(described(0, &wanted, map) == KW_OK, "%s", package.words());
    wanted.box[0] += 8;
    CHECK_STATUS(described(0, &wanted, map), KW_ERROR_CUDA, package.words(),
                 "describing an array of 64x6x5 in boxes of", "elements of 2 bytes");
  }
  CHECK_TOLD(package, "64/16 by 2 6/2 by 144 5/2 by 864 swizzle=1 promotion=2", 1);
  CHECK_TOLD(package, "64/32 by 2 6/2 by 144 5/2 by 864 swizzle=2 promotion=2", 1);
  CHECK_TOLD(package, "64/64 by 2 6/2 by 144 5/2 by 864 swizzle=3 promotion=2", 1);
}

RUN_CASES()
