// Reads x and nothing else.
template <class T> __device__ __forceinline__ T load(const T &x)
{
    T value = x;
    coalescope::keep(value);
    return value;
}
