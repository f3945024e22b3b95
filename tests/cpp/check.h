// SPDX-License-Identifier: MIT
// The tests' own small frame: CASE(name) { CHECK(condition, "words"); } in any file, RUN_CASES() once in it. A program
// runs the case named by its argument, or all; the build makes a ctest of each CASE line.
#pragma once

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <initializer_list>

#include "failures.h"

// `status` is what was expected, and its message holds each of the words.
#define CHECK_STATUS(status, expected, message, ...)                                                   \
  do {                                                                                                 \
    const int got_ = (status);                                                                         \
    CHECK(got_ == (expected), "got status %d, expected %d; message: %s", got_, (expected), (message)); \
    for (const char* word_ : {__VA_ARGS__}) {                                                          \
      CHECK(strstr((message), word_) != nullptr, "the message lacks \"%s\": %s", word_, (message));    \
    }                                                                                                  \
  } while (0)

struct Case {
  const char* name;
  void (*run)();
  Case* next;
  static inline Case* first = nullptr;
  Case(const char* n, void (*r)()) : name(n), run(r), next(first) { first = this; }
};

#define CASE(name)                                 \
  static void case_##name();                       \
  static Case register_##name(#name, case_##name); \
  static void case_##name()

// ctest shows 77 as skipped.
[[noreturn]] inline void skip(const char* why) {
  fprintf(stderr, "skipped: %s\n", why);
  exit(77);
}

inline int run_cases(int count, char** arguments) {
  int ran = 0;
  for (const Case* c = Case::first; c != nullptr; c = c->next) {
    if (count > 1 && strcmp(arguments[1], c->name) != 0) continue;
    c->run();
    ++ran;
  }
  if (ran == 0) fprintf(stderr, "there is no case %s\n", count > 1 ? arguments[1] : "at all");
  if (failures > 0) fprintf(stderr, "%d failures\n", failures);
  return ran == 0 || failures > 0;
}

#define RUN_CASES() \
  int main(int count, char** arguments) { return run_cases(count, arguments); }
