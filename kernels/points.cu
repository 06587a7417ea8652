// points.cu: vector addition of 3-D points, as an array of structures and as a
// structure of arrays.
//
// In the array of structures each of the three reads of a strides over 12
// bytes: twelve sectors for 32 floats. All of their bytes are used, but by
// three different instructions.
//
// points.ptx: nvcc -ptx -arch=compute_75 points.cu -o points.ptx
#include <cuda_runtime.h>

struct Point {
    float x, y, z;
};

extern "C" __global__ void add_points(const Point *a, const Point *b, Point *c, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) {
        c[i].x = a[i].x + b[i].x;
        c[i].y = a[i].y + b[i].y;
        c[i].z = a[i].z + b[i].z;
    }
}

extern "C" __global__ void add_arrays(const float *ax, const float *ay, const float *az,
                                      const float *bx, const float *by, const float *bz,
                                      float *cx, float *cy, float *cz, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) {
        cx[i] = ax[i] + bx[i];
        cy[i] = ay[i] + by[i];
        cz[i] = az[i] + bz[i];
    }
}
