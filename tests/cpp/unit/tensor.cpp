// SPDX-License-Identifier: MIT
// read_tensor, rows_of, rows_beside and check_columns: which descriptions of a tensor are rows, and what is refused.
#include "core/tensor.h"

#include <sys/mman.h>

#include "../check.h"
#include "described.h"

namespace {

using kw::check_columns;
using kw::read_tensor;
using kw::rows_beside;
using kw::rows_of;
using kw::TensorRows;

void take(const Described& of, int64_t count, int64_t cols, int64_t stride, int line) {
  TensorRows rows{-7, -7, -7};
  const kw_status status = rows_of("kw_f", "x", of.as, &rows);
  CHECK(status == KW_OK, "line %d: %s", line, kw_last_error());
  CHECK(rows.count == count && rows.cols == cols && rows.stride == stride, "line %d: %lld rows of %lld, %lld apart",
        line, static_cast<long long>(rows.count), static_cast<long long>(rows.cols),
        static_cast<long long>(rows.stride));
}

void refuse(const Described& of, const char* words, int line) {
  TensorRows rows{-7, -7, -7};
  const kw_status status = rows_of("kw_f", "x", of.as, &rows);
  CHECK(status == KW_ERROR_INVALID_ARGUMENT && strncmp(kw_last_error(), "kw_f: ", 6) == 0 &&
            strstr(kw_last_error(), words) != nullptr,
        "line %d: status %d, %s", line, status, status == KW_OK ? "accepted" : kw_last_error());
  CHECK(rows.count == -7 && rows.cols == -7 && rows.stride == -7, "line %d: refused, and written", line);
}

#define TAKE(count, cols, stride, ...) take(Described __VA_ARGS__, count, cols, stride, __LINE__)
#define REFUSE(words, ...) refuse(Described __VA_ARGS__, words, __LINE__)
constexpr const char* kUneven = "the rows of x do not follow each other by one stride";
constexpr const char* kTooFar = "x has negative sizes, or reaches farther than there are addresses";

void refuse_read(const kw_tensor* tensor, const char* words, int line) {
  kw_tensor found;
  const kw_status status = read_tensor("kw_f", "x", tensor, &found);
  CHECK(status == KW_ERROR_INVALID_ARGUMENT && strncmp(kw_last_error(), "kw_f: x ", 8) == 0 &&
            strstr(kw_last_error(), words) != nullptr,
        "line %d: status %d, %s", line, status, status == KW_OK ? "accepted" : kw_last_error());
}

}  // namespace

CASE(a_description_is_taken_as_it_is) {
  const Described x({2, 3}, {5, 1});
  kw_tensor found{};
  CHECK(read_tensor("kw_f", "x", &x.as, &found) == KW_OK, "%s", kw_last_error());
  CHECK(found.kind == KW_TENSOR && found.data == memory && found.sizes == x.sizes && found.strides == x.strides &&
            found.dims == 2 && found.dtype == KW_FLOAT32 && found.device == KW_CPU,
        "a member is another");
  found = {};
  CHECK(kw_read_tensor(&x.as, &found) == KW_OK && found.sizes == x.sizes && found.dims == 2, "%s", kw_last_error());
  kw_tensor other = x.as;  // element types that no function takes, GPUs that are not here: not asked yet
  other.dtype = 77, other.device = 63;
  CHECK(read_tensor("kw_f", "x", &other, &found) == KW_OK && found.dtype == 77 && found.device == 63, "%s",
        kw_last_error());
  other = {KW_TENSOR, nullptr, nullptr, nullptr, 0, KW_FLOAT64, KW_CPU};  // one number
  CHECK(read_tensor("kw_f", "x", &other, &found) == KW_OK && found.dims == 0, "%s", kw_last_error());
}

