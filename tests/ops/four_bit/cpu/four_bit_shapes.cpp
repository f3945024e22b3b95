// SPDX-License-Identifier: MIT
// The 4-bit operators where vectors do not fit, element by element, for every instruction set: sizes that nothing
// divides, blocks that cross rows, addresses of any alignment, inputs that end where the process's memory ends.
#include <sys/mman.h>
#include <unistd.h>
#include "ops/four_bit/api/dequantize_4bit.h"
#include "ops/four_bit/api/matmul_4bit.h"

#include "../../../cpp/cpu/check.h"
#include "ops/four_bit/values.h"

namespace {

constexpr float kValues[2][16] = {{KW_NF4_VALUES}, {KW_FP4_VALUES}};
constexpr float kNf4Bounds[] = {KW_NF4_BOUNDS};
constexpr float kFp4Bounds[] = {KW_FP4_BOUNDS};
constexpr int kFp4Codes[] = {KW_FP4_CODES};
constexpr int kTypes[] = {KW_NF4, KW_FP4};

// `bytes` of memory; the one after them cannot be read or written, those before are sentinels.
struct Memory {
  static constexpr unsigned char kSentinel = 0xa5;
  char* map;
  char* data;
  size_t mapped, size;

  explicit Memory(size_t bytes) : size(bytes) {
    const auto page = static_cast<size_t>(sysconf(_SC_PAGESIZE));
    mapped = (bytes + page - 1) / page * page + 2 * page;
    map = static_cast<char*>(mmap(nullptr, mapped, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
    memset(map, kSentinel, mapped);
    mprotect(map + mapped - page, page, PROT_NONE);
    data = map + mapped - page - bytes;
  }
  Memory(const Memory&) = delete;
  Memory& operator=(const Memory&) = delete;
  ~Memory() { munmap(map, mapped); }

  bool intact() const {
    for (const char* p = map; p < data; ++p) {
      if (static_cast<unsigned char>(*p) != kSentinel) return false;
    }
    return true;
  }
  template <class T>
  T* as() const {
    return reinterpret_cast<T*>(data);
  }
};

int code_of(const uint8_t* packed, int64_t i) { return packed[i / 2] >> (i % 2 ? 0 : 4) & 15; }

// By the header's words: how many bounds element * (1 / scale) exceeds.
int expected_code(int type, float element, float scale) {
  const float s = element * (1.0f / scale);
  int place = 0;
  if (type == KW_NF4) {
    for (const float bound : kNf4Bounds) place += s > bound;
    return place;
  }
  for (const float bound : kFp4Bounds) place += fabsf(s) > bound;
  return kFp4Codes[place] | (s <= -0x1p-126f ? 8 : 0);
}

// A quantized tensor in double, with plain or quantized scales.
struct Weight {
  int64_t count, blocks;
  int blocksize, type;
  Memory packed, absmax, codes, absmax2, map;
  float offset = 0.25f;

  Weight(Random& random, int64_t elements, int size, int kind)
      : count(elements),
        blocks((elements + size - 1) / size),
        blocksize(size),
        type(kind),
        packed(static_cast<size_t>(elements + 1) / 2),
        absmax(static_cast<size_t>(blocks) * 4),
        codes(static_cast<size_t>(blocks)),
        absmax2(static_cast<size_t>(blocks + 255) / 256 * 4),
        map(1024) {
    for (size_t i = 0; i < packed.size; ++i) packed.as<uint8_t>()[i] = static_cast<uint8_t>(random.bits());
    for (int64_t i = 0; i < blocks; ++i) {
      absmax.as<float>()[i] = static_cast<float>(fabs(random.normal()));
      codes.as<uint8_t>()[i] = static_cast<uint8_t>(random.bits());
    }
    for (int64_t i = 0; i < (blocks + 255) / 256; ++i) absmax2.as<float>()[i] = static_cast<float>(random.normal());
    for (int i = 0; i < 256; ++i) map.as<float>()[i] = static_cast<float>(i - 128) / 128.0f;
  }

  float scale(int64_t block, bool nested) const {
    if (!nested) return absmax.as<float>()[block];
    volatile float product = map.as<float>()[codes.as<uint8_t>()[block]] * absmax2.as<float>()[block / 256];
    return product + offset;
  }
  double value(int64_t i, bool nested) const {
    return static_cast<double>(kValues[type][code_of(packed.as<uint8_t>(), i)]) *
           static_cast<double>(scale(i / blocksize, nested));
  }
};

// --- to codes and back

void check_quantize(const char* isa, const Format& format, int type, int blocksize, int64_t count) {
  Random random;
  Memory x(static_cast<size_t>(count) * format.size), packed(static_cast<size_t>(count + 1) / 2);
  Memory absmax(static_cast<size_t>((count + blocksize - 1) / blocksize) * 4);
  for (int64_t i = 0; i < count; ++i) set(format, x.data, i, rounded(format, random.normal()));
  CHECK(kw_quantize_4bit(KW_CPU, nullptr, packed.as<uint8_t>(), absmax.as<float>(), x.data, count, blocksize, type,
                         format.dtype) == KW_OK,
        "%s", kw_last_error());
  for (int64_t first = 0; first < count; first += blocksize) {
    const int64_t end = first + blocksize < count ? first + blocksize : count;
    float scale = 0;
    for (int64_t i = first; i < end; ++i) scale = fmaxf(scale, static_cast<float>(fabs(get(format, x.data, i))));
    CHECK(absmax.as<float>()[first / blocksize] == scale, "%s %s: scale of block %lld", isa, format.name,
          static_cast<long long>(first / blocksize));
    for (int64_t i = first; i < end; ++i) {
      const int expected = expected_code(type, static_cast<float>(get(format, x.data, i)), scale);
      const int found = code_of(packed.as<uint8_t>(), i);
      CHECK(found == expected, "%s %s type %d blocksize %d: element %lld of %lld has code %d, expected %d", isa,
            format.name, type, blocksize, static_cast<long long>(i), static_cast<long long>(count), found, expected);
    }
  }
  if (count % 2) CHECK(code_of(packed.as<uint8_t>(), count) == expected_code(type, 0, 1), "%s: the last half", isa);
  CHECK(x.intact() && packed.intact() && absmax.intact(), "%s: wrote before a result", isa);
}

void check_dequantize(const char* isa, const Format& format, int type, int blocksize, int64_t count, bool nested) {
  Random random;
  const Weight w(random, count, blocksize, type);
  Memory y(static_cast<size_t>(count) * format.size);
  CHECK(kw_dequantize_4bit(KW_CPU, nullptr, y.data, w.packed.as<uint8_t>(), nested ? nullptr : w.absmax.as<float>(),
                           nested ? w.codes.as<uint8_t>() : nullptr, nested ? w.absmax2.as<float>() : nullptr,
                           nested ? w.map.as<float>() : nullptr, nested ? &w.offset : nullptr, count, blocksize, type,
                           format.dtype) == KW_OK,
        "%s", kw_last_error());
  for (int64_t i = 0; i < count; ++i) {
    const double expected = rounded(format, rounded(kFormats[0], w.value(i, nested))), found = get(format, y.data, i);
    CHECK(found == expected, "%s %s type %d blocksize %d nested %d: element %lld of %lld is %a, expected %a", isa,
          format.name, type, blocksize, nested, static_cast<long long>(i), static_cast<long long>(count), found,
          expected);
  }
  CHECK(y.intact(), "%s: wrote before y", isa);
}

void check_tensors(const char* isa) {
  constexpr int64_t kCounts[] = {1, 31, 32, 33, 64, 127, 4096, 4099, 40001};
  constexpr int kSizes[] = {32, 64, 256, 4096};
  for (const Format& format : kFormats) {
    for (const int64_t count : kCounts) {
      for (const int size : kSizes) {
        for (const int type : kTypes) {
          check_quantize(isa, format, type, size, count);
          check_dequantize(isa, format, type, size, count, false);
          check_dequantize(isa, format, type, size, count, true);
        }
      }
    }
  }
}

// A scaled value at a bound, and the floats beside it: of blocks whose scale is 1.
void check_bounds(const char* isa) {
  for (const int type : kTypes) {
    for (int bound = 0; bound < (type == KW_NF4 ? 15 : 7); ++bound) {
      float x[32] = {1.0f};
      const float at = type == KW_NF4 ? kNf4Bounds[bound] : kFp4Bounds[bound];
      const float near[] = {at,  nextafterf(at, 2), nextafterf(at, -2), -at,  nextafterf(-at, 2), nextafterf(-at, -2),
                            NAN, -0x1p-126f,        -0x1p-127f,         -0.0f};
      const bool with_nan = bound % 2;  // its whole block has no scale then
      for (int i = 0; i < 10; ++i) x[i + 1] = isnan(near[i]) && !with_nan ? 0.5f : near[i];
      uint8_t packed[16];
      float scale;
      CHECK(kw_quantize_4bit(KW_CPU, nullptr, packed, &scale, x, 32, 32, type, KW_FLOAT32) == KW_OK, "%s",
            kw_last_error());
      CHECK(with_nan ? isnan(scale) : scale == 1, "%s: scale %g", isa, static_cast<double>(scale));
      for (int i = 0; i < 32 && !with_nan; ++i) {
        CHECK(code_of(packed, i) == expected_code(type, x[i], 1), "%s type %d: code %d of %a", isa, type,
              code_of(packed, i), static_cast<double>(x[i]));
      }
    }
  }
}

// --- the product

struct Shape {
  int64_t m, n, k;
  int blocksize;
};

void check_product(const char* isa, const Format& format, const Shape& s, int type, bool nested) {
  Random random;
  const Weight w(random, s.n * s.k, s.blocksize, type);
  const int64_t pitch = s.k + 3, out = s.n + 5;
  Memory x(static_cast<size_t>((s.m - 1) * pitch + s.k) * format.size), bias(static_cast<size_t>(s.n) * format.size);
  Memory y(static_cast<size_t>((s.m - 1) * out + s.n) * format.size);
  for (int64_t m = 0; m < s.m; ++m)
    for (int64_t i = 0; i < s.k; ++i) set(format, x.data, m * pitch + i, rounded(format, random.normal()));
  for (int64_t i = 0; i < s.n; ++i) set(format, bias.data, i, rounded(format, random.normal()));
  int64_t bytes = 0;
  CHECK(kw_matmul_4bit_workspace(KW_CPU, s.m, s.n, s.k, s.blocksize, format.dtype, &bytes) == KW_OK, "%s",
        kw_last_error());
  Memory workspace(static_cast<size_t>(bytes));
  CHECK(kw_matmul_4bit(KW_CPU, nullptr, y.data, out, x.data, pitch, w.packed.as<uint8_t>(),
                       nested ? nullptr : w.absmax.as<float>(), nested ? w.codes.as<uint8_t>() : nullptr,
                       nested ? w.absmax2.as<float>() : nullptr, nested ? w.map.as<float>() : nullptr,
                       nested ? &w.offset : nullptr, bias.data, bytes ? workspace.data : nullptr, bytes, s.m, s.n, s.k,
                       s.blocksize, type, format.dtype) == KW_OK,
        "%s", kw_last_error());
  for (int64_t m = 0; m < s.m; ++m) {
    for (int64_t n = 0; n < s.n; ++n) {
      const double start = get(format, bias.data, n);
      double expected = start, terms = fabs(start);
      for (int64_t i = 0; i < s.k; ++i) {
        const double term = get(format, x.data, m * pitch + i) * w.value(n * s.k + i, nested);
        expected += term;
        terms += fabs(term);
      }
      const double found = get(format, y.data, m * out + n);
      const double allowed = terms * 1e-6 + spacing(format, expected) * 0.5001;
      CHECK(fabs(found - expected) <= allowed,
            "%s %s type %d nested %d, %lldx%lldx%lld blocksize %d: y[%lld, %lld] is %a, expected %a", isa, format.name,
            type, nested, static_cast<long long>(s.m), static_cast<long long>(s.n), static_cast<long long>(s.k),
            s.blocksize, static_cast<long long>(m), static_cast<long long>(n), found, expected);
    }
  }
  for (int64_t m = 0; m + 1 < s.m; ++m) {
    for (int64_t i = s.n; i < out; ++i) {
      const char* p = y.data + static_cast<size_t>(m * out + i) * format.size;
      CHECK(static_cast<unsigned char>(*p) == Memory::kSentinel, "%s: wrote between rows of y", isa);
    }
  }
  CHECK(y.intact() && workspace.intact(), "%s: wrote before a result", isa);
}

void check_products(const char* isa) {
  constexpr Shape kShapes[] = {
      {1, 9, 128, 32},   {1, 7, 256, 64},   {1, 6, 384, 256},   {1, 5, 8320, 64},   {1, 3, 8320, 4096},
      {2, 9, 384, 32},   {2, 5, 640, 128},  {3, 6, 8448, 512},  {3, 5, 128, 4096},  {4, 7, 256, 64},
      {4, 1, 1152, 32},  {1, 5, 1, 32},     {1, 9, 31, 32},     {1, 6, 33, 64},     {2, 5, 97, 32},
      {1, 4, 160, 64},   {1, 8, 64, 64},    {2, 3, 96, 128},    {5, 9, 128, 64},    {6, 5, 515, 32},
      {8, 4, 1024, 256}, {9, 3, 33, 64},    {16, 2, 640, 64},   {67, 5, 130, 32},   {66, 1, 128, 64},
      {1, 1, 16384, 64}, {1, 23, 256, 64},  {2, 14, 128, 32},   {3, 13, 128, 64},   {4, 11, 384, 64},
      {1, 9, 192, 64},   {2, 6, 448, 32},   {5, 5, 192, 128},   {5, 9, 8256, 32},   {6, 7, 8512, 64},
      {7, 10, 320, 64},  {8, 6, 8256, 128}, {8, 13, 448, 32},   {9, 11, 1088, 128}, {10, 19, 640, 64},
      {11, 8, 704, 256}, {12, 13, 832, 32}, {70, 9, 576, 4096},
  };
  for (const Shape& shape : kShapes) {
    for (const Format& format : kFormats) {
      for (const int type : kTypes) {
        check_product(isa, format, shape, type, false);
        check_product(isa, format, shape, type, true);
      }
    }
  }
}

}  // namespace

int main() {
  each_isa(check_tensors);
  each_isa(check_bounds);
  each_isa(check_products);
  if (failures) fprintf(stderr, "%d failures\n", failures);
  return failures != 0;
}
