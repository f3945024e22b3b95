// SPDX-License-Identifier: MIT
// A stack of BitNet's feed-forward blocks on one device: its weights, its buffers, its calls.
//
//   h' = h + down(norm(relu(gate)^2 * up)), gate and up of norm(h)
//
// The input of each product is quantized to 8 bits row by row, in one pass with the norm before it. Rows are bfloat16.
// Of few rows that is one call with the product and, of down, the addition of h.
#pragma once

#include <kernelwright/bitnet_memory.hpp>
#include <kernelwright/bitnet_tuner.hpp>

#include <chrono>
#include <functional>
#include <random>
#include <string>
#include <vector>

namespace kernelwright {

struct Sizes {
  int64_t rows, hidden, intermediate, layers;
};

inline uint16_t bfloat16_of(float value) {
  uint32_t bits;
  memcpy(&bits, &value, 4);
  if ((bits & 0x7fffffffu) > 0x7f800000u) return 0x7fff;
  return static_cast<uint16_t>((bits + 0x7fffu + (bits >> 16 & 1)) >> 16);
}

inline float float_of(uint16_t bfloat16) {
  const uint32_t bits = static_cast<uint32_t>(bfloat16) << 16;
  float value;
  memcpy(&value, &bits, 4);
  return value;
}

// Codes as kw_matmul_ternary takes them, in memory that it may read, and their scale.
struct TernaryWeight {
  int64_t n = 0, k = 0;
  std::vector<unsigned char> room;
  float scale = 1.0f;

  uint8_t* codes() { return room.data() + (16 - reinterpret_cast<uintptr_t>(room.data()) % 16) % 16; }
  const uint8_t* codes() const { return const_cast<TernaryWeight*>(this)->codes(); }
  int64_t bytes() const {
    int64_t found = 0;
    check(kw_ternary_bytes(n, k, &found));
    return found;
  }

  void quantize(int64_t rows, int64_t columns, const float* weight) {
    n = rows;
    k = columns;
    room.resize(static_cast<size_t>(bytes()) + 16);
    check(kw_quantize_ternary(KW_CPU, nullptr, codes(), &scale, 1, weight, k, n, k, KW_FLOAT32));
  }
};

struct LayerWeights {
  TernaryWeight gate, up, down;

  void load(const Sizes& sizes, const float* of_gate, const float* of_up, const float* of_down) {
    gate.quantize(sizes.intermediate, sizes.hidden, of_gate);
    up.quantize(sizes.intermediate, sizes.hidden, of_up);
    down.quantize(sizes.hidden, sizes.intermediate, of_down);
  }

  void fill(const Sizes& sizes, std::mt19937_64& random) {
    std::normal_distribution<float> normal(0.0f, 0.02f);
    std::vector<float> parts[3];
    for (auto& part : parts) {
      part.resize(static_cast<size_t>(sizes.hidden * sizes.intermediate));
      for (float& value : part) value = normal(random);
    }
    load(sizes, parts[0].data(), parts[1].data(), parts[2].data());
  }
};

class Replica {
 public:
  explicit Replica(int device) : context_(device), pool_(context_) {
    if (context_.cpu()) return;
    const Context::Scope scope(context_);
    constexpr unsigned kNonBlocking = 1;
    Driver::require(Driver::get().create_stream(&stream_, kNonBlocking), "cuStreamCreate");
  }
  ~Replica() {
    forget();
    if (context_.cpu() || stream_ == nullptr) return;
    const Context::Scope scope(context_);
    Driver::get().destroy_stream(stream_);
  }
  Replica(const Replica&) = delete;
  Replica& operator=(const Replica&) = delete;

  int device() const { return context_.ordinal(); }
  const PoolStatistics& memory() const { return pool_.statistics(); }

