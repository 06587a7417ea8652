// vector_cast.cu: a float array copied four floats at a time, by a cast.
//
// The cast is a promise that the address is a multiple of 16 bytes. Elements
// that don't fill a vector are left to the first threads.
//
// vector_cast.ptx: nvcc -ptx -arch=compute_75 vector_cast.cu -o vector_cast.ptx
#include <cuda_runtime.h>

extern "C" __global__ void copy_vectors(const float *in, float *out, int n)
{
    int first = blockIdx.x * blockDim.x + threadIdx.x;
    int threads = blockDim.x * gridDim.x;
    for (int i = first; i < n / 4; i += threads)
        reinterpret_cast<float4 *>(out)[i] = reinterpret_cast<const float4 *>(in)[i];

    int rest = n / 4 * 4 + first;
    if (rest < n)
        out[rest] = in[rest];
}
