// SPDX-License-Identifier: MIT
// What every operator's functions give for the same inputs, as lines of numbers: test_cpp.py compares those of two
// processors. Of rows this is one that vectors divide and one that leaves a rest; of products a few rows and more.
#include "ops/four_bit/api/dequantize_4bit.h"
#include "ops/four_bit/api/matmul_4bit.h"
#include "ops/four_bit/api/quantize_4bit.h"
#include "ops/gated/api/swiglu.h"
#include "ops/norm/api/layer_norm.h"
#include "ops/norm/api/rms_norm.h"

#include "check.h"

namespace {

constexpr int64_t kRows = 3;
constexpr int64_t kWidest = 1031;
constexpr int64_t kBlock = 64;
constexpr double kEps = 1e-5;

struct Tensor {
  alignas(16) char data[static_cast<size_t>(kRows * kWidest * 4)];
};

// The inputs, and what is written; one call at a time.
Tensor x, residual, weight, bias, dy, y, sum, dx, dweight, dbias, workspace;

Random values;

void fill(const Format& format, Tensor& tensor, int64_t count) {
  for (int64_t i = 0; i < count; ++i) set(format, tensor.data, i, rounded(format, values.normal()));
}

void ok(kw_status status) { CHECK(status == KW_OK, "%s", kw_last_error()); }

void show(const char* what, const Format& format, const void* made, int64_t count) {
  printf("%s %s:", what, format.name);
  for (int64_t i = 0; i < count; ++i) printf(" %.9g", get(format, made, i));
  printf("\n");
}

void show_bytes(const char* what, const uint8_t* made, int64_t count) {
  printf("%s codes:", what);
  for (int64_t i = 0; i < count; ++i) printf(" %d", made[i]);
  printf("\n");
}

void rms_norm(const Format& f, int64_t cols) {
  float rstd[kRows];
  ok(kw_rms_norm(KW_CPU, nullptr, y.data, cols, sum.data, cols, x.data, cols, residual.data, cols, weight.data, rstd,
                 kRows, cols, f.dtype, f.dtype, kEps));
  show("rms_norm.y", f, y.data, kRows * cols);
  show("rms_norm.rstd", kFormats[0], rstd, kRows);
  ok(kw_rms_norm_backward(KW_CPU, nullptr, dx.data, cols, dweight.data, dy.data, cols, nullptr, 0, sum.data, cols,
                          weight.data, rstd, workspace.data, sizeof workspace.data, kRows, cols, f.dtype, f.dtype,
                          kEps));
  show("rms_norm.dx", f, dx.data, kRows * cols);
  show("rms_norm.dweight", f, dweight.data, cols);
}

void layer_norm(const Format& f, int64_t cols) {
  float mean[kRows], rstd[kRows];
  ok(kw_layer_norm(KW_CPU, nullptr, y.data, cols, sum.data, cols, x.data, cols, residual.data, cols, weight.data,
                   bias.data, mean, rstd, kRows, cols, f.dtype, f.dtype, kEps));
  show("layer_norm.y", f, y.data, kRows * cols);
  ok(kw_layer_norm_backward(KW_CPU, nullptr, dx.data, cols, dweight.data, dbias.data, dy.data, cols, nullptr, 0,
                            sum.data, cols, weight.data, mean, rstd, workspace.data, sizeof workspace.data, kRows, cols,
                            f.dtype, f.dtype, kEps));
  show("layer_norm.dx", f, dx.data, kRows * cols);
  show("layer_norm.dweight", f, dweight.data, cols);
  show("layer_norm.dbias", f, dbias.data, cols);
}

void swiglu(const Format& f, int64_t cols) {
  ok(kw_swiglu(KW_CPU, nullptr, y.data, cols, x.data, cols, residual.data, cols, kRows, cols, f.dtype));
  show("swiglu.y", f, y.data, kRows * cols);
  ok(kw_swiglu_backward(KW_CPU, nullptr, dx.data, cols, dweight.data, cols, dy.data, cols, x.data, cols, residual.data,
                        cols, kRows, cols, f.dtype));
  show("swiglu.dgate", f, dx.data, kRows * cols);
  show("swiglu.dup", f, dweight.data, kRows * cols);
}

// The product of a weight with m rows.
void product(const Format& f, int32_t type, const uint8_t* packed, const float* absmax, int64_t m, int64_t n,
             int64_t k) {
  int64_t bytes = 0;
  ok(kw_matmul_4bit_workspace(KW_CPU, m, n, k, kBlock, f.dtype, &bytes));
  CHECK(bytes <= static_cast<int64_t>(sizeof workspace.data), "%lld", static_cast<long long>(bytes));
  ok(kw_matmul_4bit(KW_CPU, nullptr, y.data, n, dy.data, k, packed, absmax, nullptr, nullptr, nullptr, nullptr,
                    bias.data, bytes ? workspace.data : nullptr, bytes, m, n, k, kBlock, type, f.dtype));
  show("matmul_4bit.y", f, y.data, m * n);
}

// A weight of 16 rows of three blocks in 4 bits and back, and its products: a matrix unit has those of more rows than
// a few.
void four_bit(const Format& f, int32_t type) {
  constexpr int64_t n = 16, k = 3 * kBlock, count = n * k, blocks = count / kBlock;
  uint8_t packed[count / 2], codes[blocks];
  float absmax[blocks], absmax2[1], map[256], offset = 1.5F;
  for (int i = 0; i < 256; ++i) map[i] = static_cast<float>(i - 127) / 128.0F;
  ok(kw_quantize_4bit(KW_CPU, nullptr, packed, absmax, x.data, count, kBlock, type, f.dtype));
  ok(kw_quantize_4bit_absmax(KW_CPU, nullptr, codes, absmax2, absmax, &offset, map, blocks));
  show_bytes("quantize_4bit.packed", packed, count / 2);
  show_bytes("quantize_4bit.absmax", codes, blocks);
  ok(kw_dequantize_4bit(KW_CPU, nullptr, y.data, packed, nullptr, codes, absmax2, map, &offset, count, kBlock, type,
                        f.dtype));
  show("dequantize_4bit.y", f, y.data, count);
  constexpr int64_t kProducts[] = {1, kRows, 8, 11};
  for (const int64_t m : kProducts) product(f, type, packed, absmax, m, n, k);
}

}  // namespace

int main() {
  printf("cpu: %s\n", kw_cpu_isa());
  for (const Format& f : kFormats) {
    Tensor* inputs[] = {&x, &residual, &weight, &bias, &dy};
    for (Tensor* tensor : inputs) fill(f, *tensor, kRows * kWidest);
    constexpr int64_t kWidths[] = {1024, kWidest};
    for (const int64_t cols : kWidths) {
      rms_norm(f, cols);
      layer_norm(f, cols);
      swiglu(f, cols);
    }
    four_bit(f, KW_NF4);
    four_bit(f, KW_FP4);
  }
  return failures != 0;
}
