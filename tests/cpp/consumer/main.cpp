// SPDX-License-Identifier: MIT
// Normalises two rows on the CPU and compares with the formula.
#include <kernelwright/kernelwright.h>

#include <math.h>
#include <stdio.h>

int main() {
  constexpr int kRows = 2, kCols = 5;
  const float x[kRows][kCols] = {{1, -2, 3, -4, 5}, {0.5f, 0, 0, 0, 0}};
  const float weight[kCols] = {1, 2, 3, 4, 5};
  float y[kRows][kCols], rstd[kRows];
  if (kw_rms_norm(KW_CPU, nullptr, y, kCols, nullptr, 0, x, kCols, nullptr, 0, weight, rstd, kRows, kCols, KW_FLOAT32,
                  KW_FLOAT32, 1e-6) != KW_OK) {
    fprintf(stderr, "kw_rms_norm: %s\n", kw_last_error());
    return 1;
  }
  for (int row = 0; row < kRows; ++row) {
    double squares = 0;
    for (float value : x[row]) squares += static_cast<double>(value) * value;
    const double scale = 1 / sqrt(squares / kCols + 1e-6);
    for (int col = 0; col < kCols; ++col) {
      const double expected = x[row][col] * scale * weight[col];
      if (!(fabs(y[row][col] - expected) <= 1e-6 * fabs(expected) + 1e-12)) {
        fprintf(stderr, "y[%d][%d] = %.9g, expected %.9g\n", row, col, y[row][col], expected);
        return 1;
      }
    }
    if (!(fabs(rstd[row] - scale) <= 1e-6 * scale)) return 1;
  }
  if (kw_rms_norm(KW_CPU, nullptr, y, kCols, nullptr, 0, x, kCols, nullptr, 0, weight, rstd, kRows, 0, KW_FLOAT32,
                  KW_FLOAT32, 1e-6) != KW_ERROR_INVALID_ARGUMENT) {
    fprintf(stderr, "rows of no columns were accepted\n");
    return 1;
  }
  printf("kernelwright %s, ABI %d, %s, %d threads\n", kw_version(), kw_abi(), kw_cpu_isa(), kw_num_threads());
  return 0;
}