CASE(what_is_left_out_has_no_dimensions) {
  kw_tensor found{0, memory, nullptr, nullptr, 9, KW_FLOAT16, 5};
  CHECK(read_tensor("kw_f", "x", nullptr, &found) == KW_OK, "%s", kw_last_error());
  CHECK(found.data == nullptr && found.dims == 0 && found.dtype == kw::kOtherType && found.device == KW_CPU,
        "it has %lld dimensions", static_cast<long long>(found.dims));
  TensorRows rows;
  CHECK_STATUS(rows_of("kw_f", "x", found, &rows), KW_ERROR_INVALID_ARGUMENT, kw_last_error(), "kw_f: x is missing");
  CHECK_STATUS(kw_read_tensor(nullptr, &found), KW_ERROR_INVALID_ARGUMENT, kw_last_error(),
               "kw_read_tensor: tensor is NULL");
  const Described x({2, 3}, {3, 1});
  CHECK_STATUS(kw_read_tensor(&x.as, nullptr), KW_ERROR_INVALID_ARGUMENT, kw_last_error(),
               "kw_read_tensor: found is NULL");
  for (const uintptr_t off : {uintptr_t{1}, uintptr_t{4}}) {
    auto* const odd = reinterpret_cast<kw_tensor*>(reinterpret_cast<uintptr_t>(&found) + off);
    CHECK_STATUS(kw_read_tensor(&x.as, odd), KW_ERROR_INVALID_ARGUMENT, kw_last_error(), "kw_read_tensor: found is at");
  }
}

CASE(what_is_no_description_is_refused) {
  const Described x({2, 3}, {3, 1});
  const auto broken = [&](auto&& breaks, const char* words, int line) {
    kw_tensor tensor = x.as;
    breaks(tensor);
    refuse_read(&tensor, words, line);
  };
  for (const uintptr_t off : {uintptr_t{1}, uintptr_t{4}, uintptr_t{7}}) {
    refuse_read(reinterpret_cast<const kw_tensor*>(reinterpret_cast<uintptr_t>(&x.as) + off), "a multiple of 8",
                __LINE__);
  }
  broken([](kw_tensor& t) { t.kind = 0; }, "no kw_tensor (kind is 0)", __LINE__);
  broken([](kw_tensor& t) { t.kind = 2; }, "kind is 2", __LINE__);
  broken([](kw_tensor& t) { t.kind = kLeast; }, "kind is -9223372036854775808", __LINE__);
  broken([](kw_tensor& t) { t.kind = (int64_t{1} << 32) + 1; }, "kind is 4294967297", __LINE__);
  broken([](kw_tensor& t) { t.dims = -1; }, "has -1 dimensions", __LINE__);
  broken([](kw_tensor& t) { t.dims = kLeast; }, "has -9223372036854775808 dimensions", __LINE__);
  broken([](kw_tensor& t) { t.dims = kMost; }, "has 9223372036854775807 dimensions", __LINE__);
  broken([](kw_tensor& t) { t.dims = 1025; }, "has 1025 dimensions", __LINE__);
  broken([](kw_tensor& t) { t.sizes = nullptr; }, "no sizes", __LINE__);
  broken([](kw_tensor& t) { t.strides = nullptr; }, "no strides", __LINE__);
  broken([](kw_tensor& t) { t.device = -2; }, "is on device -2", __LINE__);
  broken([](kw_tensor& t) { t.device = INT32_MIN; }, "is on device -2147483648", __LINE__);
  kw_tensor found{}, wrong = x.as;
  wrong.kind = 3;
  CHECK_STATUS(kw_read_tensor(&wrong, &found), KW_ERROR_INVALID_ARGUMENT, kw_last_error(),
               "kw_read_tensor: tensor is no kw_tensor (kind is 3)");
}

CASE(rows_lie_by_one_stride) {
  TAKE(1, 5, 5, ({5}, {1}));
  TAKE(1, 1, 1, ({1}, {77}));  // of one element nothing is asked
  TAKE(4, 5, 5, ({4, 5}, {5, 1}));
  TAKE(4, 5, 9, ({4, 5}, {9, 1}));  // sliced
  TAKE(4, 5, 3, ({4, 5}, {3, 1}));  // rows that overlap may be read
  TAKE(4, 5, 0, ({4, 5}, {0, 1}));  // expanded
  TAKE(6, 5, 5, ({2, 3, 5}, {15, 5, 1}));
  TAKE(6, 5, 8, ({2, 3, 5}, {24, 8, 1}));
  TAKE(6, 5, 0, ({2, 3, 5}, {0, 0, 1}));
  TAKE(24, 7, 8, ({2, 3, 4, 7}, {96, 32, 8, 1}));
  TAKE(4, 1, 3, ({4, 1}, {3, 99}));  // one column of three
}

