// SPDX-License-Identifier: MIT
// What becomes of a normalised row: times weight, plus bias, where there are any. `two` takes vectors in the order of
// load_two(like).
#pragma once

#include "ops/norm/cpu/rows.h"

namespace kw::cpu::KW_ISA {
namespace {

struct Unchanged {
  Vec weight_part(int64_t, int64_t) const { return all(1.0f); }
  template <class T>
  Two weight_two(const T*, int64_t) const {
    return {all(1.0f), all(1.0f)};
  }
  Vec at(int64_t, Vec v) const { return v; }
  Vec part(int64_t, int64_t, Vec v) const { return v; }
  template <class T>
  Two two(const T*, int64_t, Two v) const {
    return v;
  }
};

template <class W>
struct Times {
  const W* weight;

  Vec weight_part(int64_t i, int64_t n) const { return load_part(weight + i, n); }
  template <class T>
  Two weight_two(const T* like, int64_t i) const {
    return load_two_as(like, weight + i);
  }
  Vec at(int64_t i, Vec v) const { return mul(v, load(weight + i)); }
  Vec part(int64_t i, int64_t n, Vec v) const { return mul(v, load_part(weight + i, n)); }
  template <class T>
  Two two(const T* like, int64_t i, Two v) const {
    const Two w = weight_two(like, i);
    return {mul(v.a, w.a), mul(v.b, w.b)};
  }
};

template <class W>
struct Plus {
  const W* bias;

  Vec at(int64_t i, Vec v) const { return add(v, load(bias + i)); }
  Vec part(int64_t i, int64_t n, Vec v) const { return add(v, load_part(bias + i, n)); }
  template <class T>
  Two two(const T* like, int64_t i, Two v) const {
    const Two b = load_two_as(like, bias + i);
    return {add(v.a, b.a), add(v.b, b.b)};
  }
};

template <class W>
struct TimesPlus {
  const W* weight;
  const W* bias;

  Vec at(int64_t i, Vec v) const { return mul_add(v, load(weight + i), load(bias + i)); }
  Vec part(int64_t i, int64_t n, Vec v) const { return mul_add(v, load_part(weight + i, n), load_part(bias + i, n)); }
  template <class T>
  Two two(const T* like, int64_t i, Two v) const {
    const Two w = load_two_as(like, weight + i), b = load_two_as(like, bias + i);
    return {mul_add(v.a, w.a, b.a), mul_add(v.b, w.b, b.b)};
  }
};

}  // namespace
}  // namespace kw::cpu::KW_ISA
