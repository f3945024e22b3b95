// SPDX-License-Identifier: MIT
// Numbers in text, beside what the C library reads.
#include "core/number.h"

#include <errno.h>
#include <stdlib.h>

#include "../check.h"

static void as_the_c_library(const char* text) {
  char* theirs = nullptr;
  errno = 0;
  const long long expected = strtoll(text, &theirs, 10);
  const bool fits = errno == 0 && theirs != text;
  const char* ours = nullptr;
  long long number = 77;
  const bool is_one = kw::read_number(text, &ours, &number);
  CHECK(is_one == fits, "\"%s\": %s a number, and the C library says otherwise", text, is_one ? "is" : "is not");
  CHECK(ours == theirs, "\"%s\": \"%s\" is left, and the C library leaves \"%s\"", text, ours, theirs);
  CHECK(number == (fits ? expected : 77), "\"%s\" is %lld", text, number);
}

CASE(number) {
  for (const char* text : {"0",
                           "7",
                           "-1\n",
                           "+12",
                           "100000 100000",
                           "max 100000",
                           "",
                           " ",
                           "-",
                           "+-1",
                           "--1",
                           "x1",
                           "12x",
                           "\t\n\v\f\r 5,4",
                           "0x10",
                           "007",
                           "-0",
                           "9223372036854775807",
                           "9223372036854775808",
                           "-9223372036854775808",
                           "-9223372036854775809",
                           "99999999999999999999999999 7",
                           "4194560",
                           "18446744073709551615",
                           "1.5",
                           "1e3"}) {
    as_the_c_library(text);
  }
}

RUN_CASES()
