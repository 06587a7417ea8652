// größer
__global__ void k(float *a) { load(a[0]); }