CASE(strides_of_sizes_of_one_say_nothing) {
  TAKE(1, 5, 5, ({1, 5}, {kMost, 1}));
  TAKE(1, 5, 5, ({1, 1, 1, 5}, {kLeast, -1, 0, 1}));
  TAKE(3, 5, 9, ({1, 3, 5}, {-4, 9, 1}));
  TAKE(3, 5, 9, ({3, 1, 5}, {9, 4, 1}));
  TAKE(6, 5, 9, ({2, 1, 3, 5}, {27, kMost, 9, 1}));
  TAKE(0, 5, kMost, ({2, 0, 5}, {kMost, kMost, 1}));  // what is not there lies nowhere
  TAKE(8, 0, kMost, ({8, 0}, {kMost, 1}));
  TAKE(3, 1, 2, ({3, 1}, {2, kLeast}));
}

CASE(other_ways_to_lie_are_refused) {
  REFUSE(kUneven, ({5, 4}, {1, 5}));         // transposed
  REFUSE(kUneven, ({4, 3}, {6, 2}));         // every second column
  REFUSE(kUneven, ({3}, {2}));               // the same of one row
  REFUSE(kUneven, ({3}, {0}));               // one element, expanded
  REFUSE(kUneven, ({2, 3, 5}, {5, 10, 1}));  // its first dimensions exchanged
  REFUSE(kUneven, ({2, 3, 5}, {0, 5, 1}));   // expanded over some rows
  REFUSE(kUneven, ({2, 3, 5}, {16, 5, 1}));  // sliced in the middle
  REFUSE(kUneven, ({2, 1, 3, 5}, {16, 3, 5, 1}));
  REFUSE(kUneven, ({4, 5}, {-5, 1}));  // backwards
  REFUSE(kUneven, ({4, 5}, {5, -1}));
  REFUSE(kUneven, ({4, 5}, {kLeast / 8, 1}));
}

CASE(of_no_elements_no_stride_is_asked) {
  TAKE(0, 5, 5, ({0, 5}, {5, 1}));
  TAKE(4, 0, 1, ({4, 0}, {1, 1}));
  TAKE(1, 0, 0, ({0}, {1}));
  TAKE(0, 5, 2, ({0, 5}, {2, 3}));
  TAKE(0, 5, 7, ({3, 0, 5}, {99, 7, 1}));
  TAKE(0, 5, -7, ({0, 3, 5}, {4, -7, 2}));
  TAKE(0, 0, 0, ({0, 0}, {0, 0}));
}

CASE(sizes_that_no_memory_has_are_refused) {
  REFUSE(kTooFar, ({-1}, {1}));
  REFUSE(kTooFar, ({kLeast}, {1}));
  REFUSE(kTooFar, ({-1, 5}, {5, 1}));
  REFUSE(kTooFar, ({-1, -1, 5}, {5, 5, 1}));  // a product that is positive
  REFUSE(kTooFar, ({0, -1, 5}, {5, 5, 1}));
  REFUSE(kTooFar, ({4, -5}, {5, 1}));
  REFUSE(kTooFar, ({kMost}, {1}));
  REFUSE(kTooFar, ({kReach + 1}, {1}));
  REFUSE(kTooFar, ({kMost, 5}, {5, 1}));
  REFUSE(kTooFar, ({kMost, kMost, 5}, {0, 0, 1}));
  REFUSE(kTooFar, ({kReach / 4, 5}, {0, 1}));                       // too many elements, though in little memory
  REFUSE(kTooFar, ({int64_t{1} << 33, int64_t{1} << 33}, {0, 1}));  // 2^66 of them: none, in 64 bits
  TAKE(1, kReach, kReach, ({kReach}, {1}));
  TAKE(kReach / 4, 4, 4, ({kReach / 4, 4}, {4, 1}));
}

