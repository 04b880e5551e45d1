/* A library that every program of a host loads (/etc/ld.so.preload). slurmd, and the programs that slurmd starts, then see the
 * processors and memory of the shape (/etc/rehearsal/processors) instead of the machine's. Other programs see no change. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define MIB 1048576

__attribute__((constructor)) static void shape(void)
{
    unsigned sockets, cores, threads, mib;
    char text[64];
    FILE *file;

    if (strncmp(program_invocation_short_name, "slurmd", 6) || !(file = fopen("/etc/rehearsal/processors", "r")))
        return;
    if (fscanf(file, "%u %u %u %u", &sockets, &cores, &threads, &mib) == 4) {
        snprintf(text, sizeof text, "pack:%u core:%u pu:%u", sockets, cores, threads);
        setenv("HWLOC_SYNTHETIC", text, 1);
        snprintf(text, sizeof text, "%u", mib);
        setenv("REHEARSAL_MEMORY_MIB", text, 1);
    }
    fclose(file);
}

long sysconf(int name)
{
    static long (*real)(int);
    const char *mib = name == _SC_PHYS_PAGES ? getenv("REHEARSAL_MEMORY_MIB") : NULL;

    if (!real)
        real = (long (*)(int))dlsym(RTLD_NEXT, "sysconf");
    return mib ? atol(mib) * (MIB / real(_SC_PAGESIZE)) : real(name);
}
