// SPDX-License-Identifier: MIT
// The functions of tensors write what the functions of addresses write for the same memory, bit for bit: however rows
// lie, with and without what is optional, in place. What those write, other tests compare with the book.
#include "tensors.h"

#include "ops/gated/api/swiglu.h"
#include "ops/norm/api/layer_norm.h"
#include "ops/norm/api/rms_norm.h"

#include <initializer_list>

namespace {

constexpr Shape kShapes[] = {
    {"one dimension", 0, {}, false},        {"rows", 1, {5}, false},
    {"rows with gaps", 1, {5}, true},       {"one row", 1, {1}, true},
    {"three dimensions", 2, {2, 3}, false}, {"three with gaps", 2, {2, 3}, true},
    {"sizes of one", 3, {2, 1, 3}, true},   {"ones around rows", 3, {1, 6, 1}, true},
    {"no rows", 2, {3, 0}, false},
};
constexpr int64_t kLengths[] = {1, 2, 7, 64, 129};
constexpr double kEps = 1e-5;

// What is there of a call to a norm; weights are of float32, or of the type of the rows.
struct Case {
  bool centered;
  const Format* format;
  const Shape* shape;
  int64_t cols;
  bool single, weight, bias;
};

void say(const Case& c, const char* what, const char* function) {
  CHECK(false, "%s of %s norm, %s, %s, %ld columns, weight %d bias %d of %s: %s is another", function,
        c.centered ? "layer" : "rms", c.format->name, c.shape->name, static_cast<long>(c.cols), c.weight, c.bias,
        c.single ? "float32" : "that type", what);
}

enum Sum { kNone, kApart, kInResidual };

void check_norm(const Case& c, Sum form, Random& random) {
  const Format& type = c.single ? kFormats[0] : *c.format;
  const Tensor x(*c.format, *c.shape, c.cols, 1, random), weight(type, kColumn, c.cols, 0, random),
      bias(type, kColumn, c.cols, 0, random);
  Tensor y(*c.format, *c.shape, c.cols, 2, random), sum(*c.format, *c.shape, c.cols, 3, random),
      residual(*c.format, *c.shape, c.cols, 4, random);
  const Tensor all_x(x);
  Tensor other_y(y), other_sum(sum), other_residual(residual);
  const kw_tensor* const t_residual = form == kNone ? nullptr : &residual.as;
  const kw_tensor* const t_sum = form == kNone ? nullptr : form == kApart ? &sum.as : &residual.as;
  const kw_tensor *const t_weight = c.weight ? &weight.as : nullptr, *const t_bias = c.bias ? &bias.as : nullptr;
  const kw_status status = c.centered
                               ? kw_layer_norm_tensors(nullptr, &y.as, t_sum, &x.as, t_residual, t_weight, t_bias, kEps)
                               : kw_rms_norm_tensors(nullptr, &y.as, t_sum, &x.as, t_residual, t_weight, kEps);
  CHECK(status == KW_OK, "%s: %s", c.shape->name, kw_last_error());

  const Tensor& into = form == kApart ? other_sum : other_residual;
  const void *const w = c.weight ? weight.data : nullptr, *const b = c.bias ? bias.data : nullptr;
  const void* const r = form == kNone ? nullptr : other_residual.data;
  void* const s = form == kNone ? nullptr : into.data;
  const int64_t rows = c.shape->rows();
  const kw_status expected =
      c.centered
          ? kw_layer_norm(KW_CPU, nullptr, other_y.data, y.stride, s, into.stride, x.data, x.stride, r, residual.stride,
                          w, b, nullptr, nullptr, rows, c.cols, c.format->dtype, type.dtype, kEps)
          : kw_rms_norm(KW_CPU, nullptr, other_y.data, y.stride, s, into.stride, x.data, x.stride, r, residual.stride,
                        w, nullptr, rows, c.cols, c.format->dtype, type.dtype, kEps);
  CHECK(expected == KW_OK, "%s", kw_last_error());
  if (!y.same(other_y)) say(c, "y", "result");
  if (!sum.same(other_sum) || !residual.same(other_residual)) say(c, "sum", "result");
  if (!x.same(all_x)) say(c, "x", "argument");
}

struct Wanted {
  bool dsum, dweight, dbias;
};

void check_norm_backward(const Case& c, const Wanted& want, Random& random) {
  const Format& type = c.single ? kFormats[0] : *c.format;
  const Tensor dy(*c.format, *c.shape, c.cols, 1, random), dsum(*c.format, *c.shape, c.cols, 2, random),
      h(*c.format, *c.shape, c.cols, 3, random), weight(type, kColumn, c.cols, 0, random),
      bias(type, kColumn, c.cols, 0, random);
  const Tensor dx(*c.format, *c.shape, c.cols, 4, random), dweight(type, kColumn, c.cols, 0, random),
      dbias(type, kColumn, c.cols, 0, random);
  const Tensor other_dx(dx), other_dweight(dweight), other_dbias(dbias);
  const int64_t rows = c.shape->rows();
  int64_t bytes = -1;
  const kw_status asked = c.centered ? kw_layer_norm_backward_workspace(KW_CPU, rows, c.cols, &bytes)
                                     : kw_rms_norm_backward_workspace(KW_CPU, rows, c.cols, &bytes);
  CHECK(asked == KW_OK, "%s", kw_last_error());
  if (!want.dweight && !want.dbias) bytes = 0;
  void* const space = bytes > 0 ? aligned_alloc(16, static_cast<size_t>(bytes + 15) / 16 * 16) : nullptr;

  const kw_tensor *const t_dweight = want.dweight ? &dweight.as : nullptr,
                         *const t_dbias = want.dbias ? &dbias.as : nullptr,
                         *const t_dsum = want.dsum ? &dsum.as : nullptr,
                         *const t_weight = c.weight ? &weight.as : nullptr, *const t_bias = c.bias ? &bias.as : nullptr;
  const kw_status status = c.centered
                               ? kw_layer_norm_backward_tensors(nullptr, &dx.as, t_dweight, t_dbias, &dy.as, t_dsum,
                                                                &h.as, t_weight, t_bias, space, bytes, kEps)
                               : kw_rms_norm_backward_tensors(nullptr, &dx.as, t_dweight, &dy.as, t_dsum, &h.as,
                                                              t_weight, space, bytes, kEps);
  CHECK(status == KW_OK, "%s: %s", c.shape->name, kw_last_error());

  const void *const w = c.weight ? weight.data : nullptr, *const s = want.dsum ? dsum.data : nullptr;
  void *const dw = want.dweight ? other_dweight.data : nullptr, *const db = want.dbias ? other_dbias.data : nullptr;
  const kw_status expected =
      c.centered ? kw_layer_norm_backward(KW_CPU, nullptr, other_dx.data, dx.stride, dw, db, dy.data, dy.stride, s,
                                          dsum.stride, h.data, h.stride, w, nullptr, nullptr, space, bytes, rows,
                                          c.cols, c.format->dtype, type.dtype, kEps)
                 : kw_rms_norm_backward(KW_CPU, nullptr, other_dx.data, dx.stride, dw, dy.data, dy.stride, s,
                                        dsum.stride, h.data, h.stride, w, nullptr, space, bytes, rows, c.cols,
                                        c.format->dtype, type.dtype, kEps);
  CHECK(expected == KW_OK, "%s", kw_last_error());
  if (!dx.same(other_dx)) say(c, "dx", "derivative");
  if (!dweight.same(other_dweight)) say(c, "dweight", "derivative");
  if (!dbias.same(other_dbias)) say(c, "dbias", "derivative");
  free(space);
}

void check_norms(const Format& format, const Shape& shape, int64_t cols, Random& random) {
  for (int bits = 0; bits < 16; ++bits) {
    const Case c{(bits & 1) != 0, &format, &shape, cols, (bits & 2) != 0, (bits & 4) != 0, (bits & 9) == 9};
    for (const Sum form : {kNone, kApart, kInResidual}) check_norm(c, form, random);
    for (int wanted = 0; wanted < 8; ++wanted)
      check_norm_backward(c, {(wanted & 1) != 0, (wanted & 2) != 0, (wanted & 4) != 0 && c.centered}, random);
  }
}

// `packed`: gate holds both halves, and so does dgate; the functions of addresses are given the halves.
void check_swiglu(const Format& format, const Shape& shape, int64_t cols, bool packed, bool in_place, Random& random) {
  const int64_t wide = packed ? 2 * cols : cols, rows = shape.rows();
  const Tensor gate(format, shape, wide, 1, random), up(format, shape, cols, 2, random),
      dy(format, shape, cols, 3, random), y(format, shape, cols, 4, random), dgate(format, shape, wide, 5, random),
      dup(format, shape, cols, 6, random);
  const auto half = [&](const Tensor& first, const Tensor& second) {
    return packed ? first.data + static_cast<size_t>(cols) * format.size : second.data;
  };
  const Tensor other_y(y);
  kw_status status = kw_swiglu_tensors(nullptr, &y.as, &gate.as, packed ? nullptr : &up.as);
  CHECK(status == KW_OK, "%s: %s", shape.name, kw_last_error());
  const int64_t up_stride = packed ? gate.stride : up.stride;
  status = kw_swiglu(KW_CPU, nullptr, other_y.data, y.stride, gate.data, gate.stride, half(gate, up), up_stride, rows,
                     cols, format.dtype);
  CHECK(status == KW_OK && y.same(other_y), "%s, %s, %ld columns, packed %d: y is another: %s", format.name, shape.name,
        static_cast<long>(cols), packed, kw_last_error());

  const Tensor& first = in_place ? gate : dgate;
  const Tensor& second = in_place ? up : dup;
  const Tensor other_gate(gate), other_up(up), other_dgate(dgate), other_dup(dup);
  const Tensor& other_first = in_place ? other_gate : other_dgate;
  const Tensor& other_second = in_place ? other_up : other_dup;
  status = kw_swiglu_backward_tensors(nullptr, &first.as, packed ? nullptr : &second.as, &dy.as, &gate.as,
                                      packed ? nullptr : &up.as);
  CHECK(status == KW_OK, "%s: %s", shape.name, kw_last_error());
  status = kw_swiglu_backward(KW_CPU, nullptr, other_first.data, first.stride, half(other_first, other_second),
                              packed ? first.stride : second.stride, dy.data, dy.stride, other_gate.data, gate.stride,
                              half(other_gate, other_up), up_stride, rows, cols, format.dtype);
  CHECK(status == KW_OK && first.same(other_first) && second.same(other_second),
        "%s, %s, %ld columns, packed %d: dgate or dup is another: %s", format.name, shape.name, static_cast<long>(cols),
        packed, kw_last_error());
}

// Sums over no rows are nothing, and are written.
void check_sums_over_no_rows() {
  Random random;
  constexpr Shape kEmpty = {"no rows", 1, {0}, false};
  const Tensor rows(kFormats[1], kEmpty, 7, 0, random), weight(kFormats[0], kColumn, 7, 0, random),
      dweight(kFormats[0], kColumn, 7, 0, random), dbias(kFormats[0], kColumn, 7, 0, random);
  CHECK(kw_layer_norm_backward_tensors(nullptr, &rows.as, &dweight.as, &dbias.as, &rows.as, nullptr, &rows.as,
                                       &weight.as, nullptr, nullptr, 0, kEps) == KW_OK,
        "%s", kw_last_error());
  for (int64_t i = 0; i < 7; ++i) {
    CHECK(get(kFormats[0], dweight.data, i) == 0 && get(kFormats[0], dbias.data, i) == 0, "element %ld",
          static_cast<long>(i));
  }
}

}  // namespace

int main() {
  Random random;
  for (const Format& format : kFormats) {
    for (const Shape& shape : kShapes) {
      for (const int64_t cols : kLengths) {
        check_norms(format, shape, cols, random);
        for (int form = 0; form < 4; ++form) check_swiglu(format, shape, cols, form & 1, form & 2, random);
      }
    }
  }
  check_sums_over_no_rows();
  if (failures) fprintf(stderr, "%d failures\n", failures);
  return failures != 0;
}
