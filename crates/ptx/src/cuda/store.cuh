// Writes x and nothing else.
template <class T> __device__ __forceinline__ void store(T &x)
{
    x = coalescope::some_value<T>();
}
