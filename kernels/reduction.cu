// reduction.cu: adds up an array; each block leaves one partial sum.
//
// All three kernels read global memory the same, perfectly coalesced way. They
// differ in which threads add which words of shared memory.
//
// Launch with BLOCK threads a block.
//
// reduction.ptx: nvcc -ptx -arch=compute_75 reduction.cu -o reduction.ptx
#include <cuda_runtime.h>

#define BLOCK 256

// Threads 0, 2, 4 ... add their right neighbour, then 0, 4, 8 ... and so on:
// every warp keeps working with ever fewer lanes.
extern "C" __global__ void reduce_divergent(const float *in, float *sums, int n)
{
    __shared__ float part[BLOCK];

    unsigned int t = threadIdx.x;
    float sum = 0.0f;
    for (int i = blockIdx.x * blockDim.x + t; i < n; i += blockDim.x * gridDim.x)
        sum += in[i];
    part[t] = sum;
    __syncthreads();

    for (unsigned int s = 1; s < blockDim.x; s *= 2) {
        if (t % (2 * s) == 0)
            part[t] += part[t + s];
        __syncthreads();
    }

    if (t == 0)
        sums[blockIdx.x] = part[0];
}

// The same additions, by the first threads: whole warps finish early, but their
// lanes are 2 * s words apart, which is the same bank again and again.
extern "C" __global__ void reduce_strided(const float *in, float *sums, int n)
{
    __shared__ float part[BLOCK];

    unsigned int t = threadIdx.x;
    float sum = 0.0f;
    for (int i = blockIdx.x * blockDim.x + t; i < n; i += blockDim.x * gridDim.x)
        sum += in[i];
    part[t] = sum;
    __syncthreads();

    for (unsigned int s = 1; s < blockDim.x; s *= 2) {
        unsigned int k = 2 * s * t;
        if (k < blockDim.x)
            part[k] += part[k + s];
        __syncthreads();
    }

    if (t == 0)
        sums[blockIdx.x] = part[0];
}

// The lower half adds the upper half: consecutive words, no conflicts.
extern "C" __global__ void reduce_sequential(const float *in, float *sums, int n)
{
    __shared__ float part[BLOCK];

    unsigned int t = threadIdx.x;
    float sum = 0.0f;
    for (int i = blockIdx.x * blockDim.x + t; i < n; i += blockDim.x * gridDim.x)
        sum += in[i];
    part[t] = sum;
    __syncthreads();

    for (unsigned int s = blockDim.x / 2; s > 0; s >>= 1) {
        if (t < s)
            part[t] += part[t + s];
        __syncthreads();
    }

    if (t == 0)
        sums[blockIdx.x] = part[0];
}
