// offset_copy.cu: a copy that starts `offset` elements into its array.
//
// cudaMalloc returns addresses that are multiples of 256 bytes, so the offset
// alone decides where a warp's 128 bytes start. If they don't start on a
// 32-byte boundary they touch five sectors in place of four.
//
// offset_copy.ptx: nvcc -ptx -arch=compute_75 offset_copy.cu -o offset_copy.ptx
#include <cuda_runtime.h>

// Only the reads are misaligned.
extern "C" __global__ void offset_read(const float *in, float *out, int n, int offset)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n)
        out[i] = in[i + offset];
}

// Reads and writes are misaligned.
extern "C" __global__ void offset_copy(const float *in, float *out, int n, int offset)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x + offset;
    if (i < n + offset)
        out[i] = in[i];
}
