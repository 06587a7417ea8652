// rgb.cu: takes one channel out of an interleaved image, R G B R G B ...
//
// One byte out of three is wanted, and all three are fetched: 32 lanes touch
// 96 bytes, three sectors, for 32 bytes of red.
//
// rgb.ptx: nvcc -ptx -arch=compute_75 rgb.cu -o rgb.ptx
#include <cuda_runtime.h>

// The pixel as CUDA's three-component vector.
extern "C" __global__ void red_of_uchar3(const uchar3 *pixels, unsigned char *red, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n)
        red[i] = pixels[i].x;
}

// The pixel as three bytes.
extern "C" __global__ void red_of_bytes(const unsigned char *bytes, unsigned char *red, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n)
        red[i] = bytes[3 * i];
}

// All three channels of a pixel, three accesses.
extern "C" __global__ void grey_of_bytes(const unsigned char *bytes, unsigned char *grey, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n)
        grey[i] = (77 * bytes[3 * i] + 150 * bytes[3 * i + 1] + 29 * bytes[3 * i + 2]) / 256;
}

// The channels in planes of their own.
extern "C" __global__ void red_of_planes(const unsigned char *planes, unsigned char *red, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n)
        red[i] = planes[i];
}
