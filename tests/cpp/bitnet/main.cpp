// SPDX-License-Identifier: MIT
// The C++ layer on the CPU: the forward pass against the same in double, the pool's numbers, the tuner's file. Where
// there are GPUs: the same numbers as on the CPU, on one of them and on all.
#include <kernelwright/bitnet.hpp>

#include <math.h>
#include <stdio.h>

namespace {

using kernelwright::BitNetModel;

int failures = 0;

#define EXPECT(so, ...)                               \
  do {                                                \
    if (!(so)) {                                      \
      printf("%s:%d: %s: ", __FILE__, __LINE__, #so); \
      printf(__VA_ARGS__);                            \
      printf("\n");                                   \
      ++failures;                                     \
    }                                                 \
  } while (false)

using Matrix = std::vector<double>;

// What codes stand for, by the library's own other function.
Matrix values(const kernelwright::TernaryWeight& weight) {
  std::vector<float> wide(static_cast<size_t>(weight.n * weight.k));
  kernelwright::check(kw_dequantize_ternary(KW_CPU, nullptr, wide.data(), weight.k, weight.codes(), &weight.scale, 1,
                                            weight.n, weight.k, KW_FLOAT32));
  return Matrix(wide.begin(), wide.end());
}

double rounded(double value) {
  return static_cast<double>(kernelwright::float_of(kernelwright::bfloat16_of(static_cast<float>(value))));
}

Matrix normed(const Matrix& x, int64_t rows, int64_t cols) {
  Matrix y(x.size());
  for (int64_t row = 0; row < rows; ++row) {
    double squares = 0;
    for (int64_t i = 0; i < cols; ++i) squares += x[row * cols + i] * x[row * cols + i];
    for (int64_t i = 0; i < cols; ++i)
      y[row * cols + i] = x[row * cols + i] / sqrt(squares / static_cast<double>(cols) + 1e-5);
  }
  return y;
}

Matrix product(const Matrix& x, const Matrix& weight, int64_t rows, int64_t n, int64_t k) {
  Matrix y(static_cast<size_t>(rows * n));
  for (int64_t row = 0; row < rows; ++row) {
    double largest = 1e-5;
    for (int64_t i = 0; i < k; ++i) largest = fmax(largest, fabs(x[row * k + i]));
    for (int64_t column = 0; column < n; ++column) {
      double sum = 0;
      for (int64_t i = 0; i < k; ++i) sum += nearbyint(x[row * k + i] * 127 / largest) * weight[column * k + i];
      y[row * n + column] = rounded(sum * largest / 127);
    }
  }
  return y;
}

Matrix forward(const BitNetModel& model, Matrix h) {
  const auto& s = model.sizes();
  for (int64_t layer = 0; layer < s.layers; ++layer) {
    const auto& weights = model.weights(layer);
    const Matrix x = normed(h, s.rows, s.hidden);
    const Matrix gate = product(x, values(weights.gate), s.rows, s.intermediate, s.hidden);
    const Matrix up = product(x, values(weights.up), s.rows, s.intermediate, s.hidden);
    Matrix gated(gate.size());
    for (size_t i = 0; i < gate.size(); ++i) gated[i] = rounded(gate[i] > 0 ? gate[i] * gate[i] * up[i] : 0);
    const Matrix down =
        product(normed(gated, s.rows, s.intermediate), values(weights.down), s.rows, s.hidden, s.intermediate);
    for (size_t i = 0; i < h.size(); ++i) h[i] = rounded(h[i] + down[i]);
  }
  return h;
}

void forward_pass(const std::string& cache) {
  BitNetModel model(0, cache);
  model.allocate_model_parameters(5, 8, 72, 2, 200);
  const auto& s = model.sizes();
  std::vector<float> input(static_cast<size_t>(s.rows * s.hidden)), output(input.size());
  std::mt19937_64 random(7);
  std::normal_distribution<float> normal;
  for (float& value : input) value = static_cast<float>(rounded(static_cast<double>(normal(random))));
  model.create_computation_graph();
  model.run_computation_graph(input.data(), output.data());
  const Matrix expected = forward(model, Matrix(input.begin(), input.end()));
  double error = 0, size = 0;
  for (size_t i = 0; i < output.size(); ++i) {
    error += (static_cast<double>(output[i]) - expected[i]) * (static_cast<double>(output[i]) - expected[i]);
    size += expected[i] * expected[i];
  }
  EXPECT(sqrt(error / size) < 0.02, "relative error %g", sqrt(error / size));
  std::vector<float> again(output.size());
  const std::string said = model.tune_kernels();
  model.create_computation_graph();
  model.run_computation_graph(nullptr, again.data());
  EXPECT(again == output, "another number of rows a launch gives other bits");
  EXPECT(said.empty(), "%s", said.c_str());
  EXPECT(model.memory().in_use > 0 && model.memory().peak >= model.memory().in_use, "the pool counts nothing");
}

double apart(const std::vector<float>& found, const std::vector<float>& expected) {
  double error = 0, size = 0;
  for (size_t i = 0; i < expected.size(); ++i) {
    error += pow(static_cast<double>(found[i]) - static_cast<double>(expected[i]), 2);
    size += pow(static_cast<double>(expected[i]), 2);
  }
  return sqrt(error / size);
}

// Sums are exact on both; norms and roundings of rows may differ in the last place. Returns what the GPUs give.
std::vector<float> on_gpus(const std::string& cache, int gpus) {
  std::vector<float> input(static_cast<size_t>(6 * 4 * 256)), found[2];
  std::mt19937_64 random(9);
  std::normal_distribution<float> normal;
  for (float& value : input) value = static_cast<float>(rounded(static_cast<double>(normal(random))));
  for (const int count : {0, gpus}) {
    remove(cache.c_str());  // it is one machine's, the CPU or a GPU
    BitNetModel model(count, cache);
    model.allocate_model_parameters(6, 4, 256, 3, 704);
    const std::string said = model.tune_kernels();
    EXPECT(said.empty(), "%s", said.c_str());
    model.create_computation_graph();
    std::vector<float>& output = found[count > 0];
    output.resize(input.size());
    for (int i = 0; i < 3; ++i) model.run_computation_graph(input.data(), output.data());
  }
  const double error = apart(found[1], found[0]);
  EXPECT(error < 0.02, "%d GPUs: relative error %g", gpus, error);
  printf("%d GPUs as the CPU: relative error %g\n", gpus, error);
  return found[1];
}

void loaded_weights() {
  BitNetModel model(0, "");
  model.allocate_model_parameters(1, 1, 16, 1, 32);
  const std::vector<float> none(16 * 32, 0.0f);
  model.load_layer(0, none.data(), none.data(), none.data());
  model.create_computation_graph();
  std::vector<float> input(16, 0.5f), output(16);
  model.run_computation_graph(input.data(), output.data());
  EXPECT(output == input, "a layer of zeros changes its input");
}

void pool() {
  const kernelwright::Context context(KW_CPU);
  kernelwright::Pool pool(context);
  char* first = nullptr;
  {
    auto block = pool.allocate(1000);
    first = block.data();
    EXPECT(reinterpret_cast<uintptr_t>(first) % 256 == 0, "not aligned");
    auto moved = std::move(block);
    EXPECT(block.data() == nullptr && moved.data() == first, "a block was copied");
  }
  EXPECT(pool.statistics().in_use == 0, "a block was not given back");
  auto block = pool.allocate(990);
  EXPECT(block.data() == first && pool.statistics().reused == 1, "a free block was not given again");
  auto other = pool.allocate(10);
  EXPECT(other.data() != first, "a block was given twice");
  other.reset();
  pool.trim();
  EXPECT(pool.statistics().reserved == block.bytes(), "%lld bytes are left",
         static_cast<long long>(pool.statistics().reserved));
}

void cache(const std::string& path) {
  remove(path.c_str());
  {
    kernelwright::Tuner tuner(path, "this machine");
    EXPECT(tuner.note().empty() && !tuner.knows("a"), "a cache that is not there");
    tuner.put("a", 32);
    EXPECT(tuner.save(), "not written");
  }
  kernelwright::Tuner same(path, "this machine");
  EXPECT(same.note().empty() && same.knows("a") && same.number("a") == 32, "not read");
  kernelwright::Tuner foreign(path, "another machine");
  EXPECT(!foreign.note().empty() && !foreign.knows("a"), "a foreign cache was taken");
  FILE* file = fopen(path.c_str(), "r+");
  fseek(file, 30, SEEK_SET);
  fputc('x', file);
  fclose(file);
  kernelwright::Tuner damaged(path, "this machine");
  EXPECT(!damaged.note().empty() && !damaged.knows("a"), "a damaged cache was taken");
  remove(path.c_str());
}

void refusals() {
  try {
    BitNetModel(0, "").create_computation_graph();
    EXPECT(false, "a graph of nothing");
  } catch (const kernelwright::Error& error) {
    EXPECT(error.status() == KW_ERROR_INVALID_ARGUMENT, "%s", error.what());
  }
  try {
    BitNetModel model(4096, "");
    EXPECT(false, "4096 GPUs");
  } catch (const kernelwright::Error&) {
  }
}

}  // namespace

int main(int, char** argv) {
  const std::string path = std::string(argv[0]) + ".tuning";
  remove(path.c_str());
  forward_pass(path);
  forward_pass(path);
  int32_t gpus = 0;
  if (kw_device_count(&gpus) != KW_OK) gpus = 0;
  if (gpus > 0) {
    const std::vector<float> one = on_gpus(path, 1);
    if (gpus > 1) {
      const std::vector<float> all = on_gpus(path, gpus);
      EXPECT(all == one, "%d GPUs give other bits than one: relative error %g", gpus, apart(all, one));
    }
  }
  loaded_weights();
  pool();
  cache(path);
  refusals();
  if (failures == 0) printf("bitnet.hpp: all right on %s\n", kw_cpu_isa());
  return failures != 0;
}
