namespace coalescope {

// Makes the compiler have `value` in registers here.
template <class T> __device__ __forceinline__ void keep(const T &value)
{
    if constexpr (sizeof(T) % 4 == 0) {
        unsigned words[sizeof(T) / 4];
        memcpy(words, &value, sizeof(T));
#pragma unroll
        for (unsigned word : words)
            asm volatile("" ::"r"(word));
    } else if constexpr (sizeof(T) == 2) {
        unsigned short word;
        memcpy(&word, &value, sizeof(T));
        asm volatile("" ::"h"(word));
    } else {
        unsigned char bytes[sizeof(T)];
        memcpy(bytes, &value, sizeof(T));
#pragma unroll
        for (unsigned char byte : bytes)
            asm volatile("" ::"r"((unsigned)byte));
    }
}

// A value that differs between threads.
template <class T> __device__ __forceinline__ T some_value()
{
    unsigned words[(sizeof(T) + 3) / 4];
#pragma unroll
    for (unsigned &word : words)
        word = blockIdx.x * 0x9e3779b9u + threadIdx.x;
    T value;
    memcpy(&value, words, sizeof(T));
    return value;
}

} // namespace coalescope
