// strided.cu: one element out of `stride`.
//
// The gap between neighbouring lanes is stride * 4 bytes, so a warp's 32
// elements spread over `stride` times as many bytes. Once lanes are 32 bytes
// apart (stride 8) each has a sector of its own and it can't get worse.
//
// strided.ptx: nvcc -ptx -arch=compute_75 strided.cu -o strided.ptx
#include <cuda_runtime.h>

// Gathers every stride-th element into a dense array.
extern "C" __global__ void strided_read(const float *in, float *out, int n, int stride)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n)
        out[i] = in[i * stride];
}

// Spreads a dense array over every stride-th element.
extern "C" __global__ void strided_write(const float *in, float *out, int n, int stride)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n)
        out[i * stride] = in[i];
}
