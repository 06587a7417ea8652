namespace coalescope {

inline void check(cudaError_t status, const char *what)
{
    if (status != cudaSuccess) {
        fprintf(stderr, "%s: %s\n", what, cudaGetErrorString(status));
        exit(EXIT_FAILURE);
    }
}

// Memory on the device, its first element `offset` bytes in.
inline char *allocate(size_t bytes, size_t offset)
{
    void *base = nullptr;
    check(cudaMalloc(&base, bytes + offset), "cudaMalloc");
    return static_cast<char *>(base) + offset;
}

// Page-locked memory of the host, which kernels read over the bus.
inline char *allocate_pinned(size_t bytes, size_t offset)
{
    void *base = nullptr;
    check(cudaHostAlloc(&base, bytes + offset, cudaHostAllocDefault), "cudaHostAlloc");
    return static_cast<char *>(base) + offset;
}

// An address for a kernel's parameter of any pointer type.
struct AnyPointer {
    void *address;
    template <class T> operator T *() const { return static_cast<T *>(address); }
};

// data[i] = value(i), in rows of `columns` elements, `pitch` bytes apart.
template <class T, class Value>
__global__ void fill_kernel(char *data, size_t count, size_t columns, size_t pitch, Value value)
{
    size_t stride = size_t(gridDim.x) * blockDim.x;
    for (size_t i = size_t(blockIdx.x) * blockDim.x + threadIdx.x; i < count; i += stride)
        *reinterpret_cast<T *>(data + i / columns * pitch + i % columns * sizeof(T)) =
            static_cast<T>(value(i));
}

template <class T, class Value>
void fill(void *data, size_t count, size_t columns, size_t pitch, Value value)
{
    if (count > 0)
        fill_kernel<T><<<1024, 256>>>(static_cast<char *>(data), count, columns, pitch, value);
    check(cudaGetLastError(), "fill");
}

__host__ __device__ inline unsigned scatter(size_t i)
{
    unsigned x = unsigned(i) * 0x9e3779b9u + unsigned(i >> 32);
    return (x ^ x >> 15) * 0x85ebca6bu;
}

// Numbers from 1 to 2: data, but no surprises in arithmetic.
struct Numbers {
    __host__ __device__ double operator()(size_t i) const
    {
        return 1.0 + scatter(i) * 0x1p-32;
    }
};

// Words that are such numbers when read as floats.
struct Words {
    __host__ __device__ unsigned operator()(size_t i) const
    {
        return 0x3f800000u | scatter(i) >> 9;
    }
};

// Launches once to warm up, then `samples` times between events.
template <class Launch> void time_launches(const char *name, int samples, Launch launch)
{
    launch();
    check(cudaGetLastError(), name);
    check(cudaDeviceSynchronize(), name);

    cudaEvent_t start, stop;
    check(cudaEventCreate(&start), "cudaEventCreate");
    check(cudaEventCreate(&stop), "cudaEventCreate");
    std::vector<float> milliseconds(samples);
    for (float &sample : milliseconds) {
        check(cudaEventRecord(start), "cudaEventRecord");
        launch();
        check(cudaEventRecord(stop), "cudaEventRecord");
        check(cudaEventSynchronize(stop), name);
        check(cudaEventElapsedTime(&sample, start, stop), "cudaEventElapsedTime");
    }
    std::sort(milliseconds.begin(), milliseconds.end());
    printf("%s: median %.4f ms of %d launches, %.4f to %.4f ms\n", name,
           milliseconds[samples / 2], samples, milliseconds.front(), milliseconds.back());
}

} // namespace coalescope
