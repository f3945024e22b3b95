// SPDX-License-Identifier: MIT
// kw_rope_tensors: checks its arguments, then runs on the CPU or launches a kernel.
#include "ops/attention/api/rope.h"

#include "ops/attention/host/reader.h"
#include "ops/attention/host/rope_plan.h"

namespace kw {
namespace {

using attention_checks::kAny;
using attention_checks::Reader;

constexpr int64_t kMostD = 65536, kMostRows = (int64_t{1} << 31) - 1, kMostElements = int64_t{1} << 30;

Module module{"rope"};
Kernel kernels[3][2] = {{{"rope_element_float32"}, {"rope_vectors_float32"}},
                        {{"rope_element_float16"}, {"rope_vectors_float16"}},
                        {{"rope_element_bfloat16"}, {"rope_vectors_bfloat16"}}};

struct Tensors {
  const kw_tensor *q_out, *k_out, *q, *k, *cos, *sin, *positions;
};

kw_status read_heads(const Reader& r, const Tensors& from, Rope* a) {
  kw_tensor q, k, out;
  KW_TRY(r.heads("q", from.q, kAny, kAny, kAny, kAny, &q, &a->q));
  a->batch = q.sizes[0], a->q_heads = q.sizes[1], a->rows = q.sizes[2], a->d = q.sizes[3];
  KW_TRY(r.heads("q_out", from.q_out, a->batch, a->q_heads, a->rows, a->d, &out, &a->q_out));
  if ((from.k == nullptr) != (from.k_out == nullptr))
    return fail(KW_ERROR_INVALID_ARGUMENT, "%s: k and k_out are given together, or neither", r.name);
  if (from.k == nullptr) return KW_OK;
  KW_TRY(r.heads("k", from.k, a->batch, kAny, a->rows, a->d, &k, &a->k));
  a->k_heads = k.sizes[1];
  return r.heads("k_out", from.k_out, a->batch, a->k_heads, a->rows, a->d, &out, &a->k_out);
}

// `first` is what the other table must be like, or null.
kw_status read_table(const Reader& r, const char* name, const kw_tensor* from, const Rope& a, const kw_tensor* first,
                     kw_tensor* found, RopeTable* table) {
  KW_TRY(read_tensor(r.name, name, from, found));
  const int64_t dims = first != nullptr ? first->dims : found->dims == 3 ? 3 : 2;
  const int32_t type = first != nullptr ? first->dtype : found->dtype == KW_FLOAT32 ? KW_FLOAT32 : r.dtype;
  const int64_t width = first != nullptr ? first->sizes[dims - 1] : kAny;
  const int64_t by_position[] = {first != nullptr ? first->sizes[0] : kAny, width}, rows[] = {kAny, a.rows, width};
  KW_TRY(r.read(name, from, type, dims, dims == 2 ? by_position : rows, found));
  if (dims == 3 && found->sizes[0] != 1 && found->sizes[0] != a.batch)
    return fail(KW_ERROR_INVALID_ARGUMENT, "%s: %s has %lld batches, q %lld; 1 or as many are supported", r.name, name,
                (long long)found->sizes[0], (long long)a.batch);
  *table = {found->data, dims == 3 && found->sizes[0] > 1 ? found->strides[0] : 0, found->strides[dims - 2]};
  if (found->sizes[dims - 2] < 2) table->row = 0;
  return KW_OK;
}

kw_status read_tables(const Reader& r, const Tensors& from, Rope* a) {
  kw_tensor cos, sin;
  KW_TRY(read_table(r, "cos", from.cos, *a, nullptr, &cos, &a->cos));
  KW_TRY(read_table(r, "sin", from.sin, *a, &cos, &sin, &a->sin));
  const int64_t width = cos.sizes[cos.dims - 1];
  a->table_dtype = cos.dtype, a->max_positions = cos.sizes[cos.dims - 2];
  if (a->pairs < 1 || a->pairs * 2 > a->d || (width != a->pairs && width != a->pairs * 2))
    return fail(KW_ERROR_INVALID_ARGUMENT,
                "%s: cos has %lld columns, for a rotary_dim of %lld and rows of %lld elements; as many or half are "
                "supported",
                r.name, (long long)width, (long long)a->pairs * 2, (long long)a->d);
  a->step = a->interleaved && width != a->pairs ? 2 : 1;
  if (from.positions != nullptr && cos.dims == 3)
    return fail(KW_ERROR_INVALID_ARGUMENT, "%s: positions choose rows of [max_positions, n], but cos has 3 dimensions",
                r.name);
  const int64_t least = from.positions != nullptr ? (a->rows > 0 ? 1 : 0) : a->rows;
  if (a->max_positions < least || a->max_positions > kMostRows)
    return fail(KW_ERROR_INVALID_ARGUMENT, "%s: cos has %lld rows; %lld to %lld are supported here", r.name,
                (long long)a->max_positions, (long long)least, (long long)kMostRows);
  return KW_OK;
}

kw_status read_positions(const Reader& r, const Tensors& from, Rope* a) {
  if (from.positions == nullptr) return KW_OK;
  kw_tensor found;
  KW_TRY(read_tensor(r.name, "positions", from.positions, &found));
  const int64_t dims = found.dims == 2 ? 2 : 1, sizes[] = {dims == 1 ? a->batch : kAny, a->rows};
  KW_TRY(r.read("positions", from.positions, KW_INT32, dims, sizes, &found, false));
  if (dims == 2 && found.sizes[0] != 1 && found.sizes[0] != a->batch)
    return fail(KW_ERROR_INVALID_ARGUMENT, "%s: positions has %lld batches, q %lld; 1 or as many are supported", r.name,
                (long long)found.sizes[0], (long long)a->batch);
  a->positions = static_cast<const int32_t*>(found.data);
  a->positions_batch = found.sizes[0] > 1 ? found.strides[0] : 0;
  a->positions_row = dims == 2 && a->rows > 1 ? found.strides[1] : 0;
  a->adds_row = dims == 1;
  return KW_OK;
}

kw_status check_sizes(const char* name, const Rope& a) {
  if (a.d > kMostD)
    return fail(KW_ERROR_INVALID_ARGUMENT, "%s: rows have %lld elements; up to %lld are supported", name,
                (long long)a.d, (long long)kMostD);
  const int64_t heads = a.q_heads + a.k_heads;
  if (heads > kMostElements / (a.d > 0 ? a.d : 1) || (a.rows > 0 && a.batch > kMostRows / a.rows))
    return fail(KW_ERROR_UNSUPPORTED,
                "%s: %lld batches of %lld rows with %lld heads of %lld elements; 2^31 rows of 2^30 elements are "
                "supported",
                name, (long long)a.batch, (long long)a.rows, (long long)heads, (long long)a.d);
  return KW_OK;
}

// A launch counts its threads in 31 bits: of more rows, there are several.
kw_status launch_rope(int32_t device, void* stream, const Rope& a) {
  using namespace rope_plan;
  Context context;
  KW_TRY(module_context(module, device, &context));
  const Plan plan = plan_for(a, *context.device);
  KwRopeParams p = params_of(a, plan);
  const int64_t all = a.batch * a.rows, most = kMostThreads / p.row_threads;
  for (int64_t first = 0; first < all; first += most) {
    const int64_t rows = all - first < most ? all - first : most;
    p.first = static_cast<unsigned>(first), p.threads = static_cast<unsigned>(rows * p.row_threads);
    Launch how{static_cast<uint32_t>(ratio_up(p.threads, plan.block)), plan.block};
    how.overlap = true;
    KW_TRY(launch(context, kernels[a.dtype][plan.vectors ? 1 : 0], how, stream, &p, sizeof p));
  }
  return KW_OK;
}

kw_status run_rope(const char* name, void* stream, const Tensors& from, int64_t rotary_dim, Rope* a) {
  kw_tensor q;
  KW_TRY(read_tensor(name, "q", from.q, &q));
  KW_TRY(check_float_type(name, q.dtype));
  const Reader r{name, q.dtype, q.device};
  a->dtype = q.dtype;
  if (rotary_dim < 2 || rotary_dim > kMostD || rotary_dim % 2 != 0)
    return fail(KW_ERROR_INVALID_ARGUMENT, "%s: rotary_dim is %lld; even numbers from 2 to %lld are supported", name,
                (long long)rotary_dim, (long long)kMostD);
  a->pairs = rotary_dim / 2;
  KW_TRY(read_heads(r, from, a));
  KW_TRY(check_sizes(name, *a));
  KW_TRY(read_tables(r, from, a));
  KW_TRY(read_positions(r, from, a));
  if (a->batch == 0 || a->rows == 0 || a->q_heads + a->k_heads == 0) return KW_OK;
  return q.device == KW_CPU ? cpu::rope(*a) : launch_rope(q.device, stream, *a);
}

// An array without gaps.
struct Array {
  kw_tensor tensor;
  int64_t sizes[4], strides[4];

