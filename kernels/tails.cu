// tails.cu: warps that are not full, because lanes are switched off or because
// the data ends.
//
// A lane that is off asks for nothing: the warp moves the sectors of the others.
//
// tails.ptx: nvcc -ptx -arch=compute_75 tails.cu -o tails.ptx
#include <cuda_runtime.h>

// Only the first `lanes` lanes of each warp copy.
extern "C" __global__ void copy_first_lanes(const float *in, float *out, int n, int lanes)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n && threadIdx.x % warpSize < lanes)
        out[i] = in[i];
}

// As many lanes copy, spread evenly over the warp; `lanes` divides 32.
extern "C" __global__ void copy_spread_lanes(const float *in, float *out, int n, int lanes)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n && threadIdx.x % (warpSize / lanes) == 0)
        out[i] = in[i];
}

// Threads past the end leave.
extern "C" __global__ void copy_early_return(const float *in, float *out, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n)
        return;
    out[i] = in[i];
}

// A grid of any size walks over an array of any size.
extern "C" __global__ void copy_grid_stride(const float *in, float *out, int n)
{
    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += blockDim.x * gridDim.x)
        out[i] = in[i];
}
