// vector_add.cu: c = a + b, the first program of every CUDA course, complete
// with its host side. `offset` shifts all three arrays by that many elements
// to show what a misaligned start costs.
//
// Build and run:  nvcc -O3 -arch=native vector_add.cu -o vector_add && ./vector_add 1
// vector_add.ptx: nvcc -ptx -arch=compute_75 vector_add.cu -o vector_add.ptx
#include <cstdio>
#include <cstdlib>
#include <vector>

#include <cuda_runtime.h>

// Every runtime call returns a status that is too easily forgotten.
#define CHECK(call)                                                                  \
    do {                                                                             \
        cudaError_t status_ = (call);                                                \
        if (status_ != cudaSuccess) {                                                \
            fprintf(stderr, "%s:%d: %s\n", __FILE__, __LINE__,                       \
                    cudaGetErrorString(status_));                                    \
            exit(EXIT_FAILURE);                                                      \
        }                                                                            \
    } while (0)

extern "C" __global__ void vector_add(const float *a, const float *b, float *c, int n, int offset)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n)
        c[i + offset] = a[i + offset] + b[i + offset];
}

static float random_float()
{
    return static_cast<float>(rand()) / RAND_MAX;
}

int main(int argc, char **argv)
{
    const int n = 1 << 25;
    const int offset = argc > 1 ? atoi(argv[1]) : 0;
    if (offset < 0) {
        fprintf(stderr, "usage: %s [offset in elements, 0 or more]\n", argv[0]);
        return EXIT_FAILURE;
    }
    const size_t bytes = (static_cast<size_t>(n) + offset) * sizeof(float);

    std::vector<float> a(n + offset), b(n + offset), c(n + offset);
    for (auto &x : a) x = random_float();
    for (auto &x : b) x = random_float();

    float *d_a, *d_b, *d_c;
    CHECK(cudaMalloc(&d_a, bytes));
    CHECK(cudaMalloc(&d_b, bytes));
    CHECK(cudaMalloc(&d_c, bytes));
    CHECK(cudaMemcpy(d_a, a.data(), bytes, cudaMemcpyHostToDevice));
    CHECK(cudaMemcpy(d_b, b.data(), bytes, cudaMemcpyHostToDevice));

    const int block = 256;
    const int grid = (n + block - 1) / block;

    cudaEvent_t start, stop;
    CHECK(cudaEventCreate(&start));
    CHECK(cudaEventCreate(&stop));

    // The first launch pays for loading the module; it isn't timed.
    vector_add<<<grid, block>>>(d_a, d_b, d_c, n, offset);
    CHECK(cudaGetLastError());
    CHECK(cudaDeviceSynchronize());

    const int repeats = 20;
    CHECK(cudaEventRecord(start));
    for (int r = 0; r < repeats; ++r)
        vector_add<<<grid, block>>>(d_a, d_b, d_c, n, offset);
    CHECK(cudaEventRecord(stop));
    CHECK(cudaEventSynchronize(stop));

    float milliseconds = 0.0f;
    CHECK(cudaEventElapsedTime(&milliseconds, start, stop));
    milliseconds /= repeats;

    CHECK(cudaMemcpy(c.data(), d_c, bytes, cudaMemcpyDeviceToHost));
    for (int i = offset; i < n + offset; ++i) {
        if (c[i] != a[i] + b[i]) {
            fprintf(stderr, "wrong at %d: %f, not %f\n", i, c[i], a[i] + b[i]);
            return EXIT_FAILURE;
        }
    }

    // Two arrays read, one written.
    printf("offset %d: %.3f ms, %.1f GB/s\n", offset, milliseconds,
           3.0 * n * sizeof(float) / milliseconds / 1e6);

    CHECK(cudaEventDestroy(start));
    CHECK(cudaEventDestroy(stop));
    CHECK(cudaFree(d_a));
    CHECK(cudaFree(d_b));
    CHECK(cudaFree(d_c));
    return EXIT_SUCCESS;
}
