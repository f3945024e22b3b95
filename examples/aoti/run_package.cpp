// SPDX-License-Identifier: MIT
// Runs a package of AOTInductor that uses kernelwright's operators. There is no Python in the process: one C function
// gives torch the operators.
//
//   run_package MODEL.pt2 ROWS COLUMNS [DEVICE]      x is ROWS x COLUMNS: 0, 1/8, 2/8, ... 63/8, and again
//
// prints the results' values, one a line. DEVICE is cpu, or cuda for a package that was made of a model on a GPU.
#include <ATen/ops/from_blob.h>
#include <kernelwright/kernelwright.h>
#include <torch/csrc/inductor/aoti_package/model_package_loader.h>

#include <cstdio>
#include <cstdlib>
#include <exception>
#include <vector>

static int run(const char* path, int64_t rows, int64_t columns, const char* device) {
  std::vector<float> values(static_cast<size_t>(rows * columns));
  for (size_t i = 0; i < values.size(); ++i) values[i] = static_cast<float>(i % 64) / 8;
  const at::Tensor x = at::from_blob(values.data(), {rows, columns}).to(at::Device(device));
  torch::inductor::AOTIModelPackageLoader model(path);
  for (const at::Tensor& result : model.run({x})) {
    const at::Tensor flat = result.to(at::kCPU).contiguous();
    for (int64_t i = 0; i < flat.numel(); ++i) std::printf("%.9g\n", flat.const_data_ptr<float>()[i]);
  }
  return 0;
}

int main(int argc, char** argv) {
  if (argc != 4 && argc != 5) return std::fprintf(stderr, "usage: run_package MODEL.pt2 ROWS COLUMNS [DEVICE]\n"), 2;
  if (kw_torch_register() != KW_OK) return std::fprintf(stderr, "%s\n", kw_last_error()), 1;
  try {
    return run(argv[1], std::atoll(argv[2]), std::atoll(argv[3]), argc == 5 ? argv[4] : "cpu");
  } catch (const std::exception& error) {
    return std::fprintf(stderr, "%s\n", error.what()), 1;
  }
}
