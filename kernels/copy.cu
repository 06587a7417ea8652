// copy.cu: the reference every other kernel is compared with.
//
// Thread i reads element i and writes element i. The 32 lanes of a warp touch
// 128 consecutive bytes, four 32-byte sectors, in each direction.
//
// copy.ptx: nvcc -ptx -arch=compute_75 copy.cu -o copy.ptx
#include <cuda_runtime.h>

extern "C" __global__ void copy(const float *in, float *out, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n)
        out[i] = in[i];
}
