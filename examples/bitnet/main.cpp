// SPDX-License-Identifier: MIT
// A stack of BitNet's feed-forward blocks: tokens a second on GPUs, or on the CPU.
//
//   cmake -S tests/cpp/bitnet -B build -DCMAKE_PREFIX_PATH=<where kernelwright is> && cmake --build build
//   build/example [GPUs] [batch] [hidden] [layers]
#include <kernelwright/bitnet.hpp>

#include <stdio.h>

int main(int count, char** words) {
  const auto number = [&](int at, int64_t otherwise) { return count > at ? atoll(words[at]) : otherwise; };
  try {
    const int64_t batch = number(2, 1), hidden = number(3, 512), layers = number(4, 4);
    kernelwright::BitNetModel model(static_cast<int>(number(1, 0)));
    model.allocate_model_parameters(batch, 1, hidden, layers);
    fputs(model.tune_kernels().c_str(), stderr);
    model.create_computation_graph();
    model.run_computation_graph();
    const auto begin = std::chrono::steady_clock::now();
    constexpr int kRuns = 20;
    for (int i = 0; i < kRuns; ++i) model.run_computation_graph();
    const double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count() / kRuns;
    printf("%lld rows, hidden %lld, %lld layers: %.3f ms, %.0f rows a second; %lld MiB\n",
           static_cast<long long>(batch), static_cast<long long>(hidden), static_cast<long long>(layers), seconds * 1e3,
           static_cast<double>(batch) / seconds, static_cast<long long>(model.memory().peak >> 20));
  } catch (const kernelwright::Error& error) {
    fprintf(stderr, "%s\n", error.what());
    return 1;
  }
  return 0;
}
