// histogram.cu: counts values in bins, with atomics on global memory and with a
// private histogram in each block's shared memory.
//
// Lanes that hit the same bin have to take turns. The fewer the bins, the more
// often they meet.
//
// histogram.ptx: nvcc -ptx -arch=compute_75 histogram.cu -o histogram.ptx
#include <cuda_runtime.h>

#define BINS 256

extern "C" __global__ void histogram_global(const unsigned *data, unsigned *bins, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n)
        atomicAdd(&bins[data[i] % BINS], 1u);
}

// Launch with far fewer threads than elements: every block adds all its bins to
// the result once.
extern "C" __global__ void histogram_shared(const unsigned *data, unsigned *bins, int n)
{
    __shared__ unsigned local[BINS];

    for (int b = threadIdx.x; b < BINS; b += blockDim.x)
        local[b] = 0;
    __syncthreads();

    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += blockDim.x * gridDim.x)
        atomicAdd(&local[data[i] % BINS], 1u);
    __syncthreads();

    for (int b = threadIdx.x; b < BINS; b += blockDim.x)
        atomicAdd(&bins[b], local[b]);
}
