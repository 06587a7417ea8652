// spmv_ell.cu: y = A * x for a sparse matrix in ELLPACK format.
//
// Every row has `width` places, and they are stored column by column: the lanes
// of a warp, one row each, read side by side. Only x stays random.
//
// spmv_ell.ptx: nvcc -ptx -arch=compute_75 spmv_ell.cu -o spmv_ell.ptx
#include <cuda_runtime.h>

extern "C" __global__ void spmv_ell(const int *column, const float *value, const float *x, float *y,
                                    int rows, int width)
{
    int r = blockIdx.x * blockDim.x + threadIdx.x;
    if (r >= rows)
        return;
    float sum = 0.0f;
    for (int k = 0; k < width; ++k)
        sum += value[k * rows + r] * x[column[k * rows + r]];
    y[r] = sum;
}