CASE(strides_that_leave_memory_are_refused) {
  REFUSE(kTooFar, ({2, 5}, {kMost, 1}));
  REFUSE(kTooFar, ({2, 5}, {kLeast, 1}));
  REFUSE(kTooFar, ({2, 5}, {kReach, 1}));
  REFUSE(kTooFar, ({1 << 20, 5}, {int64_t{1} << 44, 1}));  // 2^64 in all: nothing, in 64 bits
  REFUSE(kTooFar, ({2, 3, 5}, {kMost, kMost / 2, 1}));
  REFUSE(kTooFar, ({kReach / 8, 4}, {9, 1}));
  TAKE(kReach / 8, 4, 8, ({kReach / 8, 4}, {8, 1}));
  TAKE(2, 5, kReach / 2, ({2, 5}, {kReach / 2, 1}));
  Described x({4, 5}, {5, kMost});  // of the last dimension only 1 will do, and it is not multiplied
  refuse(x, kUneven, __LINE__);
}

CASE(memory_is_asked_for_where_there_are_elements) {
  Described some({4, 5}, {5, 1}), none({0, 5}, {5, 1}), flat({4, 0}, {0, 1});
  some.as.data = none.as.data = flat.as.data = nullptr;
  refuse(some, "x has no memory", __LINE__);
  take(none, 0, 5, 5, __LINE__);
  take(flat, 4, 0, 0, __LINE__);
}

