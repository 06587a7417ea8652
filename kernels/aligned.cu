// aligned.cu: what alignment buys, for structs, for pointers and for tiles in
// shared memory.
//
// aligned.ptx: nvcc -ptx -arch=compute_75 aligned.cu -o aligned.ptx
#include <cstdint>

#include <cuda_runtime.h>

// 12 bytes, aligned to 4.
struct Packed {
    float x, y, z;
};

// 16 bytes, aligned to 16: two of them fill a sector, none straddles two.
struct __align__(16) Aligned {
    float x, y, z;
};

// Three accesses of 4 bytes, 12 bytes apart.
extern "C" __global__ void length_packed(const Packed *points, float *out, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) {
        float x = points[i].x, y = points[i].y, z = points[i].z;
        out[i] = x * x + y * y + z * z;
    }
}

// One access of 16 bytes. The compiler can't do this for Packed.
extern "C" __global__ void length_aligned(const Aligned *points, float *out, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) {
        float4 p = reinterpret_cast<const float4 *>(points)[i];
        out[i] = p.x * p.x + p.y * p.y + p.z * p.z;
    }
}

// 20 bytes, aligned to 4: most straddle two sectors.
struct Node {
    float x, y, z, u, v;
};

// 32 bytes, aligned to 32: each has a sector of its own, three eighths empty.
struct __align__(32) AlignedNode {
    float x, y, z, u, v;
};

extern "C" __global__ void sum_nodes(const Node *nodes, float *out, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n)
        out[i] = nodes[i].x + nodes[i].y + nodes[i].z + nodes[i].u + nodes[i].v;
}

extern "C" __global__ void sum_aligned_nodes(const AlignedNode *nodes, float *out, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n)
        out[i] = nodes[i].x + nodes[i].y + nodes[i].z + nodes[i].u + nodes[i].v;
}

// Rounds the pointer up to the next multiple of 128 bytes before use. The
// array needs 31 spare elements.
extern "C" __global__ void copy_rounded_up(const float *in, float *out, int n)
{
    const float *p = (const float *)(((uintptr_t)in + 127) & ~(uintptr_t)127);
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n)
        out[i] = p[i];
}

// Takes the pointer as it comes.
extern "C" __global__ void copy_as_is(const float *in, float *out, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n)
        out[i] = in[i];
}

#define TILE 1024

// Stages 1024 floats in shared memory and reads them back four at a time, which
// needs the tile on a multiple of 16 bytes.
extern "C" __global__ void stage_aligned(const float *in, float *out)
{
    __shared__ __align__(16) float tile[TILE];
    for (int k = threadIdx.x; k < TILE; k += blockDim.x)
        tile[k] = in[blockIdx.x * TILE + k];
    __syncthreads();
    float4 q = reinterpret_cast<float4 *>(tile)[threadIdx.x];
    reinterpret_cast<float4 *>(out)[blockIdx.x * (TILE / 4) + threadIdx.x] = q;
}
