#include "ep/cpu/simd/resize.h"

#include "ep/cpu/simd/f8.h"
#include "ep/cpu/simd/tail8.h"

namespace tenon::cpu::TENON_ISA_NAMESPACE {

namespace {

TENON_INLINE F8 load_some8(const float* p, int64_t count) { return count == 8 ? load8(p) : load_part8(p, count, 0); }

TENON_INLINE F8 gather8(const float* x, const int32_t* index) {
#if HWY_MAX_BYTES >= 32
  return {hn::GatherIndex(DF(), x, hn::LoadU(DI(), index))};
#else
  return {hn::GatherIndex(DF(), x, hn::LoadU(DI(), index)), hn::GatherIndex(DF(), x, hn::LoadU(DI(), index + 4))};
#endif
}

void mix_two_rows(const float* a, const float* b, float wa, float wb, float* y, int64_t n) {
  const F8 va = set8(wa), vb = set8(wb);
  int64_t i = 0;
  for (; i + 8 <= n; i += 8) store8(y + i, fma8(load8(a + i), va, load8(b + i) * vb));
  if (i < n) store_part8(y + i, n - i, fma8(load_part8(a + i, n - i, 0), va, load_part8(b + i, n - i, 0) * vb));
}

void mix_rows(const float* const* rows, const float* weights, int64_t count, float* y, int64_t n) {
  if (count == 2) return mix_two_rows(rows[0], rows[1], weights[0], weights[1], y, n);
  for (int64_t i = 0; i < n; i += 8) {
    const int64_t some = n - i < 8 ? n - i : 8;
    F8 sum = zero8();
    for (int64_t k = 0; k < count; ++k) sum = fma8(load_some8(rows[k] + i, some), set8(weights[k]), sum);
    if (some == 8) {
      store8(y + i, sum);
    } else {
      store_part8(y + i, some, sum);
    }
  }
}

// Neighbouring pixels of one float each, eight at a time.
void mix_single(const ResizeRow& row, const float* x, float* y) {
  int64_t j = 0;
  for (; j + 8 <= row.pixels; j += 8) {
    F8 sum = zero8();
    for (int64_t k = 0; k < row.width; ++k) {
      const int64_t at = k * row.pixels + j;
      sum = fma8(gather8(x, row.index + at), load8(row.weight + at), sum);
    }
    store8(y + j, sum);
  }
  for (; j < row.pixels; ++j) {
    float sum = 0;
    for (int64_t k = 0; k < row.width; ++k) sum += x[row.index[k * row.pixels + j]] * row.weight[k * row.pixels + j];
    y[j] = sum;
  }
}

void mix_pixels(const ResizeRow& row, const float* x, float* y) {
  if (row.inner == 1) return mix_single(row, x, y);
  for (int64_t j = 0; j < row.pixels; ++j) {
    for (int64_t c = 0; c < row.inner; c += 8) {
      const int64_t some = row.inner - c < 8 ? row.inner - c : 8;
      F8 sum = zero8();
      for (int64_t k = 0; k < row.width; ++k) {
        const int64_t at = k * row.pixels + j;
        sum = fma8(load_some8(x + row.index[at] + c, some), set8(row.weight[at]), sum);
      }
      if (some == 8) {
        store8(y + j * row.inner + c, sum);
      } else {
        store_part8(y + j * row.inner + c, some, sum);
      }
    }
  }
}

}  // namespace

extern const ResizeTable resize_table;
const ResizeTable resize_table = {&mix_rows, &mix_pixels};

}  // namespace tenon::cpu::TENON_ISA_NAMESPACE
