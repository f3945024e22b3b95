// SPDX-License-Identifier: MIT
// What the 4-bit functions of tensors refuse: the message begins with the function and names the argument, and nothing
// was written.
#include "ops/four_bit/api/dequantize_4bit.h"
#include "ops/four_bit/api/matmul_4bit.h"

#include <initializer_list>

#include "../../../cpp/cpu/broken_descriptions.h"
#include "../../../cpp/cpu/check.h"

namespace {

// A weight of 35 elements: an odd count, in two blocks of 32.
constexpr int64_t kM = 3, kN = 5, kK = 7, kRoom = 1040;

enum Function { kMatmul, kDequantize };
constexpr const char* kNames[] = {"kw_matmul_4bit_tensors: ", "kw_dequantize_4bit_tensors: "};
enum { kY, kX, kPacked, kAbsmax, kCodes, kAbsmax2, kMap, kOffset, kBias, kArguments };
constexpr struct {
  const char* name;
  int32_t dtype;
  int64_t count;  // of elements, where they may be in any shape
} kAll[kArguments] = {{"y", KW_FLOAT32, 0},      {"x", KW_FLOAT32, 0},      {"packed", KW_UINT8, 18},
                      {"absmax", KW_FLOAT32, 2}, {"codes", KW_UINT8, 2},    {"absmax2", KW_FLOAT32, 1},
                      {"map", KW_FLOAT32, 256},  {"offset", KW_FLOAT32, 1}, {"bias", KW_FLOAT32, kN}};
constexpr const char* kGaps = "do not follow each other without gaps";

// Arguments of a call that is right; each check breaks one.
struct Call {
  Function function;
  alignas(16) char memory[kArguments][kRoom];
  int64_t sizes[kArguments][3] = {}, strides[kArguments][3] = {};
  kw_tensor described[kArguments];
  const kw_tensor* given[kArguments] = {};
  alignas(16) char space[8192] = {};
  void* workspace = space;
  int64_t bytes = sizeof space;
  int32_t blocksize = 32, type = KW_NF4;

  Call(Function f, bool quantized) : function(f) {
    for (int i = 0; i < kArguments; ++i) {
      for (int64_t k = 0; k < kRoom; ++k) memory[i][k] = static_cast<char>((i + 3 * k) % 61);
      described[i] = {KW_TENSOR, memory[i], sizes[i], strides[i], 1, kAll[i].dtype, KW_CPU};
      sizes[i][0] = kAll[i].count, strides[i][0] = 1;
      const bool scale = i >= kAbsmax && i <= kOffset;
      if (scale ? quantized == (i != kAbsmax) : f == kMatmul || (i != kX && i != kBias)) given[i] = &described[i];
    }
    rows(kY, f == kMatmul ? kM : kN, f == kMatmul ? kN : kK);
    rows(kX, kM, kK);
  }
  Call(const Call&) = delete;
  Call& operator=(const Call&) = delete;

