/* The rehearsal's nccl.h: the version and how to ask for it; no collective is declared, as none is implemented. */
#ifndef NCCL_H_
#define NCCL_H_
#define NCCL_MAJOR 2
#define NCCL_MINOR 18
#define NCCL_PATCH 5
#define NCCL_VERSION(X, Y, Z) (((X) <= 2 && (Y) <= 8) ? (X) * 1000 + (Y) * 100 + (Z) : (X) * 10000 + (Y) * 100 + (Z))
#define NCCL_VERSION_CODE NCCL_VERSION(NCCL_MAJOR, NCCL_MINOR, NCCL_PATCH)
typedef enum { ncclSuccess = 0, ncclInvalidArgument = 4 } ncclResult_t;
ncclResult_t ncclGetVersion(int *version);
#endif
