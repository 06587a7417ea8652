// mixed_types.cu: elements of several types, side by side in one struct, in
// arrays of their own, and different ones for different lanes.
//
// mixed_types.ptx: nvcc -ptx -arch=compute_75 mixed_types.cu -o mixed_types.ptx
#include <cuda_runtime.h>

// 24 bytes: flag at 0, kind at 2, id at 4, weight at 8, count at 16.
struct Record {
    char flag;
    short kind;
    int id;
    double weight;
    float count;
};

// One access for each field; each strides over the whole struct.
extern "C" __global__ void sum_records(const Record *records, float *out, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n)
        out[i] = records[i].flag + records[i].kind + records[i].id +
                 (float)records[i].weight + records[i].count;
}

// The same fields, one array each: each access is contiguous at its own width.
extern "C" __global__ void sum_arrays(const char *flag, const short *kind, const int *id,
                                      const double *weight, const float *count, float *out, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n)
        out[i] = flag[i] + kind[i] + id[i] + (float)weight[i] + count[i];
}

// Even lanes read the words as int, odd lanes as float. A warp can't execute
// two instructions at once: it executes one after the other, half masked.
extern "C" __global__ void read_by_parity(const int *words, float *out, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) {
        if (i % 2 == 0)
            out[i] = words[i];
        else
            out[i] = reinterpret_cast<const float *>(words)[i];
    }
}
