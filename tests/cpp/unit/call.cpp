// SPDX-License-Identifier: MIT
// kw_call: every argument of a call that is written in memory arrives, in registers and on the stack, whatever its
// kind.
#include <limits.h>

#include "../check.h"
#include "core/error.h"

static bool same(double a, double b) { return a == b; }

static kw_status widest(int32_t a, void* b, const void* c, int64_t d, int32_t e, int32_t f, int64_t g, int32_t h,
                        void* i, int32_t j, int64_t k, int64_t l, int64_t m, int64_t n, int64_t o, int64_t p, int64_t q,
                        int64_t r, int64_t s, int64_t t, int32_t u, int64_t v, double w) {
  CHECK(a == -1 && b == nullptr && d == INT64_MIN && e == 5 && f == INT32_MIN && g == 7, "in registers or near them");
  CHECK(c == reinterpret_cast<const void*>(0x7fffffffffff), "a pointer became %p", c);
  CHECK(h == -8 && i == reinterpret_cast<void*>(9) && j == -10 && k == 11 && l == 12 && m == 13, "on the stack");
  CHECK(n == 14 && o == 15 && p == 16 && q == 17 && r == 18 && s == 19 && t == INT64_MAX, "farther up");
  CHECK(u == INT32_MAX && v == 22, "the last ones: %d and %lld", u, static_cast<long long>(v));
  CHECK(same(w, -0.5), "the double became %g", w);
  return 23;
}

static kw_status narrow(double a, int32_t b) {
  CHECK(same(a, 1e-6) && b == -3, "got %g and %d", a, b);
  return KW_OK;
}

static kw_status several(double a, int64_t b, double c, double d, double e, double f, double g, double h, double i) {
  CHECK(same(a, 1) && same(c, 2) && same(d, 3) && same(e, 4), "doubles became %g %g %g %g", a, c, d, e);
  CHECK(same(f, 5) && same(g, 6) && same(h, 7) && same(i, 8) && b == -9, "doubles became %g %g %g %g", f, g, h, i);
  return KW_OK;
}

static kw_status none() { return KW_ERROR_SYSTEM; }

struct Written {
  const void* function;
  int64_t whole[22];
  double real[8];
};

CASE(every_argument_arrives) {
  const int64_t whole[22] = {-1, 0,  0x7fffffffffff, INT64_MIN, 5, INT32_MIN, 7, -8, 9, -10, 11, 12, 13, 14, 15, 16, 17,
                             18, 19, INT64_MAX,      INT32_MAX, 22};
  Written call{reinterpret_cast<const void*>(&widest), {}, {-0.5}};
  memcpy(call.whole, whole, sizeof whole);
  CHECK(kw_call(&call) == 23, "the status is another");
  call = {reinterpret_cast<const void*>(&narrow), {-3}, {1e-6}};
  CHECK(kw_call(&call) == KW_OK, "the status is another");
  call = {reinterpret_cast<const void*>(&several), {-9}, {1, 2, 3, 4, 5, 6, 7, 8}};
  CHECK(kw_call(&call) == KW_OK, "the status is another");
  call.function = reinterpret_cast<const void*>(&none);
  CHECK(kw_call(&call) == KW_ERROR_SYSTEM, "the status is another");
}

CASE(of_the_library) {
  int32_t count = -1;
  Written call{reinterpret_cast<const void*>(&kw_device_count), {reinterpret_cast<int64_t>(&count)}, {}};
  const kw_status status = kw_device_count(&count);
  count = -1;
  CHECK(kw_call(&call) == status && count >= 0, "kw_device_count: %d devices", count);
  call.whole[0] = 0;
  CHECK_STATUS(kw_call(&call), KW_ERROR_INVALID_ARGUMENT, kw_last_error(), "kw_device_count");
  CHECK_STATUS(kw_call(nullptr), KW_ERROR_INVALID_ARGUMENT, kw_last_error(), "kw_call: call is NULL");
  call.function = nullptr;
  CHECK_STATUS(kw_call(&call), KW_ERROR_INVALID_ARGUMENT, kw_last_error(), "kw_call: the function is NULL");
}

RUN_CASES()
