// transpose_tiled.cu: out = transpose of in, through a tile of shared memory.
//
// Both sides walk along rows of global memory; the turn happens in the tile.
// Without padding a column of the tile lies in one bank. One more column
// (PAD 1) spreads it over all 32.
//
// Launch with TILE_DIM x BLOCK_ROWS threads; each thread moves
// TILE_DIM / BLOCK_ROWS elements.
//
// transpose_tiled.ptx: nvcc -ptx -arch=compute_75 transpose_tiled.cu -o transpose_tiled.ptx
#include <cuda_runtime.h>

#define TILE_DIM 32
#define BLOCK_ROWS 8
#define PAD 0

extern "C" __global__ void transpose_tiled(const float *in, float *out, int width, int height)
{
    __shared__ float tile[TILE_DIM][TILE_DIM + PAD];

    int x = blockIdx.x * TILE_DIM + threadIdx.x;
    int y = blockIdx.y * TILE_DIM + threadIdx.y;
    for (int j = 0; j < TILE_DIM; j += BLOCK_ROWS)
        if (x < width && y + j < height)
            tile[threadIdx.y + j][threadIdx.x] = in[(y + j) * width + x];

    __syncthreads();

    // The block's place in the transposed matrix.
    x = blockIdx.y * TILE_DIM + threadIdx.x;
    y = blockIdx.x * TILE_DIM + threadIdx.y;
    for (int j = 0; j < TILE_DIM; j += BLOCK_ROWS)
        if (x < height && y + j < width)
            out[(y + j) * height + x] = tile[threadIdx.x][threadIdx.y + j];
}
