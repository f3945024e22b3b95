// SPDX-License-Identifier: MIT
// What the functions of tensors refuse: the message begins with the function and names the argument, and nothing was
// written.
#include "ops/gated/api/swiglu.h"
#include "ops/norm/api/layer_norm.h"
#include "ops/norm/api/rms_norm.h"

#include <initializer_list>

#include "broken_descriptions.h"
#include "check.h"

namespace {

constexpr int64_t kRows = 3, kCols = 4, kRoom = 64;
constexpr int kMost = 8;

// What the others go with, rows that are read, rows that are written, and one element for each column.
enum Kind { kBase, kRead, kWritten, kColumns };
struct Argument {
  const char* name = nullptr;
  Kind kind = kRead;
};
enum Function { kRms, kLayer, kRmsBackward, kLayerBackward, kSwiglu, kSwigluBackward, kFunctions };
constexpr const char* kNames[] = {"kw_rms_norm_tensors: ",
                                  "kw_layer_norm_tensors: ",
                                  "kw_rms_norm_backward_tensors: ",
                                  "kw_layer_norm_backward_tensors: ",
                                  "kw_swiglu_tensors: ",
                                  "kw_swiglu_backward_tensors: "};
constexpr Argument kArguments[kFunctions][kMost] = {
    {{"y", kWritten}, {"sum", kWritten}, {"x", kBase}, {"residual", kRead}, {"weight", kColumns}},
    {{"y", kWritten}, {"sum", kWritten}, {"x", kBase}, {"residual", kRead}, {"weight", kColumns}, {"bias", kColumns}},
    {{"dx", kWritten}, {"dweight", kColumns}, {"dy", kRead}, {"dsum", kRead}, {"h", kBase}, {"weight", kColumns}},
    {{"dx", kWritten},
     {"dweight", kColumns},
     {"dbias", kColumns},
     {"dy", kRead},
     {"dsum", kRead},
     {"h", kBase},
     {"weight", kColumns},
     {"bias", kColumns}},
    {{"y", kWritten}, {"gate", kBase}, {"up", kRead}},
    {{"dgate", kWritten}, {"dup", kWritten}, {"dy", kRead}, {"gate", kBase}, {"up", kRead}},
};

// Arguments of a call that is right; each check breaks one.
struct Call {
  Function function;
  alignas(16) float memory[kMost][kRoom];
  int64_t sizes[kMost][3] = {}, strides[kMost][3] = {};
  kw_tensor described[kMost];
  const kw_tensor* given[kMost] = {};
  alignas(16) char space[512];
  void* workspace = space;
  int64_t bytes = sizeof space;
  double eps = 1e-5;

  explicit Call(Function f) : function(f) {
    for (int i = 0; i < kMost; ++i) {
      for (int64_t k = 0; k < kRoom; ++k) memory[i][k] = static_cast<float>((i + 3 * k) % 17 - 8);
      const bool columns = kArguments[f][i].kind == kColumns;
      described[i] = {KW_TENSOR, memory[i], sizes[i], strides[i], columns ? 1 : 2, KW_FLOAT32, KW_CPU};
      sizes[i][0] = columns ? kCols : kRows, sizes[i][1] = kCols;
      strides[i][0] = columns ? 1 : kCols, strides[i][1] = 1;
      if (kArguments[f][i].name != nullptr) given[i] = &described[i];
    }
  }
  Call(const Call&) = delete;
  Call& operator=(const Call&) = delete;

  int at(const char* name) const {
    for (int i = 0; i < kMost && kArguments[function][i].name != nullptr; ++i) {
      if (strcmp(kArguments[function][i].name, name) == 0) return i;
    }
    fprintf(stderr, "%shas no %s\n", kNames[function], name);
    abort();
  }
  kw_tensor& tensor(const char* name) { return described[at(name)]; }
  void leave_out(const char* name) { given[at(name)] = nullptr; }
  void types(int32_t rows, int32_t columns) {
    for (int i = 0; i < kMost; ++i) described[i].dtype = kArguments[function][i].kind == kColumns ? columns : rows;
  }
  void no_rows() {
    for (int i = 0; i < kMost; ++i) {
      if (kArguments[function][i].kind != kColumns) sizes[i][0] = 0;
    }
  }
  template <class Which>
  void keep(Which which) {
    for (int i = 0; i < kMost; ++i) {
      if (!which(i, kArguments[function][i].kind)) given[i] = nullptr;
    }
  }

