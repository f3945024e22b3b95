// SPDX-License-Identifier: MIT
// count_of and check_flat: which descriptions of a tensor are elements without a gap, how many, and what is refused.
#include <sys/mman.h>

#include "../check.h"
#include "core/tensor.h"
#include "described.h"

namespace {

using kw::check_flat;
using kw::count_of;

void take(const Described& of, int64_t count, int line) {
  int64_t found = -7;
  const kw_status status = count_of("kw_f", "x", of.as, true, &found);
  CHECK(status == KW_OK, "line %d: %s", line, kw_last_error());
  CHECK(found == count, "line %d: %lld elements", line, static_cast<long long>(found));
}

void refuse(const Described& of, const char* words, int line) {
  int64_t found = -7;
  const kw_status status = count_of("kw_f", "x", of.as, true, &found);
  CHECK(status == KW_ERROR_INVALID_ARGUMENT && strncmp(kw_last_error(), "kw_f: ", 6) == 0 &&
            strstr(kw_last_error(), words) != nullptr,
        "line %d: status %d, %s", line, status, status == KW_OK ? "accepted" : kw_last_error());
  CHECK(found == -7, "line %d: refused, and written", line);
}

#define TAKE(count, ...) take(Described __VA_ARGS__, count, __LINE__)
#define REFUSE(words, ...) refuse(Described __VA_ARGS__, words, __LINE__)
constexpr const char* kGaps = "the elements of x do not follow each other without gaps";
constexpr const char* kTooFar = "x has negative sizes, or reaches farther than there are addresses";

// `words` are nullptr where it is accepted.
void flat(const kw_tensor& tensor, const kw_tensor& other, int32_t dtype, int64_t count, const char* words, int line) {
  const kw_status status = check_flat("kw_f", "absmax", tensor, other, dtype, count, true);
  if (words == nullptr) {
    CHECK(status == KW_OK, "line %d: %s", line, kw_last_error());
    return;
  }
  CHECK(status == KW_ERROR_INVALID_ARGUMENT && strncmp(kw_last_error(), "kw_f: ", 6) == 0 &&
            strstr(kw_last_error(), words) != nullptr,
        "line %d: status %d, %s", line, status, status == KW_OK ? "accepted" : kw_last_error());
}

}  // namespace

CASE(elements_without_gaps_are_counted) {
  TAKE(1, ({}, {}));  // one number
  TAKE(1, ({1}, {1}));
  TAKE(5, ({5}, {1}));
  TAKE(20, ({4, 5}, {5, 1}));
  TAKE(30, ({2, 3, 5}, {15, 5, 1}));
  TAKE(120, ({2, 3, 4, 5}, {60, 20, 5, 1}));
  kw_tensor number{KW_TENSOR, memory, nullptr, nullptr, 0, KW_FLOAT64, KW_CPU};
  int64_t count = -7;
  CHECK(count_of("kw_f", "x", number, true, &count) == KW_OK && count == 1, "%s", kw_last_error());
}

CASE(strides_of_sizes_of_one_say_nothing_here) {
  for (const int64_t stride : {kLeast, int64_t{-1}, int64_t{0}, int64_t{77}, kMost}) {
    take(Described({1}, {stride}), 1, __LINE__);
    take(Described({5, 1}, {1, stride}), 5, __LINE__);
    take(Described({1, 5}, {stride, 1}), 5, __LINE__);
    take(Described({4, 1, 5}, {5, stride, 1}), 20, __LINE__);
    take(Described({1, 1, 1, 1}, {stride, stride, stride, stride}), 1, __LINE__);
  }
}

CASE(of_none_no_stride_is_asked) {
  TAKE(0, ({0}, {77}));
  TAKE(0, ({0, 5}, {kLeast, 9}));
  TAKE(0, ({5, 0}, {kMost, -1}));
  TAKE(0, ({3, 0, 5}, {99, 7, 4}));
  TAKE(0, ({0, 0, 0, 0}, {0, 0, 0, 0}));
}

