// volume.cu: scales a 3-D volume in pitched memory, with the host side that
// allocates it.
//
// Element (x, y, z) lies at  base + z * pitch * height + y * pitch + x * sizeof(float).
//
// Build and run: nvcc -O3 -arch=native volume.cu -o volume && ./volume
// volume.ptx:    nvcc -ptx -arch=compute_75 volume.cu -o volume.ptx
#include <cstdio>
#include <cstdlib>

#include <cuda_runtime.h>

static void check(cudaError_t status, const char *what)
{
    if (status != cudaSuccess) {
        fprintf(stderr, "%s: %s\n", what, cudaGetErrorString(status));
        exit(EXIT_FAILURE);
    }
}

extern "C" __global__ void scale_volume(float *volume, size_t pitch, int width, int height,
                                        int depth)
{
    int x = blockIdx.x * blockDim.x + threadIdx.x;
    int y = blockIdx.y * blockDim.y + threadIdx.y;
    int z = blockIdx.z * blockDim.z + threadIdx.z;
    if (x >= width || y >= height || z >= depth)
        return;

    size_t slice_pitch = pitch * height;
    char *slice = (char *)volume + z * slice_pitch;
    float *row = (float *)(slice + y * pitch);
    row[x] = row[x] * 2.0f;
}

int main()
{
    const int width = 100, height = 90, depth = 80;

    cudaExtent extent = make_cudaExtent(width * sizeof(float), height, depth);
    cudaPitchedPtr volume;
    check(cudaMalloc3D(&volume, extent), "cudaMalloc3D");
    check(cudaMemset3D(volume, 0, extent), "cudaMemset3D");
    printf("rows of %zu bytes, %zu bytes apart\n", width * sizeof(float), volume.pitch);

    dim3 block(32, 4, 2);
    dim3 grid((width + block.x - 1) / block.x, (height + block.y - 1) / block.y,
              (depth + block.z - 1) / block.z);
    scale_volume<<<grid, block>>>((float *)volume.ptr, volume.pitch, width, height, depth);
    check(cudaGetLastError(), "scale_volume");
    check(cudaDeviceSynchronize(), "cudaDeviceSynchronize");
    check(cudaFree(volume.ptr), "cudaFree");
    return EXIT_SUCCESS;
}