  kw_status of(const char* name, const char* argument, const void* data, int32_t dtype, int32_t device, int dims) {
    int64_t next = 1;
    for (int i = dims - 1; i >= 0; --i) {
      KW_TRY(check_size(name, argument, sizes[i]));
      strides[i] = next;
      if (__builtin_mul_overflow(next, sizes[i], &next) || next > kMaxElements)
        return fail(KW_ERROR_INVALID_ARGUMENT, "%s: no memory holds such a %s", name, argument);
    }
    if (next > 0) KW_TRY(check_pointer(name, argument, data, size_of(dtype)));
    tensor = {KW_TENSOR, const_cast<void*>(data), sizes, strides, dims, dtype, device};
    return KW_OK;
  }
};

}  // namespace
}  // namespace kw

KW_API kw_status kw_rope_tensors(void* stream, const kw_tensor* q_out, const kw_tensor* k_out, const kw_tensor* q,
                                 const kw_tensor* k, const kw_tensor* cos, const kw_tensor* sin,
                                 const kw_tensor* positions, int64_t rotary_dim, int32_t interleaved, int32_t inverse) {
  kw::Rope a{};
  a.interleaved = interleaved != 0, a.inverse = inverse != 0;
  return kw::run_rope("kw_rope_tensors", stream, {q_out, k_out, q, k, cos, sin, positions}, rotary_dim, &a);
}