CASE(gaps_are_refused) {
  REFUSE(kGaps, ({5}, {2}));
  REFUSE(kGaps, ({2}, {kMost}));
  REFUSE(kGaps, ({4, 5}, {9, 1}));  // sliced
  REFUSE(kGaps, ({4, 1}, {3, 1}));  // one column of three
  REFUSE(kGaps, ({4, 3}, {6, 2}));  // every second column
  REFUSE(kGaps, ({4, 3}, {3, 2}));  // only the last dimension has gaps
  REFUSE(kGaps, ({2, 3, 5}, {16, 5, 1}));
  REFUSE(kGaps, ({2, 3, 5}, {15, 9, 1}));
  REFUSE(kGaps, ({2, 1, 3, 5}, {16, 3, 5, 1}));
}

CASE(another_order_is_refused) {
  REFUSE(kGaps, ({5, 4}, {1, 5}));  // transposed
  REFUSE(kGaps, ({2, 3, 5}, {5, 10, 1}));
  REFUSE(kGaps, ({5}, {-1}));  // backwards
  REFUSE(kGaps, ({4, 5}, {-5, 1}));
  REFUSE(kGaps, ({2}, {kLeast}));
}

CASE(elements_in_one_place_are_refused) {
  REFUSE(kGaps, ({5}, {0}));
  REFUSE(kGaps, ({4, 5}, {0, 1}));
  REFUSE(kGaps, ({4, 5}, {1, 0}));
  REFUSE(kGaps, ({4, 5}, {3, 1}));  // rows that overlap
  REFUSE(kGaps, ({2, 3, 5}, {5, 5, 1}));
}

CASE(numbers_of_elements_that_no_memory_has_are_refused) {
  REFUSE(kTooFar, ({-1}, {1}));
  REFUSE(kTooFar, ({kLeast}, {1}));
  REFUSE(kTooFar, ({-1, -1}, {-1, 1}));  // a product that is positive
  REFUSE(kTooFar, ({-2, -3, 5}, {-15, 5, 1}));
  REFUSE(kTooFar, ({0, -1}, {1, 1}));
  REFUSE(kTooFar, ({-1, 0}, {1, 1}));
  REFUSE(kTooFar, ({4, -5}, {-5, 1}));
  REFUSE(kTooFar, ({kMost}, {1}));
  REFUSE(kTooFar, ({kReach + 1}, {1}));
  REFUSE(kTooFar, ({2, kReach}, {kReach, 1}));
  REFUSE(kTooFar, ({int64_t{1} << 33, int64_t{1} << 33}, {int64_t{1} << 33, 1}));  // 2^66: none, in 64 bits
  REFUSE(kTooFar, ({5, int64_t{1} << 32, int64_t{1} << 32}, {0, int64_t{1} << 32, 1}));
  TAKE(kReach, ({kReach}, {1}));
  TAKE(kReach, ({2, kReach / 2}, {kReach / 2, 1}));
}

CASE(without_memory) {
  Described number({}, {}), some({4, 5}, {5, 1}), none({0, 5}, {5, 1});
  number.as.data = some.as.data = none.as.data = nullptr;
  refuse(number, "x has no memory", __LINE__);
  refuse(some, "x has no memory", __LINE__);
  take(none, 0, __LINE__);
}

