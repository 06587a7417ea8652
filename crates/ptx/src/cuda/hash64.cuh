// A deterministic scatter of 64-bit integers: splitmix64's finaliser.
__host__ __device__ __forceinline__ unsigned long long hash64(unsigned long long x)
{
    x ^= x >> 30;
    x *= 0xbf58476d1ce4e5b9ull;
    x ^= x >> 27;
    x *= 0x94d049bb133111ebull;
    return x ^ x >> 31;
}
