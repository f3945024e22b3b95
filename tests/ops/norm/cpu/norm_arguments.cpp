// SPDX-License-Identifier: MIT
// What the norms' C functions refuse, and that they name themselves and the argument.
#include "ops/norm/api/layer_norm.h"
#include "ops/norm/api/rms_norm.h"

#include "../../../cpp/cpu/check.h"

namespace {

constexpr int64_t kRows = 2, kCols = 4;

// Arguments of a call that is right; each check breaks one.
struct Arguments {
  alignas(16) float data[64] = {};
  int32_t device = KW_CPU, dtype = KW_FLOAT32, weight_dtype = KW_FLOAT32;
  void *y = data, *sum = nullptr, *dweight = data + 56, *dbias = data + 60, *workspace = space;
  const void *x = data + 8, *residual = nullptr, *weight = nullptr, *bias = nullptr, *dy = data + 16, *dsum = nullptr;
  float *mean = nullptr, *rstd = nullptr;
  int64_t y_stride = kCols, sum_stride = kCols, rows = kRows, cols = kCols, bytes = sizeof space;
  double eps = 1e-5;
  alignas(16) char space[512];
};

enum Function { kRms, kLayer, kRmsBackward, kLayerBackward };
constexpr const char* kNames[] = {
    "kw_rms_norm: ", "kw_layer_norm: ", "kw_rms_norm_backward: ", "kw_layer_norm_backward: "};

kw_status call(Function f, const Arguments& a) {
  switch (f) {
    case kRms:
      return kw_rms_norm(a.device, nullptr, a.y, a.y_stride, a.sum, a.sum_stride, a.x, kCols, a.residual, kCols,
                         a.weight, a.rstd, a.rows, a.cols, a.dtype, a.weight_dtype, a.eps);
    case kLayer:
      return kw_layer_norm(a.device, nullptr, a.y, a.y_stride, a.sum, a.sum_stride, a.x, kCols, a.residual, kCols,
                           a.weight, a.bias, a.mean, a.rstd, a.rows, a.cols, a.dtype, a.weight_dtype, a.eps);
    case kRmsBackward:
      return kw_rms_norm_backward(a.device, nullptr, a.y, a.y_stride, a.dweight, a.dy, kCols, a.dsum, kCols, a.x, kCols,
                                  a.weight, a.rstd, a.workspace, a.bytes, a.rows, a.cols, a.dtype, a.weight_dtype,
                                  a.eps);
    default:
      return kw_layer_norm_backward(a.device, nullptr, a.y, a.y_stride, a.dweight, a.dbias, a.dy, kCols, a.dsum, kCols,
                                    a.x, kCols, a.weight, a.mean, a.rstd, a.workspace, a.bytes, a.rows, a.cols, a.dtype,
                                    a.weight_dtype, a.eps);
  }
}

// Breaks a right call, and wants words of the answer.
template <class Break>
void refuse(Function f, const char* words, Break breaks) {
  Arguments a;
  CHECK(call(f, a) == KW_OK, "%s", kw_last_error());
  breaks(a);
  const kw_status status = call(f, a);
  CHECK(status == KW_ERROR_INVALID_ARGUMENT, "%swants %s, got status %d", kNames[f], words, status);
  CHECK(strncmp(kw_last_error(), kNames[f], strlen(kNames[f])) == 0 && strstr(kw_last_error(), words),
        "wanted %s%s, got %s", kNames[f], words, kw_last_error());
}

// Changes a right call into another.
template <class Change>
void accept(Function f, Change changes) {
  Arguments a;
  changes(a);
  const kw_status status = call(f, a);
  CHECK(status == KW_OK, "%swants no error, got status %d: %s", kNames[f], status, kw_last_error());
}

int64_t workspace(Function f, int64_t rows = kRows) {
  int64_t bytes = -1;
  const auto ask = f == kRmsBackward ? kw_rms_norm_backward_workspace : kw_layer_norm_backward_workspace;
  CHECK(ask(KW_CPU, rows, kCols, &bytes) == KW_OK && bytes > 0, "%s%lld bytes", kNames[f],
        static_cast<long long>(bytes));
  return bytes;
}

template <class T>
T* moved(T* p) {
  return reinterpret_cast<T*>(reinterpret_cast<uintptr_t>(p) + 1);
}

void check_common(Function f) {
  refuse(f, "device is -2", [](Arguments& a) { a.device = -2; });
  refuse(f, "dtype is 7", [](Arguments& a) { a.dtype = 7; });
  refuse(f, "rows is -1", [](Arguments& a) { a.rows = -1; });
  refuse(f, "rows is 9223372036854775807", [](Arguments& a) { a.rows = INT64_MAX; });
  refuse(f, "rows is 36028797018963969", [](Arguments& a) { a.rows = (int64_t{1} << 57) / kCols + 1; });
  refuse(f, "cols is 0", [](Arguments& a) { a.cols = 0; });
  refuse(f, "cols is 65537", [](Arguments& a) { a.cols = 65537; });
  refuse(f, "eps is -1", [](Arguments& a) { a.eps = -1; });
  refuse(f, "eps is nan", [](Arguments& a) { a.eps = static_cast<double>(NAN); });
  refuse(f, "eps is inf", [](Arguments& a) { a.eps = static_cast<double>(INFINITY); });
  refuse(f, "eps is 3.2e+38", [](Arguments& a) { a.eps = 3.2e38; });
  refuse(f, "weight_dtype is 2", [](Arguments& a) { a.weight = a.data, a.weight_dtype = KW_BFLOAT16; });
  refuse(f, "weight is at", [](Arguments& a) { a.weight = moved(a.data); });
  refuse(f, "rstd is at", [](Arguments& a) { a.rstd = moved(a.data), a.mean = a.data; });
  // Of one row nothing is asked of the distance to the next.
  accept(f, [](Arguments& a) { a.rows = 1, a.y_stride = 0, a.sum_stride = 0; });
}

void check_forward(Function f) {
  check_common(f);
  refuse(f, "x is NULL", [](Arguments& a) { a.x = nullptr; });
  refuse(f, "y is NULL", [](Arguments& a) { a.y = nullptr; });
  refuse(f, "residual is given without sum", [](Arguments& a) { a.residual = a.data; });
  refuse(f, "sum is given without residual", [](Arguments& a) { a.sum = a.data; });
  refuse(f, "x is at", [](Arguments& a) { a.x = moved(a.x); });
  refuse(f, "y is at", [](Arguments& a) { a.y = moved(a.y); });
  refuse(f, "residual is at", [](Arguments& a) { a.residual = moved(a.x), a.sum = a.data + 24; });
  refuse(f, "sum is at", [](Arguments& a) { a.residual = a.x, a.sum = moved(a.data + 24); });
  refuse(f, "y_stride is 3", [](Arguments& a) { a.y_stride = 3; });
  refuse(f, "y_stride is -3", [](Arguments& a) { a.y_stride = -3; });
  refuse(f, "sum_stride is 0", [](Arguments& a) { a.residual = a.x, a.sum = a.data + 24, a.sum_stride = 0; });
  // Rows from the last to the first, side by side.
  accept(f, [](Arguments& a) { a.y = a.data + 40 + kCols, a.y_stride = -kCols; });
}

void check_backward(Function f) {
  check_common(f);
  refuse(f, "dx is NULL", [](Arguments& a) { a.y = nullptr; });
  refuse(f, "dy is NULL", [](Arguments& a) { a.dy = nullptr; });
  refuse(f, "h is NULL", [](Arguments& a) { a.x = nullptr; });
  refuse(f, "dx is at", [](Arguments& a) { a.y = moved(a.y); });
  refuse(f, "dy is at", [](Arguments& a) { a.dy = moved(a.dy); });
  refuse(f, "h is at", [](Arguments& a) { a.x = moved(a.x); });
  refuse(f, "dsum is at", [](Arguments& a) { a.dsum = moved(a.dy); });
  refuse(f, "dweight is at", [](Arguments& a) { a.dweight = moved(a.dweight); });
  refuse(f, "dx_stride is 1", [](Arguments& a) { a.y_stride = 1; });
  refuse(f, "workspace is NULL", [](Arguments& a) { a.workspace = nullptr; });
  refuse(f, "workspace is at", [](Arguments& a) { a.workspace = a.space + 8; });
  refuse(f, "weight_dtype is 2", [](Arguments& a) { a.weight_dtype = KW_BFLOAT16; });  // of the derivatives alone
  refuse(f, "workspace_bytes is 15", [](Arguments& a) { a.bytes = 15; });
  const int64_t needed = workspace(f);
  refuse(f, "workspace_bytes is ", [=](Arguments& a) { a.bytes = needed - 1; });
  accept(f, [=](Arguments& a) { a.bytes = needed; });
  // More rows than one chunk has want more.
  constexpr int64_t kMany = 9;
  const int64_t more = workspace(f, kMany);
  CHECK(more > needed, "%s%lld bytes for %lld rows", kNames[f], static_cast<long long>(more),
        static_cast<long long>(kMany));
  refuse(f, "workspace_bytes is ", [=](Arguments& a) { a.rows = kMany, a.bytes = more - 1; });
}

void check_workspace() {
  int64_t bytes = -1;
  CHECK(kw_rms_norm_backward_workspace(KW_CPU, 0, 4, &bytes) == KW_OK && bytes == 0, "no rows want %lld bytes",
        static_cast<long long>(bytes));
  CHECK(kw_layer_norm_backward_workspace(KW_CPU, 1 << 20, 65536, &bytes) == KW_OK && bytes > 0 && bytes < (64 << 20),
        "%lld bytes", static_cast<long long>(bytes));
  // Nor on a GPU, of which nothing is asked then.
  bytes = -1;
  CHECK(kw_layer_norm_backward_workspace(0, 0, 4, &bytes) == KW_OK && bytes == 0,
        "no rows want %lld bytes of a GPU: %s", static_cast<long long>(bytes), kw_last_error());
  CHECK(kw_layer_norm_backward_workspace(-2, 1, 4, &bytes) == KW_ERROR_INVALID_ARGUMENT &&
            strstr(kw_last_error(), "kw_layer_norm_backward_workspace: device is -2"),
        "%s", kw_last_error());
  CHECK(kw_rms_norm_backward_workspace(KW_CPU, 1, 4, nullptr) == KW_ERROR_INVALID_ARGUMENT &&
            strstr(kw_last_error(), "kw_rms_norm_backward_workspace: bytes is NULL"),
        "%s", kw_last_error());
  CHECK(kw_layer_norm_backward_workspace(KW_CPU, -1, 4, &bytes) == KW_ERROR_INVALID_ARGUMENT &&
            strstr(kw_last_error(), "kw_layer_norm_backward_workspace: rows is -1"),
        "%s", kw_last_error());
}

}  // namespace

int main() {
  check_forward(kRms);
  check_forward(kLayer);
  check_backward(kRmsBackward);
  check_backward(kLayerBackward);
  refuse(kLayer, "mean is at", [](Arguments& a) { a.mean = moved(a.data); });
  refuse(kLayer, "weight_dtype is 2", [](Arguments& a) { a.bias = a.data, a.weight_dtype = KW_BFLOAT16; });
  refuse(kLayer, "bias is at", [](Arguments& a) { a.bias = moved(a.data); });
  refuse(kLayerBackward, "dbias is at", [](Arguments& a) { a.dbias = moved(a.data); });
  refuse(kLayerBackward, "mean is at", [](Arguments& a) { a.mean = moved(a.data), a.rstd = a.data; });
  refuse(kLayerBackward, "mean is given without rstd", [](Arguments& a) { a.mean = a.data; });
  refuse(kLayerBackward, "rstd is given without mean", [](Arguments& a) { a.rstd = a.data; });
  check_workspace();
  if (failures) fprintf(stderr, "%d failures\n", failures);
  return failures != 0;
}
