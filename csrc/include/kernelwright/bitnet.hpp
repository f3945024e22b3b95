// SPDX-License-Identifier: MIT
// BitNet from C++: a stack of feed-forward blocks with ternary weights, on the CPU or on GPUs, header-only over the C
// ABI. Link kernelwright::kernelwright, and what std::thread needs; no CUDA toolkit.
//
//   kernelwright::BitNetModel model(1);                       // GPUs; 0: the CPU
//   model.allocate_model_parameters(1, 128, 2560, 30);
//   model.tune_kernels();
//   model.create_computation_graph();
//   model.run_computation_graph();
#pragma once

#include <kernelwright/bitnet_driver.hpp>
#include <kernelwright/bitnet_layers.hpp>
#include <kernelwright/bitnet_memory.hpp>
#include <kernelwright/bitnet_tuner.hpp>

#include <exception>
#include <memory>
#include <random>
#include <string>
#include <thread>
#include <utility>
#include <vector>

namespace kernelwright {

// Several GPUs share the rows of a batch: each has all weights, copied from the first, and a host thread that starts
// its work. Not safe to use from several threads at once.
class BitNetModel {
 public:
  explicit BitNetModel(int num_gpus = 0, std::string cache = Tuner::default_path()) : cache_(std::move(cache)) {
    if (num_gpus < 0) throw Error(KW_ERROR_INVALID_ARGUMENT, "BitNetModel: num_gpus is negative");
    int32_t found = 0;
    if (num_gpus > 0) check(kw_device_count(&found));
    if (num_gpus > found)
      throw Error(KW_ERROR_NO_DEVICE, "BitNetModel: " + std::to_string(num_gpus) + " GPUs were asked for, there are " +
                                          std::to_string(found));
    for (int i = 0; i < (num_gpus > 0 ? num_gpus : 1); ++i) {
      replicas_.push_back(std::make_unique<Replica>(num_gpus > 0 ? i : KW_CPU));
    }
  }

  // Weights are random until load_layer() gives others. `intermediate`: 0 for what models of this kind have, 2.7 times
  // the hidden size in whole blocks.
  void allocate_model_parameters(int64_t batch, int64_t seq, int64_t hidden, int64_t layers, int64_t intermediate = 0,
                                 uint64_t seed = 1) {
    const auto gpus = static_cast<int64_t>(replicas_.size());
    if (batch < gpus || seq < 1 || hidden < 1 || layers < 1)
      throw Error(KW_ERROR_INVALID_ARGUMENT,
                  "allocate_model_parameters: sizes must be positive, and the batch at least one row a GPU");
    sizes_ = {batch * seq, hidden, intermediate > 0 ? intermediate : (hidden * 27 / 10 + 127) / 128 * 128, layers};
    weights_.assign(static_cast<size_t>(layers), {});
    std::mt19937_64 random(seed);
    for (LayerWeights& layer : weights_) layer.fill(sizes_, random);
    int64_t row = 0;
    for (size_t i = 0; i < replicas_.size(); ++i) {
      const int64_t share = (batch * static_cast<int64_t>(i + 1) / gpus - batch * static_cast<int64_t>(i) / gpus) * seq;
      replicas_[i]->allocate(sizes_, row, share);
      row += share;
    }
    spread_weights();
  }

  // A layer's weights in float32, row by row: gate and up [intermediate, hidden], down [hidden, intermediate]. They are
  // quantized here.
  void load_layer(int64_t layer, const float* gate, const float* up, const float* down) {
    require(layer >= 0 && layer < sizes_.layers, "load_layer: there is no such layer");
    weights_[static_cast<size_t>(layer)].load(sizes_, gate, up, down);
    spread_weights();
  }

  // Times the ways of each product on this machine, unless the cache knows them; says where the cache was of no use.
  std::string tune_kernels() {
    require(!weights_.empty(), "tune_kernels: call allocate_model_parameters first");
    std::string said;
    for (auto& replica : replicas_) {
      Tuner tuner(cache_, replica->key());
      if (!tuner.note().empty()) said += tuner.note() + "\n";
      replica->tune(tuner);
      tuner.save();
    }
    return said;
  }

  // Records the whole forward pass: one CUDA graph a GPU; a list of calls on the CPU.
  void create_computation_graph() {
    require(!weights_.empty(), "create_computation_graph: call allocate_model_parameters first");
    for (auto& replica : replicas_) replica->record();
    recorded_ = true;
  }

  // Runs it and waits. `input` and `output`: batch * seq rows of `hidden` float32, or nullptr to leave the input as it
  // is, and the result where it is.
  void run_computation_graph(const float* input = nullptr, float* output = nullptr) {
    require(recorded_, "run_computation_graph: call create_computation_graph first");
    std::vector<std::thread> threads;
    std::vector<std::exception_ptr> failed(replicas_.size());
    for (size_t i = 0; i < replicas_.size(); ++i) {
      const auto run = [&, i] {
        try {
          replicas_[i]->run(input, output);
        } catch (...) {
          failed[i] = std::current_exception();
        }
      };
      if (replicas_.size() == 1) {
        run();
      } else {
        threads.emplace_back(run);
      }
    }
    for (std::thread& thread : threads) thread.join();
    for (const std::exception_ptr& each : failed) {
      if (each) std::rethrow_exception(each);
    }
  }

  int num_gpus() const { return replicas_[0]->device() == KW_CPU ? 0 : static_cast<int>(replicas_.size()); }
  const Sizes& sizes() const { return sizes_; }
  const PoolStatistics& memory(size_t replica = 0) const { return replicas_.at(replica)->memory(); }
  const LayerWeights& weights(int64_t layer) const { return weights_.at(static_cast<size_t>(layer)); }

 private:
  static void require(bool so, const char* message) {
    if (!so) throw Error(KW_ERROR_INVALID_ARGUMENT, message);
  }

  // To the first from here, to the others from the first.
  void spread_weights() {
    recorded_ = false;
    replicas_[0]->take(weights_);
    for (size_t i = 1; i < replicas_.size(); ++i) replicas_[i]->take(*replicas_[0]);
  }

  std::string cache_;
  Sizes sizes_{};
  std::vector<LayerWeights> weights_;
  std::vector<std::unique_ptr<Replica>> replicas_;
  bool recorded_ = false;
};

}  // namespace kernelwright
