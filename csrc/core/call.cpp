// SPDX-License-Identifier: MIT
// A call of any function whose arguments come in memory. On x86-64 and AArch64 (System V, AAPCS64) whole numbers and
// pointers are counted apart from doubles: each takes the next register of its kind, and when those are used up the
// next eight bytes of the stack. So one call with room for all serves every function, which does not look at the rest.
#include <string.h>

#include "core/error.h"

#if !(defined(__linux__) && (defined(__x86_64__) || defined(__aarch64__)))
#error "say here how arguments are passed on this platform"
#endif

namespace {

using Function = kw_status (*)(int64_t, int64_t, int64_t, int64_t, int64_t, int64_t, int64_t, int64_t, int64_t, int64_t,
                               int64_t, int64_t, int64_t, int64_t, int64_t, int64_t, int64_t, int64_t, int64_t, int64_t,
                               int64_t, int64_t, double, double, double, double, double, double, double, double);

struct Call {
  Function function;
  int64_t i[22];
  double d[8];
};

}  // namespace

kw_status kw_call(const void* call) {
  if (call == nullptr) return kw::fail(KW_ERROR_INVALID_ARGUMENT, "kw_call: call is NULL");
  Call c;
  memcpy(&c, call, sizeof c);
  if (c.function == nullptr) return kw::fail(KW_ERROR_INVALID_ARGUMENT, "kw_call: the function is NULL");
  const int64_t* const i = c.i;
  const double* const d = c.d;
  return c.function(i[0], i[1], i[2], i[3], i[4], i[5], i[6], i[7], i[8], i[9], i[10], i[11], i[12], i[13], i[14],
                    i[15], i[16], i[17], i[18], i[19], i[20], i[21], d[0], d[1], d[2], d[3], d[4], d[5], d[6], d[7]);
}
