/* Makes sysconf() say that the machine has as much memory as REHEARSAL_MEMORY_MIB, for programs that ask in that way. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdlib.h>
#include <unistd.h>

#define MIB 1048576

long sysconf(int name)
{
    long (*real)(int) = (long (*)(int))dlsym(RTLD_NEXT, "sysconf");
    const char *mib = name == _SC_PHYS_PAGES ? getenv("REHEARSAL_MEMORY_MIB") : NULL;
    return mib ? atol(mib) * (MIB / real(_SC_PAGESIZE)) : real(name);
}