// `dims` sizes and strides, which a sanitizer sees, and nothing of what the tensor holds.
CASE(nothing_else_is_read_of_it) {
  auto* const numbers = static_cast<int64_t*>(malloc(4 * sizeof(int64_t)));
  void* const locked = mmap(nullptr, 4096, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  numbers[0] = 3, numbers[1] = 4, numbers[2] = 4, numbers[3] = 1;
  const kw_tensor x{KW_TENSOR, locked, numbers, numbers + 2, 2, KW_UINT8, KW_CPU};
  int64_t count = -7;
  CHECK(count_of("kw_f", "x", x, true, &count) == KW_OK && count == 12, "%s", kw_last_error());
  flat(x, x, KW_UINT8, 12, nullptr, __LINE__);
  munmap(locked, 4096);
  free(numbers);
}

CASE(flat_in_any_shape) {
  const Described other({2, 3, 4}, {12, 4, 1});
  for (const auto& shape : {Described({6}, {1}), Described({6, 1}, {1, 77}), Described({1, 6}, {-4, 1}),
                            Described({2, 3}, {3, 1}), Described({1, 3, 2, 1}, {0, 2, 1, 0})}) {
    flat(shape.as, other.as, KW_FLOAT32, 6, nullptr, __LINE__);
  }
  flat(Described({}, {}).as, other.as, KW_FLOAT32, 1, nullptr, __LINE__);
  kw_tensor none = Described({0, 3}, {9, 9}).as;
  none.data = nullptr;
  const int64_t sizes[] = {0, 3}, strides[] = {9, 9};
  none.sizes = sizes, none.strides = strides;
  flat(none, other.as, KW_FLOAT32, 0, nullptr, __LINE__);
}

CASE(flat_but_not_what_was_wanted) {
  const Described other({2, 3, 4}, {12, 4, 1}), six({2, 3}, {3, 1}), none({0}, {1});
  constexpr const char* kSix = "absmax is not 6 elements of the right type";
  flat(Described({5}, {1}).as, other.as, KW_FLOAT32, 6, kSix, __LINE__);
  flat(Described({7}, {1}).as, other.as, KW_FLOAT32, 6, kSix, __LINE__);
  flat(Described({}, {}).as, other.as, KW_FLOAT32, 6, kSix, __LINE__);
  flat(none.as, other.as, KW_FLOAT32, 6, kSix, __LINE__);
  flat(six.as, other.as, KW_FLOAT32, 0, "absmax is not 0 elements", __LINE__);
  flat(Described({}, {}).as, other.as, KW_FLOAT32, 0, "absmax is not 0 elements", __LINE__);
  flat(six.as, other.as, KW_UINT8, 6, kSix, __LINE__);
  flat(none.as, other.as, KW_UINT8, 0, "absmax is not 0 elements of the right type", __LINE__);
  for (const int32_t type : {int{KW_FLOAT16}, int{KW_BFLOAT16}, int{KW_FLOAT64}, int{KW_UINT8}, -1, 77}) {
    kw_tensor tensor = six.as;
    tensor.dtype = type;
    flat(tensor, other.as, KW_FLOAT32, 6, kSix, __LINE__);
    flat(tensor, other.as, type, 6, nullptr, __LINE__);  // whatever was wanted; the type of the other is not asked
  }
}

CASE(flat_elsewhere_or_not_flat) {
  const Described other({2, 3, 4}, {12, 4, 1}), six({2, 3}, {3, 1});
  kw_tensor tensor = six.as;
  tensor.device = 3;
  flat(tensor, other.as, KW_FLOAT32, 6, "absmax is on device 3, others on -1", __LINE__);
  kw_tensor there = other.as;
  there.device = 3;
  flat(tensor, there, KW_FLOAT32, 6, nullptr, __LINE__);
  flat(six.as, there, KW_FLOAT32, 6, "absmax is on device -1, others on 3", __LINE__);
  tensor = six.as, tensor.data = nullptr;
  flat(tensor, other.as, KW_FLOAT32, 6, "absmax has no memory", __LINE__);
  CHECK(check_flat("kw_f", "absmax", tensor, other.as, KW_FLOAT32, 6, false) == KW_OK, "%s", kw_last_error());
  CHECK(check_flat("kw_f", "absmax", tensor, other.as, KW_FLOAT32, 5, false) != KW_OK, "not used, but another count");

  constexpr const char* kFlat = "the elements of absmax do not follow each other without gaps";
  for (const auto& shape : {Described({2, 3}, {4, 1}), Described({2, 3}, {1, 2}), Described({6}, {0}),
                            Described({6}, {2}), Described({6}, {-1})}) {
    flat(shape.as, other.as, KW_FLOAT32, 6, kFlat, __LINE__);
  }
  flat(Described({-6}, {1}).as, other.as, KW_FLOAT32, 6, "absmax has negative sizes", __LINE__);
  flat(Described({-6}, {1}).as, other.as, KW_FLOAT32, -6, "absmax has negative sizes", __LINE__);
}

RUN_CASES()