// Nothing is read but `dims` sizes and strides, which a sanitizer sees, and nothing of what the tensor holds.
CASE(nothing_else_is_read) {
  auto* const numbers = static_cast<int64_t*>(malloc(4 * sizeof(int64_t)));
  void* const locked = mmap(nullptr, 4096, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  numbers[0] = 3, numbers[1] = 4, numbers[2] = 4, numbers[3] = 1;
  auto* const x = static_cast<kw_tensor*>(malloc(sizeof(kw_tensor)));
  *x = {KW_TENSOR, locked, numbers, numbers + 2, 2, KW_FLOAT32, KW_CPU};
  kw_tensor found{};
  TensorRows rows{};
  CHECK(read_tensor("kw_f", "x", x, &found) == KW_OK, "%s", kw_last_error());
  free(x);  // what was found is a copy
  CHECK(rows_of("kw_f", "x", found, &rows) == KW_OK && rows.count == 3, "%s", kw_last_error());
  CHECK(rows_beside("kw_f", "y", found, found, 4, &rows) == KW_OK && rows.stride == 4, "%s", kw_last_error());
  const kw_tensor column{KW_TENSOR, found.data, numbers + 1, numbers + 3, 1, KW_FLOAT32, KW_CPU};
  CHECK(check_columns("kw_f", "weight", column, found, rows, true) == KW_OK, "%s", kw_last_error());
  free(numbers);
}

CASE(rows_beside_others) {
  const Described base({2, 3, 4}, {12, 4, 1});
  const auto beside = [&](const Described& tensor, int64_t cols, int64_t stride, int line) {
    TensorRows rows{};
    CHECK(rows_beside("kw_f", "y", tensor.as, base.as, cols, &rows) == KW_OK, "line %d: %s", line, kw_last_error());
    CHECK(rows.count == 6 && rows.cols == cols && rows.stride == stride, "line %d: stride %lld", line,
          static_cast<long long>(rows.stride));
  };
  const auto refused = [&](const kw_tensor& tensor, int64_t cols, const char* words, int line) {
    TensorRows rows{};
    const kw_status status = rows_beside("kw_f", "y", tensor, base.as, cols, &rows);
    CHECK(status == KW_ERROR_INVALID_ARGUMENT && strstr(kw_last_error(), "kw_f: ") == kw_last_error() &&
              strstr(kw_last_error(), words),
          "line %d: status %d, %s", line, status, kw_last_error());
  };
  constexpr const char* kOther = ", expected (2, 3, 4) of float32";
  beside(base, 4, 4, __LINE__);
  beside(Described({2, 3, 4}, {27, 9, 1}), 4, 9, __LINE__);  // lies otherwise
  beside(Described({2, 3, 8}, {24, 8, 1}), 8, 8, __LINE__);  // has twice the columns, as was wanted
  refused(base.as, 8, "y is (2, 3, 4) of float32, expected (2, 3, 8) of float32", __LINE__);
  for (const auto& size :
       {Described({3, 2, 4}, {8, 4, 1}), Described({2, 2, 4}, {8, 4, 1}), Described({6, 4}, {4, 1}),
        Described({1, 2, 3, 4}, {24, 12, 4, 1}), Described({4}, {1}), Described({}, {}),
        Described({2, 3, 5}, {15, 5, 1}), Described({-2, 3, 4}, {12, 4, 1}), Described({kMost, 3, 4}, {12, 4, 1})}) {
    refused(size.as, 4, kOther, __LINE__);
  }
  kw_tensor other = base.as;
  other.dtype = KW_BFLOAT16;
  refused(other, 4, "y is (2, 3, 4) of bfloat16, expected (2, 3, 4) of float32", __LINE__);
  other = base.as, other.device = 0;
  refused(other, 4, "y is on device 0, others on -1", __LINE__);
  other = base.as, other.data = nullptr;
  refused(other, 4, "y has no memory", __LINE__);
  refused(Described({2, 3, 4}, {4, 8, 1}).as, 4, "the rows of y do not follow", __LINE__);
  const kw_tensor none{KW_TENSOR, nullptr, nullptr, nullptr, 0, kw::kOtherType, KW_CPU};
  refused(none, 4, "y is () of another type, expected (2, 3, 4) of float32", __LINE__);
}

CASE(columns) {
  const Described base({2, 3, 4}, {12, 4, 1}), one({4}, {1}), narrow({1}, {kMost});
  const TensorRows rows{6, 4, 4};
  const auto refused = [&](const kw_tensor& tensor, const TensorRows& of, const char* words, int line) {
    const kw_status status = check_columns("kw_f", "weight", tensor, base.as, of, true);
    CHECK(status == KW_ERROR_INVALID_ARGUMENT && strstr(kw_last_error(), "kw_f: weight ") == kw_last_error() &&
              strstr(kw_last_error(), words),
          "line %d: status %d, %s", line, status, kw_last_error());
  };
  CHECK(check_columns("kw_f", "weight", one.as, base.as, rows, true) == KW_OK, "%s", kw_last_error());
  CHECK(check_columns("kw_f", "weight", narrow.as, base.as, {6, 1, 1}, true) == KW_OK, "one column: %s",
        kw_last_error());
  constexpr const char* kOther = "is not one row of 4 elements without gaps";
  for (const auto& shape : {Described({5}, {1}), Described({3}, {1}), Described({-4}, {1}), Described({4}, {2}),
                            Described({4}, {0}), Described({4}, {-1}), Described({1, 4}, {4, 1}),
                            Described({4, 1}, {1, 1}), Described({}, {}), Described({kMost}, {1})}) {
    refused(shape.as, rows, kOther, __LINE__);
  }
  kw_tensor other = one.as;
  other.dtype = 77;  // the operators ask for its type
  CHECK(check_columns("kw_f", "weight", other, base.as, rows, true) == KW_OK, "%s", kw_last_error());
  other = one.as, other.device = 3;
  refused(other, rows, "is on device 3, others on -1", __LINE__);
  other = one.as, other.data = nullptr;
  refused(other, rows, "has no memory", __LINE__);
  refused(other, {0, 4, 4}, "has no memory", __LINE__);  // of no rows too: sums over them are written
  CHECK(check_columns("kw_f", "weight", other, base.as, {0, 4, 4}, false) == KW_OK, "not read: %s", kw_last_error());
  CHECK(check_columns("kw_f", "weight", other, base.as, rows, false) != KW_OK, "read where it is not");
}

RUN_CASES()
