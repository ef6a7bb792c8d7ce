// Marks functions that compile for the host and, under nvcc, for the GPU too.
#pragma once

#ifdef __CUDACC__
#define TESSERA_HOST_DEVICE __host__ __device__
#else
#define TESSERA_HOST_DEVICE
#endif
