// gather.cu: reads, or writes, where an index array says.
//
// The index itself is read contiguously. Where the data access falls depends on
// its contents: no declaration can make it coalesced.
//
// gather.ptx: nvcc -ptx -arch=compute_75 gather.cu -o gather.ptx
#include <cuda_runtime.h>

extern "C" __global__ void gather(const float *in, const int *index, float *out, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n)
        out[i] = in[index[i]];
}

// The indices must all be different, or the result depends on the order.
extern "C" __global__ void scatter(const float *in, const int *index, float *out, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n)
        out[index[i]] = in[i];
}
