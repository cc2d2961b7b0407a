// Calls kernels with a driver's list of parameters: the address of a template's struct, and pointers.
#pragma once

template <int... kIndices>
struct Indices {};
template <int kCount, int... kIndices>
struct MakeIndices : MakeIndices<kCount - 1, kCount - 1, kIndices...> {};
template <int... kIndices>
struct MakeIndices<0, kIndices...> {
  using type = Indices<kIndices...>;
};

template <typename P, typename... Pointers, int... kIndices>
static void call(void (*kernel)(P, Pointers...), void** p, Indices<kIndices...>) {
  kernel(*(const P*)p[0], (Pointers)p[kIndices + 1]...);
}
// A template's instance: p[0] is the address of its params.
template <typename P, typename... Pointers>
static void call_instance(void (*kernel)(P, Pointers...), void** p) {
  call(kernel, p, typename MakeIndices<sizeof...(Pointers)>::type());
}

static void run_grid(const unsigned* grid, unsigned threads, unsigned cluster_z, void (*work)(void**),
                     void** parameters) {
  gridDim = {grid[0], grid[1], grid[2]};
  blockDim = {threads, 1, 1};
  for (unsigned z = 0; z < grid[2]; z += cluster_z)
    for (blockIdx.y = 0; blockIdx.y < grid[1]; ++blockIdx.y)
      for (blockIdx.x = 0; blockIdx.x < grid[0]; ++blockIdx.x) {
        blockIdx.z = z;
        run_blocks(cluster_z, threads, work, parameters);
      }
}