KW_API kw_status kw_rope(int32_t device, void* stream, void* q_out, void* k_out, const void* q, const void* k,
                         const void* cos, const void* sin, const int32_t* positions, int64_t batch, int64_t heads,
                         int64_t kv_heads, int64_t rows, int64_t max_positions, int64_t d, int64_t rotary_dim,
                         int32_t dtype, int32_t interleaved, int32_t inverse) {
  constexpr const char* kName = "kw_rope";
  KW_TRY(kw::check_device(kName, device));
  KW_TRY(kw::check_float_type(kName, dtype));
  const bool has_k = k != nullptr || k_out != nullptr;
  struct {
    kw::Array array;
    const char* name;
    const void* data;
    int dims;
    bool given;
  } all[] = {{{{}, {batch, heads, rows, d}, {}}, "q_out", q_out, 4, true},
             {{{}, {batch, kv_heads, rows, d}, {}}, "k_out", k_out, 4, has_k},
             {{{}, {batch, heads, rows, d}, {}}, "q", q, 4, true},
             {{{}, {batch, kv_heads, rows, d}, {}}, "k", k, 4, has_k},
             {{{}, {max_positions, rotary_dim / 2}, {}}, "cos", cos, 2, true},
             {{{}, {max_positions, rotary_dim / 2}, {}}, "sin", sin, 2, true},
             {{{}, {batch}, {}}, "positions", positions, 1, positions != nullptr}};
  const kw_tensor* given[7] = {};
  for (int i = 0; i < 7; ++i) {
    if (!all[i].given) continue;
    const int32_t type = i < 6 ? dtype : KW_INT32;
    KW_TRY(all[i].array.of(kName, all[i].name, all[i].data, type, device, all[i].dims));
    given[i] = &all[i].array.tensor;
  }
  kw::Rope a{};
  a.interleaved = interleaved != 0, a.inverse = inverse != 0;
  return kw::run_rope(kName, stream, {given[0], given[1], given[2], given[3], given[4], given[5], given[6]}, rotary_dim,
                      &a);
}