  void rows(int i, int64_t count, int64_t cols) {
    described[i].dims = 2;
    sizes[i][0] = count, sizes[i][1] = cols;
    strides[i][0] = cols, strides[i][1] = 1;
  }
  void keep(std::initializer_list<int> those) {
    for (int i = 0; i < kArguments; ++i) {
      bool kept = false;
      for (const int each : those) kept = kept || each == i;
      if (!kept) given[i] = nullptr;
    }
  }
  kw_status run() const {
    const kw_tensor* const* const t = given;
    return function == kMatmul
               ? kw_matmul_4bit_tensors(nullptr, t[kY], t[kX], t[kPacked], t[kAbsmax], t[kCodes], t[kAbsmax2], t[kMap],
                                        t[kOffset], t[kBias], workspace, bytes, blocksize, type)
               : kw_dequantize_4bit_tensors(nullptr, t[kY], t[kPacked], t[kAbsmax], t[kCodes], t[kAbsmax2], t[kMap],
                                            t[kOffset], blocksize, type);
  }
};

// Changes a right call into one that is refused, in these words.
template <class Break>
void refuse(Function f, bool quantized, const char* words, Break breaks) {
  Call call(f, quantized);
  breaks(call);
  static char before[sizeof call.memory], space[sizeof call.space];
  memcpy(before, call.memory, sizeof before);
  memcpy(space, call.space, sizeof space);
  const kw_status status = call.run();
  CHECK(status == KW_ERROR_INVALID_ARGUMENT, "%swants %s, got status %d", kNames[f], words, status);
  CHECK(strncmp(kw_last_error(), kNames[f], strlen(kNames[f])) == 0 && strstr(kw_last_error(), words),
        "wanted %s%s, got %s", kNames[f], words, kw_last_error());
  CHECK(memcmp(before, call.memory, sizeof before) == 0 && memcmp(space, call.space, sizeof space) == 0,
        "%s%s: refused, and something was written", kNames[f], words);
}

// Changes a right call into another; says whether y was written.
template <class Change>
void accept(Function f, bool quantized, const char* what, bool writes, Change changes) {
  Call call(f, quantized);
  changes(call);
  static char before[kRoom];
  memcpy(before, call.memory[kY], sizeof before);
  const kw_status status = call.run();
  CHECK(status == KW_OK, "%s%s: status %d: %s", kNames[f], what, status, kw_last_error());
  CHECK((memcmp(before, call.memory[kY], sizeof before) != 0) == writes, "%s%s: y was %swritten", kNames[f], what,
        writes ? "not " : "");
}

// The same for one argument, whose name begins the words, in a call that has it.
template <class Break>
void refuse_one(Function f, int i, const char* words, Break breaks) {
  char all[256];
  snprintf(all, sizeof all, "%s %s", kAll[i].name, words);
  refuse(f, i >= kCodes && i <= kOffset, all, [&](Call& c) { breaks(c, c.described[i]); });
}

void check_description(Function f, int i) {
  check_broken_descriptions(i, [=](const char* words, auto breaks) { refuse_one(f, i, words, breaks); });
  if (f != kMatmul || i != kY)
    refuse_one(f, i, "has negative sizes", [=](Call& c, kw_tensor&) { c.sizes[i][0] = -c.sizes[i][0]; });
  if (kAll[i].dtype != KW_UINT8) refuse_one(f, i, "is at", [](Call&, kw_tensor& t) { t.data = moved(t.data, 2); });
  if (i == (f == kMatmul ? kX : kY)) {
    refuse(f, false, " is on device -1, others on 0", [=](Call& c) { c.described[i].device = 0; });
  } else {
    refuse_one(f, i, "is on device 0, others on -1", [](Call&, kw_tensor& t) { t.device = 0; });
  }
}

// Of what is so many elements in any shape.
void check_flat(Function f, int i) {
  const int64_t count = kAll[i].count;
  char words[64];
  snprintf(words, sizeof words, "is not %ld elements of the right type", static_cast<long>(count));
  for (const int64_t other : {count + 1, count - 1, int64_t{0}, 2 * count})
    refuse_one(f, i, words, [=](Call& c, kw_tensor&) { c.sizes[i][0] = other; });
  if (count > 1) refuse_one(f, i, words, [](Call&, kw_tensor& t) { t.dims = 0; });
  for (const int32_t type : {int{KW_FLOAT32}, int{KW_FLOAT16}, int{KW_BFLOAT16}, int{KW_FLOAT64}, int{KW_UINT8}, -1}) {
    if (type != kAll[i].dtype) refuse_one(f, i, words, [=](Call&, kw_tensor& t) { t.dtype = type; });
  }
  snprintf(words, sizeof words, "the elements of %s %s", kAll[i].name, kGaps);
  const bool quantized = i >= kCodes && i <= kOffset;
  for (const int64_t stride : {int64_t{0}, count + 1, -count}) {
    refuse(f, quantized, words, [=](Call& c) {
      c.rows(i, 2, count);
      c.strides[i][0] = stride;
    });
  }
  if (count == 1) return;
  for (const int64_t stride : {0, 2, -1}) refuse(f, quantized, words, [=](Call& c) { c.strides[i][0] = stride; });
  refuse(f, quantized, words, [=](Call& c) { c.rows(i, 2, count), c.strides[i][0] = 1, c.strides[i][1] = 2; });
}

// Which scales there are.
void check_scales(Function f) {
  refuse(f, false, "packed is NULL", [](Call& c) { c.given[kPacked] = nullptr; });
  refuse(f, false, "absmax is NULL", [](Call& c) { c.given[kAbsmax] = nullptr; });
  for (const int i : {int{kCodes}, int{kAbsmax2}, int{kMap}, int{kOffset}}) {
    char words[64];
    snprintf(words, sizeof words, "%s is NULL", kAll[i].name);
    refuse(f, true, words, [=](Call& c) { c.given[i] = nullptr; });
    snprintf(words, sizeof words, "absmax and %s are both given", kAll[i].name);
    refuse(f, false, words, [=](Call& c) { c.given[i] = &c.described[i]; });
  }
  refuse(f, true, "absmax and codes are both given", [](Call& c) { c.given[kAbsmax] = &c.described[kAbsmax]; });
  for (const int32_t size : {0, 1, 16, 31, 48, 8192, -32, INT32_MIN}) {
    char words[64];
    snprintf(words, sizeof words, "blocksize is %d", size);
    refuse(f, false, words, [=](Call& c) { c.blocksize = size; });
  }
  refuse(f, false, "absmax is not 1 elements", [](Call& c) { c.blocksize = 64; });
  for (const int32_t type : {2, -1, INT32_MAX}) {
    char words[64];
    snprintf(words, sizeof words, "quant_type is %d", type);
    refuse(f, false, words, [=](Call& c) { c.type = type; });
  }
  for (const int32_t type : {int{KW_FLOAT64}, int{KW_UINT8}, -1, 7}) {
    char words[64];
    snprintf(words, sizeof words, "dtype is %d", type);
    refuse(f, false, words,
           [=](Call& c) { c.described[kY].dtype = c.described[kX].dtype = c.described[kBias].dtype = type; });
  }
}

void check_rows() {
  constexpr const char* kOther = ", expected (";
  constexpr Function f = kMatmul;
  refuse(f, false, "x is missing, or has no dimension", [](Call& c) { c.given[kX] = nullptr; });
  refuse(f, false, "x is missing, or has no dimension", [](Call& c) { c.described[kX].dims = 0; });
  refuse(f, false, kOther, [](Call& c) { c.given[kY] = nullptr; });
  refuse(f, false, kOther, [](Call& c) { c.described[kY].dims = 0; });
  refuse(f, false, kOther, [](Call& c) { c.described[kY].dims = 1; });
  refuse(f, false, kOther, [](Call& c) { c.sizes[kY][0] = kM - 1; });
  refuse(f, false, kOther, [](Call& c) { c.described[kY].dtype = KW_FLOAT16; });
  refuse(f, false, kOther, [](Call& c) { c.described[kX].dtype = KW_BFLOAT16; });
  refuse(f, false, "bias is not 5 elements",
         [](Call& c) { c.described[kX].dtype = c.described[kY].dtype = KW_FLOAT16; });
  refuse(f, false, "bias is not 6 elements", [](Call& c) { c.rows(kY, kM, kN + 1); });
  refuse(f, false, "packed is not 20 elements", [](Call& c) { c.rows(kX, kM, kK + 1); });
  for (const int i : {int{kX}, int{kY}}) {
    char words[64];
    snprintf(words, sizeof words, "the rows of %s do not follow each other by one stride", kAll[i].name);
    refuse(f, false, words, [=](Call& c) { c.strides[i][1] = 2; });
    refuse(f, false, words, [=](Call& c) { c.strides[i][0] = -kK; });
    refuse(f, false, words, [=](Call& c) { c.strides[i][0] = 1, c.strides[i][1] = kM; });  // transposed
    refuse_one(f, i, "has negative sizes, or reaches farther",
               [=](Call& c, kw_tensor&) { c.strides[i][0] = INT64_MAX; });
  }
  refuse(f, false, "y has negative sizes", [](Call& c) { c.sizes[kY][1] = -kN; });
  for (const int64_t stride : {int64_t{0}, kN - 1}) {
    char words[64];
    snprintf(words, sizeof words, "y_stride is %ld", static_cast<long>(stride));
    refuse(f, false, words, [=](Call& c) { c.strides[kY][0] = stride; });
  }
  accept(f, false, "expanded x", true, [](Call& c) { c.strides[kX][0] = 0; });
  constexpr int64_t kFar = int64_t{1} << 40;  // no weight is so large, though x and y may be
  refuse(f, false, "m, n and k are 3, ",
         [](Call& c) { c.rows(kX, kM, kFar), c.rows(kY, kM, kFar), c.given[kBias] = nullptr; });
}

void check_workspace() {
  constexpr Function f = kMatmul;
  int64_t needed = 0;
  CHECK(kw_matmul_4bit_workspace(KW_CPU, kM, kN, kK, 32, KW_FLOAT32, &needed) == KW_OK && needed > 16 && needed < 8192,
        "%ld bytes: %s", static_cast<long>(needed), kw_last_error());
  refuse(f, false, "workspace is NULL", [](Call& c) { c.workspace = nullptr; });
  refuse(f, false, "workspace is at", [](Call& c) { c.workspace = c.space + 8; });
  for (const int64_t bytes : {needed - 1, int64_t{0}, int64_t{-1}, INT64_MIN}) {
    char words[64];
    snprintf(words, sizeof words, "workspace_bytes is %lld", static_cast<long long>(bytes));
    refuse(f, false, words, [=](Call& c) { c.bytes = bytes; });
  }
  accept(f, true, "as much workspace as is needed", true, [=](Call& c) { c.bytes = needed; });
}

// Without elements nothing is looked for; what is given must be right all the same.
void check_empty() {
  const auto no_workspace = [](Call& c) { c.workspace = nullptr, c.bytes = 0; };
  accept(kMatmul, false, "m = 0", false, [=](Call& c) {
    c.keep({kY, kX}), c.rows(kX, 0, kK), c.rows(kY, 0, kN), no_workspace(c);
    c.described[kX].data = c.described[kY].data = nullptr;
  });
  accept(kMatmul, false, "n = 0", false, [=](Call& c) { c.keep({kY, kX}), c.rows(kY, kM, 0), no_workspace(c); });
  accept(kMatmul, false, "k = 0", true, [=](Call& c) { c.keep({kY, kX, kBias}), c.rows(kX, kM, 0), no_workspace(c); });
  accept(kDequantize, false, "count = 0", false, [](Call& c) { c.keep({kY}), c.sizes[kY][0] = 0; });
  refuse(kMatmul, false, "packed is not 0 elements", [](Call& c) { c.rows(kY, kM, 0), c.given[kBias] = nullptr; });
  refuse(kMatmul, false, "packed is not 18 elements", [](Call& c) {
    c.rows(kX, 0, kK), c.rows(kY, 0, kN);
    c.sizes[kPacked][0] = 17;
  });
  refuse(kDequantize, false, "packed is not 0 elements", [](Call& c) { c.sizes[kY][0] = 0; });
  refuse(kDequantize, false, "y has no memory", [](Call& c) { c.given[kY] = nullptr; });
  refuse(kDequantize, false, "the elements of y do not follow", [](Call& c) { c.strides[kY][0] = kK + 1; });
}

}  // namespace

int main() {
  for (const Function f : {kMatmul, kDequantize}) {
    for (const bool quantized : {false, true}) accept(f, quantized, "all of it", true, [](Call&) {});
    for (int i = 0; i < kArguments; ++i) {
      if (f == kDequantize && (i == kX || i == kBias)) continue;
      check_description(f, i);
      if (i > kX) check_flat(f, i);
    }
    check_scales(f);
    Call call(f, true);  // whoever is on a GPU that is not here is not refused for its arguments
    for (kw_tensor& each : call.described) each.device = 4096;
    const kw_status status = call.run();
    CHECK(status == KW_ERROR_NO_DRIVER || status == KW_ERROR_DRIVER_TOO_OLD || status == KW_ERROR_NO_DEVICE,
          "%son GPU 4096: status %d: %s", kNames[f], status, kw_last_error());
  }
  accept(kMatmul, true, "no bias", true, [](Call& c) { c.given[kBias] = nullptr; });
  check_rows();
  check_workspace();
  check_empty();
  if (failures) fprintf(stderr, "%d failures\n", failures);
  return failures != 0;
}