  kw_status run() const {
    const kw_tensor* const* const t = given;
    switch (function) {
      case kRms:
        return kw_rms_norm_tensors(nullptr, t[0], t[1], t[2], t[3], t[4], eps);
      case kLayer:
        return kw_layer_norm_tensors(nullptr, t[0], t[1], t[2], t[3], t[4], t[5], eps);
      case kRmsBackward:
        return kw_rms_norm_backward_tensors(nullptr, t[0], t[1], t[2], t[3], t[4], t[5], workspace, bytes, eps);
      case kLayerBackward:
        return kw_layer_norm_backward_tensors(nullptr, t[0], t[1], t[2], t[3], t[4], t[5], t[6], t[7], workspace, bytes,
                                              eps);
      case kSwiglu:
        return kw_swiglu_tensors(nullptr, t[0], t[1], t[2]);
      default:
        return kw_swiglu_backward_tensors(nullptr, t[0], t[1], t[2], t[3], t[4]);
    }
  }
};

// Changes a right call into one that is refused, in these words.
template <class Break>
void refuse(Function f, const char* words, Break breaks) {
  Call call(f);
  breaks(call);
  static float before[kMost][kRoom];
  memcpy(before, call.memory, sizeof before);
  const kw_status status = call.run();
  CHECK(status == KW_ERROR_INVALID_ARGUMENT, "%swants %s, got status %d", kNames[f], words, status);
  CHECK(strncmp(kw_last_error(), kNames[f], strlen(kNames[f])) == 0 && strstr(kw_last_error(), words),
        "wanted %s%s, got %s", kNames[f], words, kw_last_error());
  CHECK(memcmp(before, call.memory, sizeof before) == 0, "%s%s: refused, and something was written", kNames[f], words);
}

// Changes a right call into another.
template <class Change>
void accept(Function f, const char* what, Change changes) {
  Call call(f);
  changes(call);
  const kw_status status = call.run();
  CHECK(status == KW_OK, "%s%s: status %d: %s", kNames[f], what, status, kw_last_error());
}

// The same for one argument, whose name begins the words.
template <class Break>
void refuse_one(Function f, int i, const char* words, Break breaks) {
  char all[256];
  snprintf(all, sizeof all, "%s %s", kArguments[f][i].name, words);
  refuse(f, all, [&](Call& c) { breaks(c, c.described[i]); });
}

void check_description(Function f, int i) {
  check_broken_descriptions(i, [=](const char* words, auto breaks) { refuse_one(f, i, words, breaks); });
  if (kArguments[f][i].kind != kBase)
    refuse_one(f, i, "is on device 0, others on -1", [](Call&, kw_tensor& t) { t.device = 0; });
  if (f != kLayerBackward || i != 7)  // a bias that is only looked at
    refuse_one(f, i, "is at", [](Call&, kw_tensor& t) { t.data = moved(t.data, 1); });
}

void check_rows(Function f, int i) {
  constexpr const char* kUneven = "do not follow each other by one stride";
  char words[64];
  snprintf(words, sizeof words, "the rows of %s %s", kArguments[f][i].name, kUneven);
  refuse(f, words, [=](Call& c) { c.strides[i][1] = 2; });
  refuse(f, words, [=](Call& c) { c.strides[i][0] = 1, c.strides[i][1] = kRows; });
  refuse(f, words, [=](Call& c) { c.strides[i][0] = -kCols; });
  refuse_one(f, i, "has negative sizes, or reaches farther", [=](Call& c, kw_tensor&) { c.strides[i][0] = INT64_MAX; });
  if (kArguments[f][i].kind == kWritten) {
    snprintf(words, sizeof words, "%s_stride is ", kArguments[f][i].name);
    for (const int64_t stride : {int64_t{0}, kCols - 1}) refuse(f, words, [=](Call& c) { c.strides[i][0] = stride; });
  }
}

void check_beside(Function f, int i) {
  constexpr const char* kOther = "is (";
  refuse_one(f, i, kOther, [=](Call& c, kw_tensor&) { c.sizes[i][0] = kRows - 1; });
  refuse_one(f, i, kOther, [=](Call& c, kw_tensor&) { c.sizes[i][1] = kCols - 1; });
  refuse_one(f, i, kOther, [=](Call& c, kw_tensor&) { c.sizes[i][1] = 2 * kCols, c.strides[i][0] = 2 * kCols; });
  refuse_one(f, i, kOther, [](Call&, kw_tensor& t) { t.dims = 0; });
  refuse_one(f, i, kOther, [=](Call& c, kw_tensor& t) { c.sizes[i][0] = kRows * kCols, t.dims = 1; });
  refuse_one(f, i, kOther, [=](Call& c, kw_tensor& t) {
    c.sizes[i][0] = 1, c.sizes[i][1] = kRows, c.sizes[i][2] = kCols, t.dims = 3;
  });
  for (const int32_t type : {int{KW_FLOAT16}, int{KW_FLOAT64}, -1})
    refuse_one(f, i, kOther, [=](Call&, kw_tensor& t) { t.dtype = type; });
}

void check_columns(Function f, int i) {
  constexpr const char* kOther = "is not one row of 4 elements without gaps";
  refuse_one(f, i, kOther, [=](Call& c, kw_tensor&) { c.sizes[i][0] = kCols + 1; });
  refuse_one(f, i, kOther, [=](Call& c, kw_tensor&) { c.strides[i][0] = 0; });
  refuse_one(f, i, kOther, [=](Call& c, kw_tensor& t) { c.sizes[i][0] = 1, c.strides[i][0] = 4, t.dims = 2; });
  refuse_one(f, i, kOther, [](Call&, kw_tensor& t) { t.dims = 0; });
  char words[64];
  snprintf(words, sizeof words, "the dtype of %s must match", kArguments[f][i].name);
  refuse(f, words, [=](Call& c) {  // alone: neither float32 nor that of the rows
    c.keep([=](int k, Kind kind) { return k == i || kind != kColumns; });
    c.described[i].dtype = KW_FLOAT16;
  });
  if (f == kRms) return;
  refuse(f, "the dtype of ", [=](Call& c) {  // that of the rows, where others are of float32
    c.types(KW_FLOAT16, KW_FLOAT32);
    c.described[i].dtype = KW_FLOAT16;
  });
}

void check_base(Function f) {
  const int base = f == kSwiglu ? 1 : f == kLayerBackward ? 5 : f == kRmsBackward ? 4 : f == kSwigluBackward ? 3 : 2;
  const char* const name = kArguments[f][base].name;
  char words[64];
  for (const int32_t type : {int{KW_FLOAT64}, -1, 7}) {
    snprintf(words, sizeof words, "dtype is %d", type);
    refuse(f, words, [=](Call& c) { c.types(type, KW_FLOAT32); });
  }
  refuse(f, " is on device -1, others on 0", [=](Call& c) { c.described[base].device = 0; });
  snprintf(words, sizeof words, "%s is missing, or has no dimension", name);
  refuse(f, words, [=](Call& c) { c.leave_out(name); });
  refuse(f, words, [=](Call& c) { c.described[base].dims = 0; });
  snprintf(words, sizeof words, "%s has negative sizes", name);
  refuse(f, words, [=](Call& c) { c.sizes[base][0] = -kRows; });
  refuse(f, words, [=](Call& c) { c.sizes[base][0] = INT64_MAX; });
  Call call(f);  // whoever is on a GPU that is not here is not refused for its arguments
  for (kw_tensor& each : call.described) each.device = 4096;
  const kw_status status = call.run();
  CHECK(status == KW_ERROR_NO_DRIVER || status == KW_ERROR_DRIVER_TOO_OLD || status == KW_ERROR_NO_DEVICE,
        "%son GPU 4096: status %d: %s", kNames[f], status, kw_last_error());
}

void check_norm(Function f, bool backward) {
  refuse(f, "eps is -1", [](Call& c) { c.eps = -1; });
  for (const int64_t cols : {int64_t{0}, int64_t{65537}}) {
    char words[32];
    snprintf(words, sizeof words, "cols is %ld", static_cast<long>(cols));
    refuse(f, words, [=](Call& c) {
      for (int i = 0; i < kMost; ++i) {
        c.sizes[i][c.described[i].dims - 1] = cols;
        if (c.described[i].dims == 2) c.strides[i][0] = cols;
      }
    });
  }
  if (!backward) {
    refuse(f, "y is NULL", [](Call& c) { c.leave_out("y"); });
    refuse(f, "residual is given without sum", [](Call& c) { c.leave_out("sum"); });
    refuse(f, "sum is given without residual", [](Call& c) { c.leave_out("residual"); });
    accept(f, "neither", [](Call& c) { c.leave_out("sum"), c.leave_out("residual"); });
    accept(f, "no weights", [](Call& c) { c.keep([](int, Kind kind) { return kind != kColumns; }); });
    return;
  }
  refuse(f, "dx is NULL", [](Call& c) { c.leave_out("dx"); });
  refuse(f, "dy is NULL", [](Call& c) { c.leave_out("dy"); });
  accept(f, "no dsum", [](Call& c) { c.leave_out("dsum"); });
  refuse(f, "workspace is NULL", [](Call& c) { c.workspace = nullptr; });
  refuse(f, "workspace is at", [](Call& c) { c.workspace = c.space + 8; });
  refuse(f, "workspace_bytes is 15", [](Call& c) { c.bytes = 15; });
  accept(f, "no workspace where none is wanted", [](Call& c) {
    c.keep([](int, Kind kind) { return kind != kColumns; });
    c.workspace = nullptr, c.bytes = 0;
  });
}

// Where sum lies in elements from where another begins, what that makes of it, and how far its rows are apart.
void check_sum(Function f, const char* other, int64_t from, bool overlaps, int64_t stride = kCols) {
  const auto change = [=](Call& c) {
    c.strides[c.at("sum")][0] = stride;
    c.tensor("sum").data = static_cast<float*>(c.tensor(other).data) + from;
  };
  if (overlaps) {
    refuse(f, "sum overlaps x or a parameter", change);
  } else {
    accept(f, other, change);
  }
}

void check_overlaps(Function f) {
  constexpr int64_t kAll = kRows * kCols;
  for (const int64_t from : {int64_t{0}, int64_t{1}, 1 - kAll, kAll - 1}) check_sum(f, "x", from, true);
  for (const int64_t from : {kAll, -kAll}) check_sum(f, "x", from, false);
  check_sum(f, "x", 1 - 2 * 6 - kCols, true, 6);  // its last row ends in the first element
  check_sum(f, "x", -2 * 6 - kCols, false, 6);
  check_sum(f, "residual", 0, false);
  for (const char* name : {"weight", "bias"}) {
    if (f == kRms && name[0] == 'b') continue;
    for (const int64_t from : {int64_t{0}, kCols - 1, 1 - kAll}) check_sum(f, name, from, true);
    for (const int64_t from : {kCols, -kAll}) check_sum(f, name, from, false);
  }
  for (const char* name : {"x", "weight"}) {
    accept(f, "no rows in one place", [=](Call& c) {
      c.no_rows();
      c.tensor("sum").data = static_cast<float*>(c.tensor(name).data) + 1;
    });
  }
}

void check_packed() {
  constexpr const char* kOther = "is (";
  const auto wide = [](Call& c, const char* name) { c.sizes[c.at(name)][1] = c.strides[c.at(name)][0] = 2 * kCols; };
  refuse(kSwiglu, "y is (", [](Call& c) { c.leave_out("y"); });
  refuse(kSwiglu, "y is (", [](Call& c) { c.leave_out("up"); });  // y is as wide as gate, not half
  refuse(kSwiglu, "gate has 3 columns, and up is NULL", [](Call& c) { c.leave_out("up"), c.sizes[1][1] = 3; });
  accept(kSwiglu, "packed", [=](Call& c) { c.leave_out("up"), wide(c, "gate"); });
  const auto packed = [=](Call& c) {
    c.leave_out("up"), c.leave_out("dup");
    wide(c, "gate"), wide(c, "dgate");
  };
  accept(kSwigluBackward, "packed", packed);
  accept(kSwigluBackward, "no rows", [=](Call& c) { packed(c), c.no_rows(), c.strides[0][0] = 0; });
  refuse(kSwigluBackward, "up is NULL; both dup and up", [](Call& c) { c.leave_out("up"); });
  refuse(kSwigluBackward, "dup is NULL; both dup and up", [](Call& c) { c.leave_out("dup"); });
  refuse(kSwigluBackward, "gate has 3 columns", [=](Call& c) { packed(c), c.sizes[3][1] = 3; });
  for (const char* name : {"dgate", "dy"}) {
    char words[64];
    snprintf(words, sizeof words, "%s %s", name, kOther);
    refuse(kSwigluBackward, words, [=](Call& c) { c.leave_out(name); });
    refuse(kSwigluBackward, words, [=](Call& c) { packed(c), c.leave_out(name); });
    refuse(kSwigluBackward, words, [=](Call& c) { packed(c), c.sizes[c.at(name)][1] = 3; });
  }
  refuse(kSwigluBackward, "dgate_stride is 7", [=](Call& c) { packed(c), c.strides[0][0] = 2 * kCols - 1; });
  refuse(kSwigluBackward, "dgate_stride is 4", [=](Call& c) { packed(c), c.strides[0][0] = kCols; });
}

}  // namespace

int main() {
  for (int number = 0; number < kFunctions; ++number) {
    const auto f = static_cast<Function>(number);
    accept(f, "all of it", [](Call&) {});
    check_base(f);
    for (int i = 0; i < kMost && kArguments[f][i].name != nullptr; ++i) {
      const Kind kind = kArguments[f][i].kind;
      check_description(f, i);
      if (kind == kColumns) check_columns(f, i);
      if (kind != kColumns) check_rows(f, i);
      if (kind == kRead || kind == kWritten) check_beside(f, i);
    }
  }
  for (const Function f : {kRms, kLayer}) {
    check_norm(f, false);
    check_overlaps(f);
  }
  check_norm(kRmsBackward, true);
  check_norm(kLayerBackward, true);
  check_packed();
  if (failures) fprintf(stderr, "%d failures\n", failures);
  return failures != 0;
}
