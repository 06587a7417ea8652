// lane_orders.cu: the same words of memory, handed to the lanes in other orders.
//
// The hardware collects the sectors that a warp's addresses fall on. It doesn't
// ask which lane wants which of them.
//
// lane_orders.ptx: nvcc -ptx -arch=compute_75 lane_orders.cu -o lane_orders.ptx
#include <cuda_runtime.h>

// The whole array is read backwards.
extern "C" __global__ void copy_reversed(const float *in, float *out, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n)
        out[i] = in[n - 1 - i];
}

// Lane l reads the word of lane l ^ mask: neighbours, halves or all lanes swap.
extern "C" __global__ void copy_swapped(const float *in, float *out, int n, int mask)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n)
        out[i] = in[i ^ mask];
}

// Lane l reads the word of lane (l * step) % 32: a permutation for odd steps.
extern "C" __global__ void copy_permuted(const float *in, float *out, int n, int step)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    int lane = threadIdx.x % 32;
    if (i < n)
        out[i] = in[i - lane + lane * step % 32];
}

// `share` neighbouring threads read the same word.
extern "C" __global__ void broadcast(const float *in, float *out, int n, int share)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n)
        out[i] = in[i / share];
}
