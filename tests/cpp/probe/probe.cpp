// SPDX-License-Identifier: MIT
#include "probe.h"

#include "core/error.h"
#include "core/launch.h"

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
