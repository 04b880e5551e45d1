#include "host.h"

#include <arpa/inet.h>
#include <dirent.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "fail.h"

static const char HCA_FOLDER[] = "/sys/class/infiniband", VERBS_FOLDER[] = "/sys/class/infiniband_verbs";

static bool first_line(const char *path, char *line, size_t size)
{
    FILE *file = fopen(path, "r");
    bool read = file && fgets(line, (int)size, file);
    if (file) fclose(file);
    if (read) line[strcspn(line, "\n")] = '\0';
    return read;
}

uint64_t host_identity(void)
{
    char boot[64] = "", text[512];
    struct stat network = {0}, processes = {0};
    first_line("/proc/sys/kernel/random/boot_id", boot, sizeof boot);
    // All rehearsed hosts have the same boot id, because they are namespaces of one machine. So the hash also contains the
    // network namespace and the pid namespace, which are the same only for ranks of one host.
    stat("/proc/self/ns/net", &network);
    stat("/proc/self/ns/pid", &processes);
    snprintf(text, sizeof text, "%s %s %llu %llu", fail_host(), boot, (unsigned long long)network.st_ino,
             (unsigned long long)processes.st_ino);
    uint64_t hash = 14695981039346656037u; // FNV-1a
    for (const char *c = text; *c; c++) hash = (hash ^ (uint8_t)*c) * 1099511628211u;
    return hash;
}

double host_waited_s(void)
{
    char line[96];
    unsigned long long ran_ns, waited_ns;
    if (!first_line("/proc/self/schedstat", line, sizeof line)) return -1;
    return sscanf(line, "%llu %llu", &ran_ns, &waited_ns) == 2 ? (double)waited_ns / 1e9 : -1;
}

int host_scale(void)
{
    char line[32];
    int scale = first_line("/etc/rehearsal/scale", line, sizeof line) ? atoi(line) : 1;
    return scale > 0 ? scale : 1;
}

int host_gpus(struct gpu *gpus, int capacity)
{
    FILE *file = fopen("/etc/rehearsal/gpus", "r");
    int count = 0;
    char line[160];
    while (file && count < capacity && fgets(line, sizeof line, file))
        if (sscanf(line, "%d %31s %95[^\n]", &gpus[count].index, gpus[count].bus, gpus[count].name) == 3) count++;
    if (file) fclose(file);
    return count;
}

static int natural(const void *left, const void *right)
{
    const struct rail *a = left, *b = right;
    return strverscmp(a->hca, b->hca);
}

// NCCL's list syntax: comma-separated prefixes of names. A '^' in front selects all names that are not in the list. A '='
// (after the '^', if there is one) says that the list has whole names, not prefixes.
static bool selected(const char *list, const char *name)
{
    if (!list || !*list) return true;
    bool exclude = *list == '^';
    if (exclude) list++;
    bool exact = *list == '=';
    if (exact) list++;
    bool found = false;
    while (*list && !found) {
        size_t length = strcspn(list, ",");
        size_t only = strcspn(list, ",:"); // a port after ':' is accepted and ignored: every HCA here has one port
        found = only > 0 && !strncmp(list, name, only) && (!exact || strlen(name) == only);
        list += length + (list[length] == ',');
    }
    return found != exclude;
}

static bool address_of(const char *netdev, struct in_addr *address)
{
    const short up = IFF_UP | IFF_RUNNING;
    struct ifreq asked = {0};
    int asking = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    snprintf(asked.ifr_name, sizeof asked.ifr_name, "%s", netdev);
    bool found = !ioctl(asking, SIOCGIFFLAGS, &asked) && (asked.ifr_flags & up) == up && !ioctl(asking, SIOCGIFADDR, &asked);
    if (found) *address = ((struct sockaddr_in *)&asked.ifr_addr)->sin_addr;
    if (asking >= 0) close(asking);
    return found;
}

static bool netdev_of(const char *hca, char *netdev)
{
    char path[160];
    snprintf(path, sizeof path, "%s/%s/device/net", HCA_FOLDER, hca);
    DIR *folder = opendir(path);
    struct dirent *entry;
    bool found = false;
    while (folder && !found && (entry = readdir(folder))) {
        found = entry->d_name[0] != '.';
        if (found) snprintf(netdev, NAME_MAX_BYTES, "%.31s", entry->d_name);
    }
    if (folder) closedir(folder);
    return found;
}

// Whether a verbs library could open the HCA. Verbs libraries find devices only in VERBS_FOLDER.
static bool opens(const char *hca)
{
    static char names[RAILS_MAX][NAME_MAX_BYTES];
    static int count = -1;
    if (count < 0) {
        DIR *folder = opendir(VERBS_FOLDER);
        struct dirent *entry;
        for (count = 0; folder && count < RAILS_MAX && (entry = readdir(folder));) {
            char path[320];
            snprintf(path, sizeof path, "%s/%s/ibdev", VERBS_FOLDER, entry->d_name);
            count += entry->d_name[0] != '.' && first_line(path, names[count], NAME_MAX_BYTES);
        }
        if (folder) closedir(folder);
    }
    for (int i = 0; i < count; i++)
        if (!strcmp(names[i], hca)) return true;
    return false;
}

