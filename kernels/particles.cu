// particles.cu: moves particles, in three layouts.
//
//   AoS    x y z u v w m q   x y z u v w m q   ...      one particle after another
//   SoA    x x x x ...  y y y y ...  z z z z ...        one field after another
//   AoSoA  x*32 y*32 ... q*32   x*32 y*32 ... q*32 ...  one warp after another
//
// The step needs six of the eight fields. In the array of structures the other
// two travel along.
//
// particles.ptx: nvcc -ptx -arch=compute_75 particles.cu -o particles.ptx
#include <cuda_runtime.h>

#define WIDTH 32

struct Particle {
    float x, y, z;
    float u, v, w;
    float mass, charge;
};

struct ParticleBlock {
    float x[WIDTH], y[WIDTH], z[WIDTH];
    float u[WIDTH], v[WIDTH], w[WIDTH];
    float mass[WIDTH], charge[WIDTH];
};

extern "C" __global__ void move_aos(Particle *particles, int n, float dt)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n)
        return;
    particles[i].x += particles[i].u * dt;
    particles[i].y += particles[i].v * dt;
    particles[i].z += particles[i].w * dt;
}

extern "C" __global__ void move_soa(float *x, float *y, float *z, const float *u, const float *v,
                                    const float *w, int n, float dt)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n)
        return;
    x[i] += u[i] * dt;
    y[i] += v[i] * dt;
    z[i] += w[i] * dt;
}

extern "C" __global__ void move_aosoa(ParticleBlock *blocks, int n, float dt)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n)
        return;
    int b = i / WIDTH, k = i % WIDTH;
    blocks[b].x[k] += blocks[b].u[k] * dt;
    blocks[b].y[k] += blocks[b].v[k] * dt;
    blocks[b].z[k] += blocks[b].w[k] * dt;
}
