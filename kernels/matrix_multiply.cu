// matrix_multiply.cu: c = a * b for square matrices, straight and in tiles.
//
// matrix_multiply.ptx: nvcc -ptx -arch=compute_75 matrix_multiply.cu -o matrix_multiply.ptx
#include <cuda_runtime.h>

#define TILE 16

// Each thread reads a row of a and a column of b. The lanes of a warp share the
// row, which is a broadcast, and read the column side by side.
extern "C" __global__ void multiply_naive(const float *a, const float *b, float *c, int n)
{
    int column = blockIdx.x * blockDim.x + threadIdx.x;
    int row = blockIdx.y * blockDim.y + threadIdx.y;
    if (row < n && column < n) {
        float sum = 0.0f;
        for (int k = 0; k < n; ++k)
            sum += a[row * n + k] * b[k * n + column];
        c[row * n + column] = sum;
    }
}

// Each block brings a tile of a and a tile of b into shared memory at a time.
// n must be a multiple of TILE.
extern "C" __global__ void multiply_tiled(const float *a, const float *b, float *c, int n)
{
    __shared__ float ta[TILE][TILE];
    __shared__ float tb[TILE][TILE];

    int tx = threadIdx.x, ty = threadIdx.y;
    int column = blockIdx.x * TILE + tx;
    int row = blockIdx.y * TILE + ty;

    float sum = 0.0f;
    for (int t = 0; t < n / TILE; ++t) {
        ta[ty][tx] = a[row * n + t * TILE + tx];
        tb[ty][tx] = b[(t * TILE + ty) * n + column];
        __syncthreads();
        for (int k = 0; k < TILE; ++k)
            sum += ta[ty][k] * tb[k][tx];
        __syncthreads();
    }
    c[row * n + column] = sum;
}