  // The machine and its kernels, for the tuner.
  std::string key() const {
    if (context_.cpu())
      return std::string("cpu ") + kw_cpu_isa() + " " + std::to_string(kw_num_threads()) + " " + kernels_key();
    char name[128] = "";
    int32_t capability = 0;
    check(kw_device_capability(context_.ordinal(), &capability));
    Driver::require(Driver::get().name(name, sizeof name, context_.ordinal()), "cuDeviceGetName");
    return std::string(name) + " " + std::to_string(capability) + " " + kernels_key();
  }

  // `first`: where the replica's rows begin among all.
  void allocate(const Sizes& sizes, int64_t first, int64_t rows) {
    forget();
    sizes_ = sizes;
    first_ = first;
    rows_ = rows;
    const int64_t wide = sizes.intermediate;
    hidden_ = pool_.allocate(rows * sizes.hidden * 2);
    start_ = pool_.allocate(rows * sizes.hidden * 2);
    both_ = pool_.allocate(rows * wide * 4);
    gated_ = pool_.allocate(rows * wide * 2);
    down_ = pool_.allocate(rows * sizes.hidden * 2);
    normed_ = pool_.allocate(rows * sizes.hidden * 2);
    codes_ = pool_.allocate(rows * (wide > sizes.hidden ? wide : sizes.hidden));
    absmax_ = pool_.allocate(rows * 4);
    std::vector<uint16_t> ones(static_cast<size_t>(rows * sizes.hidden));
    for (size_t i = 0; i < ones.size(); ++i) ones[i] = bfloat16_of(static_cast<float>(i % 7) / 4.0f - 0.75f);
    copy_in(context_, start_.data(), ones.data(), rows * sizes.hidden * 2);
    rows_at_once_.clear();
  }

  // From the host.
  void take(const std::vector<LayerWeights>& weights) {
    forget();
    layers_.clear();
    for (const LayerWeights& each : weights) {
      Layer layer;
      place(each.gate, &layer.gate);
      place(each.up, &layer.up);
      place(each.down, &layer.down);
      layers_.push_back(std::move(layer));
    }
  }

  // From another GPU's memory.
  void take(const Replica& other) {
    forget();
    layers_.clear();
    const Context::Scope scope(context_);
    for (const Layer& each : other.layers_) {
      Layer layer;
      peer(other, each.gate, &layer.gate);
      peer(other, each.up, &layer.up);
      peer(other, each.down, &layer.down);
      layers_.push_back(std::move(layer));
    }
    Driver::require(Driver::get().wait(stream_), "cuStreamSynchronize");
  }

  // How many rows a launch of a product has: the kernels differ by that.
  void tune(Tuner& tuner) {
    for (const Weight* weight : {&layers_[0].gate, &layers_[0].down}) {
      const std::string what =
          std::to_string(rows_) + "x" + std::to_string(weight->n) + "x" + std::to_string(weight->k);
      if (!tuner.knows(what)) tuner.put(what, fastest(*weight));
      const int64_t found = tuner.number(what);
      rows_at_once_[weight->n * weight->k * 2 + (weight == &layers_[0].gate)] =
          found > 0 && found < rows_ ? found : rows_;
    }
    forget();
  }

  void record() {
    forget();
    if (context_.cpu()) return;
    const Driver& driver = Driver::get();
    const Context::Scope scope(context_);
    forward();  // loads kernels, and says what is wrong, outside of the recording
    Driver::require(driver.wait(stream_), "cuStreamSynchronize");
    constexpr int kRelaxed = 2;
    void* graph = nullptr;
    Driver::require(driver.begin_capture(stream_, kRelaxed), "cuStreamBeginCapture");
    try {
      forward();
    } catch (...) {
      driver.end_capture(stream_, &graph);
      if (graph != nullptr) driver.destroy_graph(graph);
      throw;
    }
    Driver::require(driver.end_capture(stream_, &graph), "cuStreamEndCapture");
    const int code = driver.instantiate(&instance_, graph, 0);
    driver.destroy_graph(graph);
    Driver::require(code, "cuGraphInstantiate");
  }

