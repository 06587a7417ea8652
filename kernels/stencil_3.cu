// stencil_3.cu: the mean of each element and its two neighbours.
//
// The three reads of a warp are the same line shifted by one word: 4 sectors
// aligned, 5 to the left, 5 to the right, most of them in L1 already.
//
// stencil_3.ptx: nvcc -ptx -arch=compute_75 stencil_3.cu -o stencil_3.ptx
#include <cuda_runtime.h>

extern "C" __global__ void stencil_3(const float *in, float *out, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i > 0 && i < n - 1)
        out[i] = (in[i - 1] + in[i] + in[i + 1]) / 3.0f;
}

#define BLOCK 256

// Each block keeps its elements and one on either side in shared memory, so
// that every element is read from global memory once.
extern "C" __global__ void stencil_3_shared(const float *in, float *out, int n)
{
    __shared__ float tile[BLOCK + 2];

    int i = blockIdx.x * blockDim.x + threadIdx.x;
    int t = threadIdx.x + 1;
    if (i < n) {
        tile[t] = in[i];
        if (threadIdx.x == 0 && i > 0)
            tile[0] = in[i - 1];
        if (threadIdx.x == blockDim.x - 1 && i + 1 < n)
            tile[t + 1] = in[i + 1];
    }
    __syncthreads();

    if (i > 0 && i < n - 1)
        out[i] = (tile[t - 1] + tile[t] + tile[t + 1]) / 3.0f;
}
