// SPDX-License-Identifier: MIT
// The 4-bit operators of tensors write what those of addresses write for the same memory, bit for bit: however rows
// lie, in whatever shape the weight is given, with either kind of scales. What those write, other tests compare with
// the book.
#include "ops/four_bit/api/dequantize_4bit.h"
#include "ops/four_bit/api/matmul_4bit.h"

#include <initializer_list>

#include "../../../cpp/cpu/flat_tensors.h"
#include "../../../cpp/cpu/tensors.h"

namespace {

constexpr Shape kShapes[] = {
    {"one dimension", 0, {}, false},        {"rows", 1, {5}, false},
    {"rows with gaps", 1, {5}, true},       {"one row", 1, {1}, true},
    {"three dimensions", 2, {2, 3}, false}, {"three with gaps", 2, {2, 3}, true},
    {"sizes of one", 3, {2, 1, 3}, true},   {"no rows", 2, {3, 0}, false},
};
constexpr int64_t kResults[] = {0, 1, 5, 97}, kLengths[] = {0, 1, 7, 64, 129};

// The weight of `count` elements, with both kinds of scales.
struct Weight {
  int64_t blocks;
  Flat packed, absmax, codes, absmax2, map, offset;

  Weight(int64_t count, int64_t blocksize, int form, Random& random)
      : blocks((count + blocksize - 1) / blocksize),
        packed(KW_UINT8, (count + 1) / 2, form, random),
        absmax(KW_FLOAT32, blocks, form + 1, random),
        codes(KW_UINT8, blocks, form + 2, random),
        absmax2(KW_FLOAT32, (blocks + 255) / 256, form + 3, random),
        map(KW_FLOAT32, 256, form, random),
        offset(KW_FLOAT32, 1, form + 1, random) {}
  bool intact() const {
    return packed.intact() && absmax.intact() && codes.intact() && absmax2.intact() && map.intact() && offset.intact();
  }
};

struct Case {
  const Format* format;
  const Shape* shape;
  int64_t n, k;
  int32_t blocksize, type;
  bool quantized, bias;
  int form;
};

void check_matmul(const Case& c, Random& random) {
  const Tensor x(*c.format, *c.shape, c.k, 1, random), bias(*c.format, kColumn, c.n, 0, random),
      y(*c.format, *c.shape, c.n, 2, random);
  const Weight w(c.n * c.k, c.blocksize, c.form, random);
  const Tensor all_x(x), all_bias(bias), before(y), other_y(y);
  const int64_t m = c.shape->rows();
  int64_t bytes = -1;
  CHECK(kw_matmul_4bit_workspace(KW_CPU, m, c.n, c.k, c.blocksize, c.format->dtype, &bytes) == KW_OK, "%s",
        kw_last_error());
  void* const space = bytes > 0 ? aligned_alloc(16, static_cast<size_t>(bytes + 15) / 16 * 16) : nullptr;
  const bool q = c.quantized;
  const kw_status status =
      kw_matmul_4bit_tensors(nullptr, &y.as, &x.as, &w.packed.as, q ? nullptr : &w.absmax.as, q ? &w.codes.as : nullptr,
                             q ? &w.absmax2.as : nullptr, q ? &w.map.as : nullptr, q ? &w.offset.as : nullptr,
                             c.bias ? &bias.as : nullptr, space, bytes, c.blocksize, c.type);
  CHECK(status == KW_OK, "%s: %s", c.shape->name, kw_last_error());
  const kw_status expected =
      kw_matmul_4bit(KW_CPU, nullptr, other_y.data, y.stride, x.data, x.stride, w.packed.bytes(),
                     q ? nullptr : w.absmax.floats(), q ? w.codes.bytes() : nullptr, q ? w.absmax2.floats() : nullptr,
                     q ? w.map.floats() : nullptr, q ? w.offset.floats() : nullptr, c.bias ? bias.data : nullptr, space,
                     bytes, m, c.n, c.k, c.blocksize, c.type, c.format->dtype);
  CHECK(expected == KW_OK, "%s", kw_last_error());
  const auto n = static_cast<long>(c.n), k = static_cast<long>(c.k);
  CHECK(y.same(other_y), "matmul of %s, %s, n %ld k %ld, scales %d, bias %d: y is another", c.format->name,
        c.shape->name, n, k, q, c.bias);
  CHECK(y.same(before) == (m == 0 || c.n == 0), "matmul of %s, %s, n %ld k %ld: y %s", c.format->name, c.shape->name, n,
        k, m == 0 || c.n == 0 ? "has no elements, and something was written" : "was not written");
  CHECK(x.same(all_x) && bias.same(all_bias) && w.intact(), "matmul of %s, %s: an argument was written", c.format->name,
        c.shape->name);
  free(space);
}

void check_dequantize(const Format& format, int64_t count, int32_t blocksize, int form, bool quantized,
                      Random& random) {
  const Flat y(format.dtype, count, form, random), other_y(y);
  const Weight w(count, blocksize, form + 1, random);
  const bool q = quantized;
  const int32_t type = form % 2;
  const kw_status status = kw_dequantize_4bit_tensors(
      nullptr, &y.as, &w.packed.as, q ? nullptr : &w.absmax.as, q ? &w.codes.as : nullptr, q ? &w.absmax2.as : nullptr,
      q ? &w.map.as : nullptr, q ? &w.offset.as : nullptr, blocksize, type);
  CHECK(status == KW_OK, "%s", kw_last_error());
  const kw_status expected =
      kw_dequantize_4bit(KW_CPU, nullptr, other_y.data, w.packed.bytes(), q ? nullptr : w.absmax.floats(),
                         q ? w.codes.bytes() : nullptr, q ? w.absmax2.floats() : nullptr, q ? w.map.floats() : nullptr,
                         q ? w.offset.floats() : nullptr, count, blocksize, type, format.dtype);
  CHECK(expected == KW_OK, "%s", kw_last_error());
  CHECK(y.same(other_y), "%ld elements of %s, scales %d: y is another", static_cast<long>(count), format.name, q);
  CHECK(y.intact() == (count == 0), "%ld elements of %s: y was %s", static_cast<long>(count), format.name,
        count == 0 ? "written" : "not written");
  CHECK(w.intact(), "%ld elements of %s: an argument was written", static_cast<long>(count), format.name);
}

}  // namespace

int main() {
  Random random;
  int form = 0;
  for (const Format& format : kFormats) {
    for (const int64_t k : kLengths) {
      for (const int64_t n : kResults) {
        for (const Shape& shape : kShapes) {
          for (int bits = 0; bits < 4; ++bits, ++form) {
            const Case c{&format,       &shape,       n, k, form / 3 % 2 ? 32 : 256, form / 5 % 2, bits % 2 != 0,
                         bits / 2 != 0, form % kForms};
            check_matmul(c, random);
          }
        }
      }
    }
    for (const int64_t count : {0, 1, 2, 31, 33, 64, 257, 4099, 8193, 20001}) {
      for (form = 0; form < 2 * kForms; ++form) {
        check_dequantize(format, count, 32, form, false, random);
        check_dequantize(format, count, 32, form, true, random);
        check_dequantize(format, count, 4096, form, true, random);
      }
    }
  }
  if (failures) fprintf(stderr, "%d failures\n", failures);
  return failures != 0;
}