  // `input` and `output` are of all replicas' rows.
  void run(const float* input, float* output) {
    const int64_t count = rows_ * sizes_.hidden, at = first_ * sizes_.hidden;
    std::vector<uint16_t> words(static_cast<size_t>(input != nullptr || output != nullptr ? count : 0));
    if (input != nullptr) {
      for (int64_t i = 0; i < count; ++i) words[static_cast<size_t>(i)] = bfloat16_of(input[at + i]);
      copy_in(context_, start_.data(), words.data(), count * 2);
    }
    if (context_.cpu()) {
      forward();
    } else {
      const Context::Scope scope(context_);
      Driver::require(Driver::get().launch(instance_, stream_), "cuGraphLaunch");
      Driver::require(Driver::get().wait(stream_), "cuStreamSynchronize");
    }
    if (output == nullptr) return;
    copy_out(context_, words.data(), hidden_.data(), count * 2);
    for (int64_t i = 0; i < count; ++i) output[at + i] = float_of(words[static_cast<size_t>(i)]);
  }

 private:
  static constexpr double kEps = 1e-5, kClamp = 1e-5;
  static constexpr int64_t kFewRows = 16;  // of a launch of kw_linear_ternary

  struct Weight {
    int64_t n = 0, k = 0;
    Block codes, scale;
  };
  struct Layer {
    Weight gate, up, down;
  };

  void place(const TernaryWeight& from, Weight* to) {
    to->n = from.n;
    to->k = from.k;
    to->codes = pool_.allocate(from.bytes());
    to->scale = pool_.allocate(4);
    copy_in(context_, to->codes.data(), from.codes(), from.bytes());
    copy_in(context_, to->scale.data(), &from.scale, 4);
  }

  void peer(const Replica& other, const Weight& from, Weight* to) {
    to->n = from.n;
    to->k = from.k;
    const std::pair<const Block*, Block*> parts[] = {{&from.codes, &to->codes}, {&from.scale, &to->scale}};
    for (const auto& part : parts) {
      *part.second = pool_.allocate(part.first->bytes() - 1);
      Driver::require(
          Driver::get().from_peer(reinterpret_cast<Driver::Address>(part.second->data()), context_.handle(),
                                  reinterpret_cast<Driver::Address>(part.first->data()), other.context_.handle(),
                                  static_cast<size_t>(part.first->bytes()), stream_),
          "cuMemcpyPeerAsync");
    }
  }

  void forget() {
    if (instance_ == nullptr) return;
    const Context::Scope scope(context_);
    Driver::get().destroy_instance(instance_);
    instance_ = nullptr;
  }

  void product(const Weight& weight, void* y, int64_t y_stride, int64_t at_once) const {
    for (int64_t row = 0; row < rows_; row += at_once) {
      const int64_t m = rows_ - row < at_once ? rows_ - row : at_once;
      check(kw_matmul_ternary(context_.ordinal(), stream_, static_cast<uint16_t*>(y) + row * y_stride, y_stride,
                              codes_.as<int8_t>() + row * weight.k, weight.k, weight.codes.as<uint8_t>(),
                              absmax_.as<float>() + row, weight.scale.as<float>(), 1, nullptr, m, weight.n, weight.k,
                              KW_BFLOAT16));
    }
  }

  void product(const Weight& weight, void* y, int64_t y_stride, bool wide) const {
    const auto found = rows_at_once_.find(weight.n * weight.k * 2 + wide);
    product(weight, y, y_stride, found == rows_at_once_.end() ? rows_ : found->second);
  }

  void quantize(const void* x, int64_t cols, double eps) const {
    check(kw_quantize_rows_int8(context_.ordinal(), stream_, codes_.as<int8_t>(), cols, absmax_.as<float>(), nullptr,
                                nullptr, x, cols, nullptr, rows_, cols, KW_BFLOAT16, KW_BFLOAT16, kClamp, 0.0, eps));
  }

