// stencil_5.cu: one Jacobi step of the 2-D heat equation.
//
// North and south are coalesced, a row away. West and east are the row itself,
// shifted by a word. The shape of the block decides how many of the five
// reads find their sectors in L1.
//
// stencil_5.ptx: nvcc -ptx -arch=compute_75 stencil_5.cu -o stencil_5.ptx
#include <cuda_runtime.h>

#define AT(x, y) ((y) * width + (x))

extern "C" __global__ void stencil_5(const float *in, float *out, int width, int height)
{
    int x = blockIdx.x * blockDim.x + threadIdx.x;
    int y = blockIdx.y * blockDim.y + threadIdx.y;
    if (x < 1 || x >= width - 1 || y < 1 || y >= height - 1)
        return;
    out[AT(x, y)] = 0.2f * (in[AT(x, y)] + in[AT(x - 1, y)] + in[AT(x + 1, y)] +
                            in[AT(x, y - 1)] + in[AT(x, y + 1)]);
}
