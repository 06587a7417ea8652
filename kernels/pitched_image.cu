// pitched_image.cu: brightens an image whose rows are `pitch` bytes apart, with
// the host side that allocates it.
//
// cudaMallocPitch pads rows so that each starts on an aligned address. The
// pitch is in bytes, whatever the element: rows are found through char *.
//
// Build and run:     nvcc -O3 -arch=native pitched_image.cu -o pitched_image && ./pitched_image
// pitched_image.ptx: nvcc -ptx -arch=compute_75 pitched_image.cu -o pitched_image.ptx
#include <cstdio>
#include <cstdlib>
#include <vector>

#include <cuda_runtime.h>

#define CHECK(call)                                                                  \
    do {                                                                             \
        cudaError_t status_ = (call);                                                \
        if (status_ != cudaSuccess) {                                                \
            fprintf(stderr, "%s:%d: %s\n", __FILE__, __LINE__,                       \
                    cudaGetErrorString(status_));                                    \
            exit(EXIT_FAILURE);                                                      \
        }                                                                            \
    } while (0)

extern "C" __global__ void brighten(float *image, size_t pitch, int width, int height)
{
    int x = blockIdx.x * blockDim.x + threadIdx.x;
    int y = blockIdx.y * blockDim.y + threadIdx.y;
    if (x < width && y < height) {
        float *pixel = (float *)((char *)image + y * pitch) + x;
        *pixel = *pixel * 1.5f;
    }
}

int main()
{
    const int width = 1001, height = 2048;
    std::vector<float> image(width * height, 1.0f);

    float *d_image = nullptr;
    size_t pitch = 0;
    CHECK(cudaMallocPitch(&d_image, &pitch, width * sizeof(float), height));
    printf("rows of %zu bytes, %zu bytes apart\n", width * sizeof(float), pitch);

    CHECK(cudaMemcpy2D(d_image, pitch, image.data(), width * sizeof(float),
                       width * sizeof(float), height, cudaMemcpyHostToDevice));

    dim3 block(32, 8);
    dim3 grid((width + block.x - 1) / block.x, (height + block.y - 1) / block.y);
    brighten<<<grid, block>>>(d_image, pitch, width, height);
    CHECK(cudaGetLastError());

    CHECK(cudaMemcpy2D(image.data(), width * sizeof(float), d_image, pitch,
                       width * sizeof(float), height, cudaMemcpyDeviceToHost));
    for (float pixel : image) {
        if (pixel != 1.5f) {
            fprintf(stderr, "wrong: %f\n", pixel);
            return EXIT_FAILURE;
        }
    }
    CHECK(cudaFree(d_image));
    return EXIT_SUCCESS;
}