// The interface that carries an EFA device's bytes.
static bool efa_netdev_of(const char *hca, char *netdev)
{
    FILE *file = fopen("/etc/rehearsal/rails", "r");
    char line[128], name[NAME_MAX_BYTES], device[NAME_MAX_BYTES];
    bool found = false;
    while (file && !found && fgets(line, sizeof line, file))
        found = sscanf(line, "%31s %31s", name, device) == 2 && !strcmp(device, hca);
    if (file) fclose(file);
    if (found) memcpy(netdev, name, sizeof name);
    return found;
}

static bool is_efa(const char *hca)
{
    char path[160], target[160] = "";
    snprintf(path, sizeof path, "%s/%s/device/driver", HCA_FOLDER, hca);
    const char *driver = readlink(path, target, sizeof target - 1) > 0 ? strrchr(target, '/') : NULL;
    return driver && !strcmp(driver, "/efa");
}

// Whether a port's file contains a word; `otherwise` replaces the text of a missing file.
static bool port_says(const char *hca, const char *file, const char *otherwise, const char *word)
{
    char path[160], line[32];
    snprintf(path, sizeof path, "%s/%s/ports/1/%s", HCA_FOLDER, hca, file);
    if (!first_line(path, line, sizeof line)) snprintf(line, sizeof line, "%s", otherwise);
    return strstr(line, word) != NULL;
}

static bool usable(struct rail *rail, bool efa)
{
    // NCCL's own verbs transport ignores devices that are neither InfiniBand nor Ethernet, and EFA is neither.
    bool link = efa || port_says(rail->hca, "link_layer", "Ethernet", "Ethernet") ||
                port_says(rail->hca, "link_layer", "Ethernet", "InfiniBand");
    bool named = link && (efa ? efa_netdev_of(rail->hca, rail->netdev) : netdev_of(rail->hca, rail->netdev));
    return named && port_says(rail->hca, "state", "ACTIVE", "ACTIVE") && opens(rail->hca) &&
           address_of(rail->netdev, &rail->address);
}

// Find all devices that the list selects (with `efa`, only devices of EFA's driver) and put the usable devices first. Returns
// the number of usable devices.
static int devices(struct rail *rails, int capacity, const char *list, bool efa, int *count)
{
    DIR *folder = opendir(HCA_FOLDER);
    struct dirent *entry;
    int kept = 0;
    *count = 0;
    while (folder && *count < capacity && (entry = readdir(folder)))
        if (entry->d_name[0] != '.' && selected(list, entry->d_name) && (!efa || is_efa(entry->d_name)))
            snprintf(rails[(*count)++].hca, sizeof rails->hca, "%.31s", entry->d_name);
    if (folder) closedir(folder);
    qsort(rails, (size_t)*count, sizeof *rails, natural);
    for (int i = 0; i < *count; i++) {
        rails[i].index = i;
        if (usable(&rails[i], efa)) rails[kept++] = rails[i];
    }
    return kept;
}

int host_rails(struct rail *rails, int capacity, int *count)
{
    const char *disable = getenv("NCCL_IB_DISABLE");
    *count = 0;
    return disable && atoi(disable) ? 0 : devices(rails, capacity, getenv("NCCL_IB_HCA"), false, count);
}

int host_efa_rails(struct rail *rails, int capacity)
{
    int all;
    return devices(rails, capacity, NULL, true, &all);
}

static bool default_route(char *netdev)
{
    FILE *file = fopen("/proc/net/route", "r");
    char line[256], name[NAME_MAX_BYTES];
    unsigned long destination, mask;
    bool found = false;
    while (file && !found && fgets(line, sizeof line, file))
        found = sscanf(line, "%31s %lx %*x %*x %*d %*d %*d %lx", name, &destination, &mask) == 3 && !destination && !mask;
    if (file) fclose(file);
    if (found) memcpy(netdev, name, sizeof name);
    return found;
}

bool host_front_end(struct rail *front_end)
{
    const char *list = getenv("NCCL_SOCKET_IFNAME");
    struct ifaddrs *all, *one;
    bool found = false;
    if (!list && default_route(front_end->netdev)) found = address_of(front_end->netdev, &front_end->address);
    if (!found && !getifaddrs(&all)) {
        for (one = all; one && !found; one = one->ifa_next) {
            if (one->ifa_flags & IFF_LOOPBACK || !selected(list, one->ifa_name)) continue;
            found = address_of(one->ifa_name, &front_end->address);
            if (found) snprintf(front_end->netdev, NAME_MAX_BYTES, "%.31s", one->ifa_name);
        }
        freeifaddrs(all);
    }
    memcpy(front_end->hca, front_end->netdev, sizeof front_end->hca);
    return found;
}
