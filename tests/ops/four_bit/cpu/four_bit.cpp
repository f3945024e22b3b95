// SPDX-License-Identifier: MIT
// The 4-bit operators on the CPU: codes nearest to what they stand for, the way back to the bit, products against
// double; scales quantized once more; nothing written outside. On every instruction set.
#include "ops/four_bit/api/dequantize_4bit.h"
#include "ops/four_bit/api/matmul_4bit.h"

#include "../../../cpp/cpu/check.h"

namespace {

constexpr unsigned char kSentinel = 0xa5;
constexpr int64_t kPad = 64;  // bytes behind each result

// What the codes stand for, by quant_type.
constexpr float kValues[2][16] = {
    {-1.0f, -0.6961928009986877f, -0.5250730514526367f, -0.39491748809814453f, -0.28444138169288635f,
     -0.18477343022823334f, -0.09105003625154495f, 0.0f, 0.07958029955625534f, 0.16093020141124725f,
     0.24611230194568634f, 0.33791524171829224f, 0.44070982933044434f, 0.5626170039176941f, 0.7229568362236023f, 1.0f},
    {0.0f, 0.0052083334885537624f, 0.6666666865348816f, 1.0f, 0.3333333432674408f, 0.5f, 0.1666666716337204f, 0.25f,
     0.0f, -0.0052083334885537624f, -0.6666666865348816f, -1.0f, -0.3333333432674408f, -0.5f, -0.1666666716337204f,
     -0.25f},
};
constexpr const char* kTypeNames[] = {"nf4", "fp4"};
constexpr int kCodeOf0[] = {7, 0};

// Elements of a type, a result's sentinels behind them.
template <class T>
struct Held {
  int64_t count;
  T* data;

  explicit Held(int64_t n) : count(n), data(static_cast<T*>(malloc(static_cast<size_t>(n) * sizeof(T) + kPad))) {
    memset(data, kSentinel, static_cast<size_t>(n) * sizeof(T) + kPad);
  }
  Held(const Held&) = delete;
  Held& operator=(const Held&) = delete;
  ~Held() { free(data); }
  T& operator[](int64_t i) const { return data[i]; }
  bool intact() const {
    const auto* end = reinterpret_cast<const unsigned char*>(data + count);
    for (int64_t i = 0; i < kPad; ++i) {
      if (end[i] != kSentinel) return false;
    }
    return true;
  }
};

int code_at(const uint8_t* packed, int64_t i) { return i % 2 == 0 ? packed[i / 2] >> 4 : packed[i / 2] & 15; }

struct Weight {
  const Format& format;
  int64_t count, blocksize, blocks;
  int type;
  Held<char> x;
  Held<uint8_t> packed;
  Held<float> absmax;

