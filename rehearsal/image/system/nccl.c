/* The rehearsal's libnccl: knows its version and nothing else. */
#include <nccl.h>

ncclResult_t ncclGetVersion(int *version)
{
    if (!version)
        return ncclInvalidArgument;
    *version = NCCL_VERSION_CODE;
    return ncclSuccess;
}
