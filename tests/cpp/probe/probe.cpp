// SPDX-License-Identifier: MIT
#include "probe.h"

#include "core/error.h"
#include "core/launch.h"
#include "core/sizes.h"
#include "core/tensor_map.h"

namespace {

struct Parameters {
  uint64_t first, second;
};

kw::Module probe{"probe"};
kw::Module other{"other"};
kw::Kernel kernels[2][4] = {{{"probe_plain"}, {"probe_other"}, {"probe_narrow"}, {"probe_absent"}},
                            {{"probe_plain"}, {"probe_other"}, {"probe_narrow"}, {"probe_absent"}}};

kw_status run(kw::Module& module, kw::Kernel* of_module, int device, const ProbeCall& call) {
  kw::Context context;
  KW_TRY(kw::module_context(module, device, &context));
  const Parameters parameters = {call.first, call.second};
  const kw::Launch how = {call.grid, call.block, call.shared, call.cluster, call.overlap != 0};
  return kw::launch(context, of_module[call.kernel], how, call.stream, &parameters, sizeof parameters);
}

}  // namespace

kw_status kw_probe(int32_t device, const ProbeCall* call) { return run(probe, kernels[0], device, *call); }

kw_status kw_probe_other(int32_t device, const ProbeCall* call) { return run(other, kernels[1], device, *call); }

kw_status kw_probe_context(int32_t device, int32_t* multiprocessors, uint32_t* features) {
  kw::Context context;
  KW_TRY(kw::module_context(probe, device, &context));
  *multiprocessors = context.device->multiprocessors;
  *features = context.features;
  return KW_OK;
}

namespace {

constexpr int64_t kBlock = 1024;  // elements that leave one partial sum

struct Plan {
  int64_t blocks, bytes;
};

Plan plan_for(int64_t count) {
  const int64_t blocks = kw::ratio_up(count, kBlock);
  return {blocks, blocks * int64_t{sizeof(float)}};
}

}  // namespace

kw_status kw_probe_workspace(int32_t device, int64_t count, int64_t* bytes) {
  kw::Context context;
  KW_TRY(kw::module_context(probe, device, &context));
  *bytes = plan_for(count).bytes;
  return KW_OK;
}

kw_status kw_probe_both(int32_t device, void* workspace, int64_t bytes, int64_t count, void* stream) {
  const Plan plan = plan_for(count);
  if (bytes < plan.bytes)
    return kw::fail(KW_ERROR_INVALID_ARGUMENT, "kw_probe_both: workspace has %lld bytes; kw_probe_workspace says %lld",
                    static_cast<long long>(bytes), static_cast<long long>(plan.bytes));
  kw::Context context;
  KW_TRY(kw::module_context(probe, device, &context));
  const Parameters parameters = {reinterpret_cast<uint64_t>(workspace), static_cast<uint64_t>(count)};
  const kw::Launch first = {static_cast<uint32_t>(plan.blocks), 256};
  KW_TRY(kw::launch(context, kernels[0][PROBE_PLAIN], first, stream, &parameters, sizeof parameters));
  const kw::Launch second = {1, 32, 0, 1, true};
  return kw::launch(context, kernels[0][PROBE_OTHER], second, stream, &parameters, sizeof parameters);
}

kw_status kw_probe_map(int32_t device, const ProbeMap* described, void* map) {
  kw::Context context;
  KW_TRY(kw::module_context(probe, device, &context));
  kw::TensorMap made{described->data, described->dtype, described->dims, {}, {}, {}, kw::Swizzle::kNone};
  for (int i = 0; i < described->dims && i < kw::kMaxMapDims; ++i) {
    made.sizes[i] = described->sizes[i];
    made.pitches[i] = described->pitches[i];
    made.box[i] = described->box[i];
  }
  constexpr kw::Swizzle kSwizzles[] = {kw::Swizzle::kNone, kw::Swizzle::k32, kw::Swizzle::k64, kw::Swizzle::k128};
  made.swizzle = kSwizzles[described->swizzle / 32 - (described->swizzle == 128)];
  return kw::encode(context, made, map);
}
