// Products of a warpgroup (wgmma, compute capability 9.0 alone): 64 rows, whose operands both lie in shared memory in
// rows of 128 bytes, the chunks of 16 bytes permuted by the row's number (ConvLoader::swizzled()). Compiled for sm_90a.
#pragma once

#include "ep/cuda/ops/common.cuh"

namespace tenon::cuda::device {

// Ordinary stores or copies write the tensor cores' operands: each writing thread has a fence before the barrier.
__device__ __forceinline__ void let_tensor_cores_read() { asm volatile("fence.proxy.async.shared::cta;" ::: "memory"); }

// Rows of 128 bytes, eight of which are 1024; `address` is one of a block of 1024 bytes, and 32 bytes further the next
// 16 elements of 16 bits.
__device__ __forceinline__ uint64_t matrix_descriptor(uint32_t address) {
  constexpr uint64_t kSwizzled128 = uint64_t{1} << 62, kEightRows = uint64_t{1024 >> 4} << 32,
                     kUnused = uint64_t{1} << 16;
  return kSwizzled128 | kEightRows | kUnused | ((address & 0x3ffff) >> 4);
}

__device__ __forceinline__ void begin_products() { asm volatile("wgmma.fence.sync.aligned;" ::: "memory"); }
__device__ __forceinline__ void commit_products() { asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory"); }
template <int kLeft>
__device__ __forceinline__ void wait_for_products() {
  asm volatile("wgmma.wait_group.sync.aligned %0;" ::"n"(kLeft) : "memory");
}

// sum += a * b over 16 elements of the depth: a has 64 rows, b kColumns. As multiply(): a thread has columns
// 8 * n + 2 * (lane % 4) + {0, 1} of row lane / 4 of its warp's sixteen in sum[4 * n] and the next one, and of the row
// eight below in the two after them.
template <typename T, int kColumns>
struct GroupProduct;

// The text and the operands of eight sums each.
#define TENON_NUMBERS_0 "%0,%1,%2,%3,%4,%5,%6,%7"
#define TENON_NUMBERS_1 "%8,%9,%10,%11,%12,%13,%14,%15"
#define TENON_NUMBERS_2 "%16,%17,%18,%19,%20,%21,%22,%23"
#define TENON_NUMBERS_3 "%24,%25,%26,%27,%28,%29,%30,%31"
#define TENON_NUMBERS_4 "%32,%33,%34,%35,%36,%37,%38,%39"
#define TENON_NUMBERS_5 "%40,%41,%42,%43,%44,%45,%46,%47"
#define TENON_NUMBERS_6 "%48,%49,%50,%51,%52,%53,%54,%55"
#define TENON_NUMBERS_7 "%56,%57,%58,%59,%60,%61,%62,%63"
#define TENON_NUMBERS_8 "%64,%65,%66,%67,%68,%69,%70,%71"
#define TENON_NUMBERS_9 "%72,%73,%74,%75,%76,%77,%78,%79"
#define TENON_NUMBERS_10 "%80,%81,%82,%83,%84,%85,%86,%87"
#define TENON_NUMBERS_11 "%88,%89,%90,%91,%92,%93,%94,%95"
#define TENON_NUMBERS_12 "%96,%97,%98,%99,%100,%101,%102,%103"
#define TENON_NUMBERS_13 "%104,%105,%106,%107,%108,%109,%110,%111"
#define TENON_NUMBERS_14 "%112,%113,%114,%115,%116,%117,%118,%119"
#define TENON_NUMBERS_15 "%120,%121,%122,%123,%124,%125,%126,%127"
#define TENON_SUMS(i)                                                                                       \
  "+f"(sum[8 * i]), "+f"(sum[8 * i + 1]), "+f"(sum[8 * i + 2]), "+f"(sum[8 * i + 3]), "+f"(sum[8 * i + 4]), \
      "+f"(sum[8 * i + 5]), "+f"(sum[8 * i + 6]), "+f"(sum[8 * i + 7])
#define TENON_GROUP_PRODUCT(T, type, columns, a_operand, b_operand, numbers, ...)                                     \
  template <>                                                                                                         \
  struct GroupProduct<T, columns> {                                                                                   \
    static __device__ __forceinline__ void add(float (&sum)[columns / 2], uint64_t a, uint64_t b) {                   \
      asm volatile("wgmma.mma_async.sync.aligned.m64n" #columns "k16.f32." type "." type " {" numbers "}, " a_operand \
                   ", " b_operand ", 1, 1, 1, 0, 0;"                                                                  \
                   : __VA_ARGS__                                                                                      \
                   : "l"(a), "l"(b));                                                                                 \
    }                                                                                                                 \
  };
#define TENON_GROUP_PRODUCTS(T, type)                                                                                  \
  TENON_GROUP_PRODUCT(T, type, 64, "%32", "%33",                                                                       \
                      TENON_NUMBERS_0 "," TENON_NUMBERS_1 "," TENON_NUMBERS_2 "," TENON_NUMBERS_3, TENON_SUMS(0),      \
                      TENON_SUMS(1), TENON_SUMS(2), TENON_SUMS(3))                                                     \
  TENON_GROUP_PRODUCT(T, type, 80, "%40", "%41",                                                                       \
                      TENON_NUMBERS_0 "," TENON_NUMBERS_1 "," TENON_NUMBERS_2 "," TENON_NUMBERS_3 "," TENON_NUMBERS_4, \
                      TENON_SUMS(0), TENON_SUMS(1), TENON_SUMS(2), TENON_SUMS(3), TENON_SUMS(4))                       \
  TENON_GROUP_PRODUCT(T, type, 128, "%64", "%65",                                                                      \
                      TENON_NUMBERS_0 "," TENON_NUMBERS_1 "," TENON_NUMBERS_2 "," TENON_NUMBERS_3 "," TENON_NUMBERS_4  \
                                      "," TENON_NUMBERS_5 "," TENON_NUMBERS_6 "," TENON_NUMBERS_7,                     \
                      TENON_SUMS(0), TENON_SUMS(1), TENON_SUMS(2), TENON_SUMS(3), TENON_SUMS(4), TENON_SUMS(5),        \
                      TENON_SUMS(6), TENON_SUMS(7))                                                                    \
  TENON_GROUP_PRODUCT(T, type, 160, "%80", "%81",                                                                      \
                      TENON_NUMBERS_0 "," TENON_NUMBERS_1 "," TENON_NUMBERS_2 "," TENON_NUMBERS_3 "," TENON_NUMBERS_4  \
                                      "," TENON_NUMBERS_5 "," TENON_NUMBERS_6 "," TENON_NUMBERS_7 "," TENON_NUMBERS_8  \
                                      "," TENON_NUMBERS_9,                                                             \
                      TENON_SUMS(0), TENON_SUMS(1), TENON_SUMS(2), TENON_SUMS(3), TENON_SUMS(4), TENON_SUMS(5),        \
                      TENON_SUMS(6), TENON_SUMS(7), TENON_SUMS(8), TENON_SUMS(9))
TENON_GROUP_PRODUCTS(__half, "f16")
TENON_GROUP_PRODUCTS(__nv_bfloat16, "bf16")
#undef TENON_GROUP_PRODUCTS
#undef TENON_GROUP_PRODUCT
#undef TENON_SUMS

}  // namespace tenon::cuda::device
