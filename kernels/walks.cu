// walks.cu: adds up the rows, or the columns, of a row-major matrix with one
// thread each.
//
// A thread that walks along its row reads consecutive words, which is right
// for a CPU. Here it is the lanes that should read consecutive words: the
// threads that walk down the columns do.
//
// walks.ptx: nvcc -ptx -arch=compute_75 walks.cu -o walks.ptx
#include <cuda_runtime.h>

extern "C" __global__ void sum_rows(const float *matrix, float *sums, int width, int height)
{
    int row = blockIdx.x * blockDim.x + threadIdx.x;
    if (row < height) {
        float sum = 0.0f;
        for (int column = 0; column < width; ++column)
            sum += matrix[row * width + column];
        sums[row] = sum;
    }
}

extern "C" __global__ void sum_columns(const float *matrix, float *sums, int width, int height)
{
    int column = blockIdx.x * blockDim.x + threadIdx.x;
    if (column < width) {
        float sum = 0.0f;
        for (int row = 0; row < height; ++row)
            sum += matrix[row * width + column];
        sums[column] = sum;
    }
}
