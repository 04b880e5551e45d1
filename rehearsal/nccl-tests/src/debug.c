#include "debug.h"

#include <arpa/inet.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "fail.h"

// The numbers that NCCL gives its subsystems; plugins use the same numbers.
enum subsystem { INIT = 0x1, P2P = 0x4, SHM = 0x8, NET = 0x10, ENV = 0x80, BOOTSTRAP = 0x1000, EVERYTHING = 0x109d };

static FILE *target; // NULL if no log lines are wanted
static unsigned asked;
static int cuda_device;

static bool wanted(void)
{
    const char *level = getenv("NCCL_DEBUG");
    return level && (!strcasecmp(level, "INFO") || !strcasecmp(level, "TRACE"));
}

// NCCL_DEBUG_SUBSYS is a comma-separated list of subsystems. A '^' in front selects all subsystems except those in the list.
static unsigned subsystems(const char *list)
{
    static const struct {
        const char *name;
        unsigned bit;
    } NAMES[] = {{"INIT", INIT}, {"P2P", P2P}, {"SHM", SHM}, {"NET", NET}, {"BOOTSTRAP", BOOTSTRAP}, {"ENV", ENV},
                 {"ALL", EVERYTHING}};
    if (!list) return INIT | BOOTSTRAP | ENV;
    bool exclude = *list == '^';
    if (exclude) list++;
    unsigned found = 0;
    while (*list) {
        size_t length = strcspn(list, ",");
        for (size_t i = 0; i < sizeof NAMES / sizeof *NAMES; i++)
            if (strlen(NAMES[i].name) == length && !strncasecmp(list, NAMES[i].name, length)) found |= NAMES[i].bit;
        list += length + (list[length] == ',');
    }
    return exclude ? EVERYTHING & ~found : found;
}

static void expand(const char *pattern, char *path, size_t size)
{
    size_t used = 0;
    for (const char *c = pattern; *c && used + 1 < size; c++) {
        int wrote = 1;
        if (c[0] == '%' && c[1] == 'h') wrote = snprintf(path + used, size - used, "%s", fail_host());
        else if (c[0] == '%' && c[1] == 'p') wrote = snprintf(path + used, size - used, "%d", (int)getpid());
        else if (c[0] == '%' && c[1] == '%') path[used] = '%';
        else path[used] = *c;
        if (c[0] == '%' && c[1] && strchr("hp%", c[1])) c++;
        used += (size_t)wrote;
    }
    path[used < size ? used : size - 1] = '\0';
}

static void write_line(unsigned of, const char *format, va_list values)
{
    char text[3072];
    if (!target || !(asked & of)) return;
    vsnprintf(text, sizeof text, format, values);
    fprintf(target, "%s:%d:%d [%d] NCCL INFO %s\n", fail_host(), (int)getpid(), (int)syscall(SYS_gettid), cuda_device, text);
}

__attribute__((format(printf, 2, 3))) static void info(unsigned of, const char *format, ...)
{
    va_list values;
    va_start(values, format);
    write_line(of, format, values);
    va_end(values);
}

void debug_net(const char *format, ...)
{
    va_list values;
    va_start(values, format);
    write_line(INIT | NET, format, values);
    va_end(values);
}

void debug_write(int level, unsigned long subsystems, const char *file, int line, const char *format, ...)
{
    va_list values;
    (void)level, (void)file, (void)line;
    va_start(values, format);
    write_line((unsigned)subsystems, format, values);
    va_end(values);
}

void debug_start(int device, const struct rail *front_end)
{
    const char *pattern = getenv("NCCL_DEBUG_FILE");
    char path[4096];
    if (!wanted()) return;
    cuda_device = device;
    asked = subsystems(getenv("NCCL_DEBUG_SUBSYS"));
    target = stdout;
    if (pattern && *pattern) {
        expand(pattern, path, sizeof path);
        FILE *file = fopen(path, "w");
        if (file) setlinebuf(file);
        if (file) target = file;
    }
    info(INIT | BOOTSTRAP, "Bootstrap: Using %s:%s<0>", front_end->netdev, inet_ntoa(front_end->address));
}

// Whether the network supports GPU Direct RDMA. NCCL looks for /sys/module/nvidia_peermem/version (net_ib: ncclIbGdrSupport).
// On a rehearsed host, modprobe does not load the module nvidia_peermem. Instead, modprobe's configuration says to create the
// file /run/rehearsal/modules/nvidia_peermem. Networks other than IB do not depend on the module.
static bool direct(const struct network *found, bool sockets)
{
    return !sockets && (strcmp(found->name, "IB") || access("/run/rehearsal/modules/nvidia_peermem", F_OK) == 0);
}

static void network(const struct group *group, const struct rails *rails, bool sockets)
{
    const struct rail *front = &group->job->front_end;
    const struct network *found = &rails->network;
    char list[2048] = "";
    size_t used = 0;
    bool verbs = !strcmp(found->name, "IB") && !sockets;
    for (int i = 0; i < found->count && used < sizeof list; i++)
        used += (size_t)snprintf(list + used, sizeof list - used, " [%d]%s:1/RoCE", i, found->rails[i].hca);
    if (verbs) info(INIT | NET, "NET/IB : Using%s ; OOB %s:%s<0>", list, front->netdev, inet_ntoa(front->address));
    else if (found->count == 0) info(INIT | NET, "NET/IB : No device found.");
    for (int i = 0; verbs && i < found->count; i++)
        info(INIT | NET, "NET/IB : GPU Direct RDMA %s for HCA %d '%s'", direct(found, sockets) ? "Enabled" : "Disabled", i,
             found->rails[i].hca);
    if (sockets) info(INIT | NET, "NET/Socket : Using [0]%s:%s<0>", front->netdev, inet_ntoa(front->address));
    info(INIT | NET, "Using network %s", sockets ? "Socket" : found->name);
}

