/* The rehearsal's aws-ofi-nccl: looks for EFA devices in the folders in which libfabric looks, and logs what the genuine plugin
 * logs about these devices. This plugin moves no byte: the struct with its functions ends after the member `devices`, so a
 * program can load the plugin and ask for devices, but cannot send. /etc/rehearsal/efa has the protocol that the genuine plugin
 * picks on this instance type. */
#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { INFO = 3, INIT_AND_NET = 0x1 | 0x10, SUCCESS = 0, SYSTEM_ERROR = 2 };

typedef void logger(int level, unsigned long subsystems, const char *file, int line, const char *format, ...);

static int nics;
static char protocol[16] = "SENDRECV";

static int is_efa(const char *device)
{
    char path[512], target[256] = "";
    snprintf(path, sizeof path, "/sys/class/infiniband/%s/device/driver", device);
    const char *driver = readlink(path, target, sizeof target - 1) > 0 ? strrchr(target, '/') : NULL;
    return driver && !strcmp(driver, "/efa");
}

/* A verbs library knows only the devices that are listed in this folder. */
static int count_nics(void)
{
    DIR *folder = opendir("/sys/class/infiniband_verbs");
    struct dirent *entry;
    int found = 0;
    while (folder && (entry = readdir(folder))) {
        char path[512], device[64] = "";
        snprintf(path, sizeof path, "/sys/class/infiniband_verbs/%s/ibdev", entry->d_name);
        FILE *file = entry->d_name[0] != '.' ? fopen(path, "r") : NULL;
        if (file && fscanf(file, "%63s", device) == 1) found += is_efa(device);
        if (file) fclose(file);
    }
    if (folder) closedir(folder);
    return found;
}

static int count_gpus(void)
{
    FILE *file = fopen("/etc/rehearsal/gpus", "r");
    char line[256];
    int found = 0;
    while (file && fgets(line, sizeof line, file)) found++;
    if (file) fclose(file);
    return found;
}

static int start(logger *log, void *profiler)
{
    const char *provider = getenv("FI_PROVIDER");
    FILE *file = fopen("/etc/rehearsal/efa", "r");
    (void)profiler;
    log(INFO, INIT_AND_NET, __FILE__, __LINE__, "NET/OFI Initializing aws-ofi-nccl %s", PLUGIN_VERSION);
    log(INFO, INIT_AND_NET, __FILE__, __LINE__, "NET/OFI Using Libfabric version %s", LIBFABRIC_VERSION);
    if (file && fscanf(file, "%15s", protocol) != 1) strcpy(protocol, "SENDRECV");
    if (file) fclose(file);
    nics = provider && *provider && strcmp(provider, "efa") ? 0 : count_nics();
    if (nics == 0) {
        log(INFO, INIT_AND_NET, __FILE__, __LINE__, "NET/OFI No eligible providers were found");
        return SYSTEM_ERROR;
    }
    log(INFO, INIT_AND_NET, __FILE__, __LINE__, "NET/OFI Using transport protocol %s (platform set)", protocol);
    /* RDMA writes need the fabric that libfabric calls efa-direct; messages use the older fabric, which libfabric calls efa. */
    log(INFO, INIT_AND_NET, __FILE__, __LINE__, "NET/OFI Selected provider is efa, fabric is %s (found %d nics)",
        strcmp(protocol, "RDMA") ? "efa" : "efa-direct", nics);
    return SUCCESS;
}

/* With the RDMA protocol, the plugin combines all NICs near one GPU into one device. */
static int devices(int *count)
{
    int gpus = count_gpus();
    *count = !strcmp(protocol, "RDMA") && gpus > 0 && nics > gpus && nics % gpus == 0 ? gpus : nics;
    return SUCCESS;
}

const struct {
    const char *name;
    int (*init)(logger *log, void *profiler);
    int (*devices)(int *count);
} ncclNetPlugin_v10 = {"Libfabric", start, devices};