  Weight(const Format& f, int64_t n, int64_t size, int quant_type)
      : format(f),
        count(n),
        blocksize(size),
        blocks((n + size - 1) / size),
        type(quant_type),
        x(n * static_cast<int64_t>(f.size)),
        packed((n + 1) / 2),
        absmax(blocks) {
    Random random;
    for (int64_t i = 0; i < n; ++i)
      set(f, x.data, i, rounded(f, random.normal() * (1.0 + static_cast<double>(i / size))));
  }
  kw_status quantize() const {
    return kw_quantize_4bit(KW_CPU, nullptr, packed.data, absmax.data, x.data, count, static_cast<int32_t>(blocksize),
                            type, format.dtype);
  }
  float value(int64_t i) const { return kValues[type][code_at(packed.data, i)]; }
};

// No other value may be nearer than the chosen one, but by what dividing in float32 may be off.
void check_codes(const Weight& w, const char* isa) {
  for (int64_t block = 0; block < w.blocks; ++block) {
    const int64_t end = (block + 1) * w.blocksize < w.count ? (block + 1) * w.blocksize : w.count;
    double largest = 0;
    for (int64_t i = block * w.blocksize; i < end; ++i) largest = fmax(largest, fabs(get(w.format, w.x.data, i)));
    CHECK(static_cast<double>(w.absmax[block]) == largest, "%s %s: scale %ld is %.9g, not %.9g", isa, w.format.name,
          static_cast<long>(block), static_cast<double>(w.absmax[block]), largest);
    for (int64_t i = block * w.blocksize; i < end; ++i) {
      const double scaled = get(w.format, w.x.data, i) / largest;
      double nearest = 9;
      for (const float value : kValues[w.type]) nearest = fmin(nearest, fabs(static_cast<double>(value) - scaled));
      const double found = fabs(static_cast<double>(w.value(i)) - scaled);
      CHECK(found <= nearest + 1e-6, "%s %s %s: element %ld, %.9g of its scale, has code %d", isa, w.format.name,
            kTypeNames[w.type], static_cast<long>(i), scaled, code_at(w.packed.data, i));
    }
  }
  if (w.count % 2 != 0) CHECK(code_at(w.packed.data, w.count) == kCodeOf0[w.type], "%s: what pads the last byte", isa);
  CHECK(w.packed.intact() && w.absmax.intact(), "%s %s count %ld: wrote outside", isa, w.format.name,
        static_cast<long>(w.count));
}

void check_back(const Weight& w, const char* isa) {
  const Held<char> y(w.count * static_cast<int64_t>(w.format.size));
  const kw_status status =
      kw_dequantize_4bit(KW_CPU, nullptr, y.data, w.packed.data, w.absmax.data, nullptr, nullptr, nullptr, nullptr,
                         w.count, static_cast<int32_t>(w.blocksize), w.type, w.format.dtype);
  CHECK(status == KW_OK, "%s", kw_last_error());
  for (int64_t i = 0; i < w.count; ++i) {
    const float product = w.value(i) * w.absmax[i / w.blocksize];
    const double expected = rounded(w.format, static_cast<double>(product)), got = get(w.format, y.data, i);
    CHECK(got == expected, "%s %s %s: element %ld comes back as %.9g, not %.9g", isa, w.format.name, kTypeNames[w.type],
          static_cast<long>(i), got, expected);
  }
  CHECK(y.intact(), "%s %s count %ld: wrote outside", isa, w.format.name, static_cast<long>(w.count));
}

void check_quantized(const char* isa) {
  constexpr int64_t kCounts[] = {1, 2, 31, 32, 33, 64, 100, 255, 257, 1000, 4096, 4099};
  constexpr int64_t kBlocks[] = {32, 64, 256, 4096};
  for (const Format& format : kFormats) {
    for (const int64_t blocksize : kBlocks) {
      for (const int64_t count : kCounts) {
        for (int type = KW_NF4; type <= KW_FP4; ++type) {
          const Weight w(format, count, blocksize, type);
          CHECK(w.quantize() == KW_OK, "%s", kw_last_error());
          check_codes(w, isa);
          check_back(w, isa);
        }
      }
    }
  }
}

// A weight of n rows of k, whose blocks go on across rows, and scales that are quantized themselves.
void check_product(const char* isa, const Format& format, int64_t m, int64_t n, int64_t k, int type, bool nested) {
  constexpr int64_t kGap = 3;  // elements between rows
  const Weight w(format, n * k, 64, type);
  CHECK(w.quantize() == KW_OK, "%s", kw_last_error());
  const int64_t second = (w.blocks + 255) / 256;
  const Held<uint8_t> codes(w.blocks);
  const Held<float> absmax2(second);
  float map[256], offset = 0;
  for (int i = 0; i < 256; ++i) map[i] = static_cast<float>(i - 128) * 0x1p-7f + (i == 255 ? 0x1p-7f : 0.0f);
  for (int64_t i = 0; i < w.blocks; ++i) offset += 0.75f * w.absmax[i] / static_cast<float>(w.blocks);
  if (nested) {
    CHECK(kw_quantize_4bit_absmax(KW_CPU, nullptr, codes.data, absmax2.data, w.absmax.data, &offset, map, w.blocks) ==
              KW_OK,
          "%s", kw_last_error());
    for (int64_t i = 0; i < w.blocks; ++i) {
      const double scaled = static_cast<double>((w.absmax[i] - offset) / absmax2[i / 256]);
      double nearest = 9;
      for (const float value : map) nearest = fmin(nearest, fabs(static_cast<double>(value) - scaled));
      CHECK(fabs(static_cast<double>(map[codes[i]]) - scaled) <= nearest + 1e-6, "%s: scale %ld has code %d", isa,
            static_cast<long>(i), codes[i]);
    }
    CHECK(codes.intact() && absmax2.intact(), "%s: scales were written outside", isa);
  }
  Random random;
  const auto size = static_cast<int64_t>(format.size);
  const Held<char> x(m * (k + kGap) * size), y(m * (n + kGap) * size), bias(n * size);
  for (int64_t i = 0; i < m * (k + kGap); ++i) set(format, x.data, i, rounded(format, random.normal()));
  for (int64_t i = 0; i < n; ++i) set(format, bias.data, i, rounded(format, random.normal()));
  int64_t scratch = 0;
  CHECK(kw_matmul_4bit_workspace(KW_CPU, m, n, k, 64, format.dtype, &scratch) == KW_OK, "%s", kw_last_error());
  const Held<float> workspace(scratch / 4);  // malloc's: on 16 bytes
  const kw_status status = kw_matmul_4bit(
      KW_CPU, nullptr, y.data, n + kGap, x.data, k + kGap, w.packed.data, nested ? nullptr : w.absmax.data,
      nested ? codes.data : nullptr, nested ? absmax2.data : nullptr, nested ? map : nullptr,
      nested ? &offset : nullptr, bias.data, workspace.data, scratch, m, n, k, 64, type, format.dtype);
  CHECK(status == KW_OK, "%s", kw_last_error());
  for (int64_t row = 0; row < m; ++row) {
    for (int64_t column = 0; column < n; ++column) {
      double sum = get(format, bias.data, column), all = fabs(sum);
      for (int64_t i = 0; i < k; ++i) {
        const int64_t at = column * k + i, block = at / 64;
        float scale = nested ? map[codes[block]] * absmax2[block / 256] : w.absmax[block];
        if (nested) scale += offset;
        const double term =
            get(format, x.data, row * (k + kGap) + i) * static_cast<double>(w.value(at)) * static_cast<double>(scale);
        sum += term;
        all += fabs(term);
      }
      const double got = get(format, y.data, row * (n + kGap) + column);
      const double off = 0.501 * spacing(format, sum) + all * static_cast<double>(k + 8) * 0x1p-24;
      CHECK(fabs(got - sum) <= off, "%s %s %s %ldx%ldx%ld%s: [%ld, %ld] = %.9g, not %.9g", isa, format.name,
            kTypeNames[type], static_cast<long>(m), static_cast<long>(n), static_cast<long>(k), nested ? " nested" : "",
            static_cast<long>(row), static_cast<long>(column), got, sum);
    }
    const auto* gap = reinterpret_cast<const unsigned char*>(y.data + (row * (n + kGap) + n) * size);
    for (int64_t i = 0; i < kGap * size; ++i) CHECK(gap[i] == kSentinel, "%s: wrote between rows", isa);
  }
  CHECK(y.intact() && workspace.intact(), "%s: wrote behind the last row, or the scratch memory", isa);
}

void check_products(const char* isa) {
  constexpr int64_t kSizes[][3] = {{1, 1, 1},    {1, 17, 64},   {1, 40, 193}, {2, 9, 128},
                                   {5, 33, 100}, {17, 20, 256}, {5, 3, 1088}};
  for (const Format& format : kFormats) {
    for (const auto& [m, n, k] : kSizes) {
      for (int type = KW_NF4; type <= KW_FP4; ++type) {
        check_product(isa, format, m, n, k, type, false);
        check_product(isa, format, m, n, k, type, true);
      }
    }
  }
}

}  // namespace

int main() {
  each_isa(check_quantized);
  each_isa(check_products);
  if (failures) fprintf(stderr, "%d failures\n", failures);
  return failures != 0;
}
