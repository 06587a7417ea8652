// spmv_csr.cu: y = A * x for a sparse matrix in CSR format.
//
// row[r] .. row[r + 1] are the places of row r's elements in column[] and
// value[].
//
// spmv_csr.ptx: nvcc -ptx -arch=compute_75 spmv_csr.cu -o spmv_csr.ptx
#include <cuda_runtime.h>

// One thread a row. Neighbouring lanes walk through different rows, so their
// reads of column[] and value[] are a row's length apart.
extern "C" __global__ void spmv_scalar(const int *row, const int *column, const float *value,
                                       const float *x, float *y, int rows)
{
    int r = blockIdx.x * blockDim.x + threadIdx.x;
    if (r < rows) {
        float sum = 0.0f;
        for (int j = row[r]; j < row[r + 1]; ++j)
            sum += value[j] * x[column[j]];
        y[r] = sum;
    }
}

#define BLOCK 256
#define LANES 32

// One warp a row. Its lanes read column[] and value[] side by side and add up
// their parts in shared memory.
extern "C" __global__ void spmv_vector(const int *row, const int *column, const float *value,
                                       const float *x, float *y, int rows)
{
    __shared__ float part[BLOCK];

    int lane = threadIdx.x % LANES;
    int r = (blockIdx.x * blockDim.x + threadIdx.x) / LANES;

    float sum = 0.0f;
    if (r < rows)
        for (int j = row[r] + lane; j < row[r + 1]; j += LANES)
            sum += value[j] * x[column[j]];
    part[threadIdx.x] = sum;
    __syncthreads();

    for (int half = LANES / 2; half > 0; half /= 2) {
        if (lane < half)
            part[threadIdx.x] += part[threadIdx.x + half];
        __syncthreads();
    }

    if (lane == 0 && r < rows)
        y[r] = part[threadIdx.x];
}