  void gate(const void* both, void* gated) const {
    const int64_t wide = sizes_.intermediate;
    check(kw_relu2_gated(context_.ordinal(), stream_, gated, wide, both, wide * 2,
                         static_cast<const uint16_t*>(both) + wide, wide * 2, rows_, wide, KW_BFLOAT16));
  }

  // A product of few rows with the norm before it and what is added to it, or nullptr.
  void linear(const Weight& weight, const void* x, void* y, int64_t y_stride, const void* residual) const {
    check(kw_linear_ternary(context_.ordinal(), stream_, y, y_stride, x, weight.k, nullptr, weight.codes.as<uint8_t>(),
                            weight.scale.as<float>(), 1, nullptr, residual, weight.n, rows_, weight.n, weight.k,
                            KW_BFLOAT16, KW_BFLOAT16, kClamp, kEps));
  }

  // Two results take turns: a result may not be what is added to it.
  void forward_few() const {
    const void* from = start_.data();
    const int64_t wide = sizes_.intermediate;
    for (size_t i = 0; i < layers_.size(); ++i) {
      void* const to = (layers_.size() - i) % 2 != 0 ? hidden_.data() : down_.data();  // the last to hidden_
      linear(layers_[i].gate, from, both_.data(), wide * 2, nullptr);
      linear(layers_[i].up, from, both_.as<uint16_t>() + wide, wide * 2, nullptr);
      gate(both_.data(), gated_.data());
      linear(layers_[i].down, gated_.data(), to, sizes_.hidden, from);
      from = to;
    }
  }

  void forward() const {
    if (rows_ <= kFewRows) return forward_few();
    constexpr double kNoNorm = -1.0;
    const int device = context_.ordinal();
    const int64_t h = sizes_.hidden, wide = sizes_.intermediate;
    const void* from = start_.data();
    for (size_t i = 0; i < layers_.size(); ++i) {
      const Layer& layer = layers_[i];
      i == 0 ? quantize(from, h, kEps) : quantize(normed_.data(), h, kNoNorm);
      product(layer.gate, both_.data(), wide * 2, true);
      product(layer.up, both_.as<uint16_t>() + wide, wide * 2, true);
      gate(both_.data(), gated_.data());
      quantize(gated_.data(), wide, kEps);
      product(layer.down, down_.data(), h, false);
      check(kw_rms_norm(device, stream_, normed_.data(), h, hidden_.data(), h, down_.data(), h, from, h, nullptr,
                        nullptr, rows_, h, KW_BFLOAT16, KW_BFLOAT16, kEps));
      from = hidden_.data();
    }
  }

  int64_t fastest(const Weight& weight) const {
    int64_t best = rows_;
    double least = 1e300;
    for (const int64_t at_once : {rows_, int64_t{32}, int64_t{64}, int64_t{128}, int64_t{256}}) {
      if (at_once > rows_) continue;
      const double time = seconds([&] { product(weight, both_.data(), weight.n, at_once); });
      if (time < least * 0.98) least = time, best = at_once;  // one launch unless others are clearly faster
    }
    return best;
  }

  // The least of a few times.
  double seconds(const std::function<void()>& work) const {
    const Context::Scope scope(context_);
    double least = 1e300;
    for (int i = 0; i < 5; ++i) {
      const auto begin = std::chrono::steady_clock::now();
      constexpr int kRepeats = 8;
      for (int repeat = 0; repeat < kRepeats; ++repeat) work();
      if (!context_.cpu()) Driver::require(Driver::get().wait(stream_), "cuStreamSynchronize");
      const double time = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count() / kRepeats;
      if (i > 0 && time < least) least = time;  // the first loads kernels
    }
    return least;
  }

  Context context_;
  Pool pool_;  // before what comes from it
  void* stream_ = nullptr;
  void* instance_ = nullptr;
  Sizes sizes_{};
  int64_t first_ = 0, rows_ = 0;
  Block start_, hidden_, both_, gated_, down_, normed_, codes_, absmax_;
  std::vector<Layer> layers_;
  std::map<int64_t, int64_t> rows_at_once_;  // by product
};

}  // namespace kernelwright