// The number of the network device that an HCA belongs to. One network device may consist of several HCAs, each with a rail.
static int device_number(const struct network *found, const char *hca)
{
    for (int i = 0; i < found->count; i++)
        if (!strcmp(found->rails[i].hca, hca)) return i * found->devices / found->count;
    return 0;
}

// The device of a rank, by the same rule as in find_device in main.c. If NCCL_TESTS_DEVICE is set, it is assumed to have
// the same value in all ranks; otherwise the ranks of a host have the host's devices in order.
static int device_of(const struct group *group, int rank)
{
    const char *named = getenv("NCCL_TESTS_DEVICE");
    if (named) return atoi(named);
    const struct layout *world = &group->job->at;
    int one = group->members[rank];
    return world->position[one] - world->host_first[world->host_of[one]];
}

void debug_connections(struct group *group, const struct rails *rails)
{
    const struct layout *at = &group->at;
    const struct network *found = &rails->network;
    if (!target) return;
    bool sockets = found->count == 0 || rails->sockets_only;
    network(group, rails, sockets);
    int channels = at->host_count > 1 ? rails->count : at->local_size, me = at->rank;
    for (int c = 0; c < channels; c++) {
        int owner = at->host_count > 1 ? rails_owner(rails, c, at->host_index) : c;
        if (owner != at->local_rank) continue;
        for (int local = 0; local < at->local_size; local++) {
            int from = layout_rank(at, at->host_index, local);
            if (from == me) continue;
            info(INIT | SHM, "Channel %02d : %d[%d] -> %d[%d] via SHM/direct/direct", c, from, device_of(group, from), me,
                 cuda_device);
        }
    }
    const char *way = direct(found, sockets) ? "/GDRDMA" : "";
    for (int i = 0; i < rails->link_count; i++) {
        const struct link *link = &rails->links[i];
        int peer = layout_rank(at, link->host, rails_owner(rails, link->channel, link->host));
        int there = device_of(group, peer);
        int net = sockets ? 0 : device_number(found, rails->channels[link->channel].rail.hca);
        const char *kind = sockets ? "Socket" : found->name;
        info(INIT | NET, "Channel %02d/0 : %d[%d] -> %d[%d] [receive] via NET/%s/%d%s", link->channel, peer, there, me,
             cuda_device, kind, net, way);
        info(INIT | NET, "Channel %02d/0 : %d[%d] -> %d[%d] [send] via NET/%s/%d%s", link->channel, me, cuda_device, peer,
             there, kind, net, way);
    }
    info(INIT, "Connected all rings, use ring PXN 0 GDR %d", direct(found, sockets));
}

// One rank's channels; for each channel, the link that was busy longest.
struct busy {
    uint8_t count, channel[RAILS_MAX];
    int16_t peer[RAILS_MAX]; // the job's rank that represents the peer host
    float busy_s[RAILS_MAX], whole_s[RAILS_MAX];
    char netdev[RAILS_MAX][16];
};

static void note(struct busy *mine, const struct wire *wire, const struct link *link)
{
    const struct group *group = wire->group;
    float busy_s = (float)wire_busy_s(link);
    int at = mine->count - 1; // links are sorted by channel
    if (at < 0 || mine->channel[at] != link->channel) at = mine->count++;
    else if (busy_s <= mine->busy_s[at]) return;
    mine->channel[at] = (uint8_t)link->channel;
    mine->peer[at] = (int16_t)group->members[layout_rank(&group->at, link->host, 0)];
    mine->busy_s[at] = busy_s;
    mine->whole_s[at] = (float)wire->seconds[link->channel];
    snprintf(mine->netdev[at], sizeof mine->netdev[at], "%.15s", wire->rails->channels[link->channel].rail.netdev);
}

void debug_channels(const struct wire *wire)
{
    struct job *job = wire->group->job;
    struct busy mine = {0}, *all = calloc((size_t)job->at.size, sizeof *all);
    _Static_assert(sizeof mine <= RECORD_BYTES, "the summary of a rank's channels fits into one record");
    for (int i = 0; i < wire->rails->link_count; i++) note(&mine, wire, &wire->rails->links[i]);
    job_allgather(job, &mine, sizeof mine, all);
    for (int c = 0; c < RAILS_MAX && job->at.rank == 0 && wanted(); c++)
        for (int place = 0; place < job->at.size; place++) {
            int rank = job->at.order[place];
            for (int i = 0; i < all[rank].count; i++)
                if (all[rank].channel[i] == c)
                    printf("# channel %d rail %s peer %s %.3f s busy of %.3f s in the ring, sending from %s\n", c,
                           all[rank].netdev[i], job->members[all[rank].peer[i]].host_name, all[rank].busy_s[i],
                           all[rank].whole_s[i], job->members[rank].host_name);
        }
    free(all);
}
