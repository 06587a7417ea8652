// transpose_naive.cu: out = transpose of in, without shared memory.
//
// One side walks along rows, the other down columns. Whichever side walks down
// a column touches 32 sectors with each warp instruction.
//
// transpose_naive.ptx: nvcc -ptx -arch=compute_75 transpose_naive.cu -o transpose_naive.ptx
#include <cuda_runtime.h>

// Reads rows, writes columns.
extern "C" __global__ void transpose_naive(const float *in, float *out, int width, int height)
{
    int x = blockIdx.x * blockDim.x + threadIdx.x;
    int y = blockIdx.y * blockDim.y + threadIdx.y;
    if (x < width && y < height)
        out[x * height + y] = in[y * width + x];
}

// Reads columns, writes rows.
extern "C" __global__ void transpose_read_columns(const float *in, float *out, int width, int height)
{
    int x = blockIdx.x * blockDim.x + threadIdx.x;
    int y = blockIdx.y * blockDim.y + threadIdx.y;
    if (x < height && y < width)
        out[y * height + x] = in[x * width + y];
}
