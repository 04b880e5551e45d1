#include "rails.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "fail.h"

enum { SOCKET_BUFFER_BYTES = 512 * 1024, HELLO = 0x62726e67 };
// This type of service marks benchmark data on the front end. A rehearsed host limits only packets with this mark to the scaled
// rate; logins are not limited.
enum { FRONT_END_SERVICE = 0x28 };
static const double CONNECT_S = 20;

// What ranks send each other: first their rails (offer), then the ports of the channels that they own (ports).
struct offer {
    int count, selected;
    // With NCCL_TESTS_DEVICE: the number of this rank's GPU, and how many GPUs the host has. Otherwise gpus is 0, and the ranks
    // take the place of the GPUs.
    int gpu, gpus;
    uint8_t index[RAILS_MAX];
    char hcas[RAILS_MAX][20]; // HCAs have short names; an offer must fit into RECORD_BYTES
};
struct ports {
    uint16_t port[RAILS_MAX];
    struct in_addr address[RAILS_MAX];
};
struct hello {
    int32_t magic, channel, host;
};

static double connect_s(void)
{
    const char *given = getenv("BUSBAR_RING_CONNECT_S");
    return given && atof(given) > 0 ? atof(given) : CONNECT_S;
}

int rails_owner(const struct rails *rails, int channel, int host) { return rails->channels[channel].owner[host]; }

struct link *rails_link(struct rails *rails, int channel, int host)
{
    for (int i = 0; i < rails->link_count; i++)
        if (rails->links[i].channel == channel && rails->links[i].host == host) return &rails->links[i];
    return NULL;
}

// The rails are spread evenly over the GPUs, as on shapes with both rails and GPUs: rail r is near GPU r * gpus / rails, and
// GPU g is near rail g * rails / gpus. The ranks of a host take the place of its GPUs, unless NCCL_TESTS_DEVICE names a rank's
// GPU.
static bool near(int rail, int rails, int gpu, int gpus) { return rail * gpus / rails == gpu || gpu * rails / gpus == rail; }

static int place(const struct offer *offer, const char *hca) // index in the offer; -1: not offered
{
    for (int i = 0; i < offer->count; i++)
        if (!strcmp(offer->hcas[i], hca)) return i;
    return -1;
}

static int job_rank(const struct group *group, int host, int local)
{
    return group->members[layout_rank(&group->at, host, local)];
}

// The first local rank of the group on `host` that is near the rail of `hca`; -1: no rank is near this rail.
static int neighbour(const struct group *group, const struct offer *all, int host, const char *hca)
{
    const struct layout *world = &group->job->at;
    for (int local = 0; local < group->at.host_size[host]; local++) {
        int rank = job_rank(group, host, local), at = place(&all[rank], hca), job_host = world->host_of[rank];
        int gpu = all[rank].gpus ? all[rank].gpu : world->position[rank] - world->host_first[job_host];
        int gpus = all[rank].gpus ? all[rank].gpus : world->host_size[job_host];
        if (at >= 0 && near(all[rank].index[at], all[rank].selected, gpu, gpus)) return local;
    }
    return -1;
}

static bool near_somebody(const struct group *group, const struct offer *all, const char *hca)
{
    bool found = false;
    for (int host = 0; host < group->at.host_count && !found; host++) found = neighbour(group, all, host, hca) >= 0;
    return found;
}

static bool everywhere(const struct group *group, const struct offer *all, const char *hca)
{
    bool found = true;
    for (int rank = 0; rank < group->at.size; rank++) found = found && place(&all[group->members[rank]], hca) >= 0;
    return found;
}

static void take(struct rails *rails, const struct group *group, const struct offer *all, const struct rail *rail)
{
    struct channel *channel = &rails->channels[rails->count];
    channel->rail = *rail;
    channel->owner = calloc((size_t)group->at.host_count, sizeof *channel->owner);
    for (int host = 0; host < group->at.host_count; host++) {
        int owner = all ? neighbour(group, all, host, rail->hca) : 0;
        channel->owner[host] = (uint16_t)(owner >= 0 ? owner : rails->count % group->at.host_size[host]);
    }
    rails->count++;
}

// Use the rails that are near a rank of the group and that all ranks of the group offer: a channel needs its rail on every
// host.
static void agree(struct rails *rails, struct group *group)
{
    struct job *job = group->job;
    struct offer offer = {0};
    struct offer *all = calloc((size_t)job->at.size, sizeof *all);
    _Static_assert(sizeof(struct offer) <= RECORD_BYTES, "an offer fits into one record");
    const struct rail *found = rails->network.rails;
    offer.count = rails->network.count;
    offer.selected = rails->network.selected;
    const char *device = getenv("NCCL_TESTS_DEVICE");
    static struct gpu gpus[64];
    if (device) offer.gpus = host_gpus(gpus, 64), offer.gpu = atoi(device);
    for (int i = 0; i < offer.count; i++) {
        snprintf(offer.hcas[i], sizeof offer.hcas[i], "%.19s", found[i].hca);
        offer.index[i] = (uint8_t)found[i].index;
    }
    job_allgather(job, &offer, sizeof offer, all);
    for (int i = 0; i < offer.count && group->at.host_count > 1; i++) {
        if (!near_somebody(group, all, offer.hcas[i]) || !everywhere(group, all, offer.hcas[i])) continue;
        rails->used |= (uint64_t)1 << found[i].index;
        take(rails, group, all, &found[i]);
    }
    for (int rank = 0; rank < group->at.size && group->at.host_count > 1; rank++) {
        const struct offer *one = &all[group->members[rank]];
        for (int i = 0; i < one->count; i++)
            if (near_somebody(group, all, one->hcas[i]) && !everywhere(group, all, one->hcas[i]))
                rails->missing |= (uint64_t)1 << one->index[i];
    }
    if (rails->count == 0 && group->at.host_count > 1) {
        rails->sockets_only = true;
        take(rails, group, NULL, &job->front_end);
    }
    free(all);
}

static int rail_socket(const struct rail *rail)
{
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    int one = 1, buffer = SOCKET_BUFFER_BYTES, service = FRONT_END_SERVICE;
    struct sockaddr_in here = {.sin_family = AF_INET, .sin_addr = rail->address};
    // Not every user may bind to a device. Without this right, binding to the address is enough, because every rail has a
    // subnet of its own.
    setsockopt(fd, SOL_SOCKET, SO_BINDTODEVICE, rail->netdev, (socklen_t)strlen(rail->netdev));
    setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
    if (!strcmp(rail->hca, rail->netdev)) setsockopt(fd, IPPROTO_IP, IP_TOS, &service, sizeof service);
    setsockopt(fd, SOL_SOCKET, SO_SNDBUF, &buffer, sizeof buffer);
    setsockopt(fd, SOL_SOCKET, SO_RCVBUF, &buffer, sizeof buffer);
    if (fd < 0 || bind(fd, (struct sockaddr *)&here, sizeof here))
        FAIL(RESULT_NCCL, "rail %s (%s) cannot use its address %s: %s", rail->hca, rail->netdev,
             inet_ntoa(rail->address), strerror(errno));
    return fd;
}

__attribute__((noreturn)) static void unreachable(const struct rails *rails, const struct group *group,
                                                  const struct link *link, const char *why)
{
    const struct rail *rail = &rails->channels[link->channel].rail;
    char here[INET_ADDRSTRLEN], there[INET_ADDRSTRLEN];
    inet_ntop(AF_INET, &rail->address, here, sizeof here);
    inet_ntop(AF_INET, &link->address, there, sizeof there);
    FAIL(RESULT_NCCL, "channel %d: rail %s (%s) of %s, %s, cannot reach %s, %s, within %.0f s: %s", link->channel, rail->hca,
         rail->netdev, fail_host(), here, group_host_name(group, link->host), there, connect_s(), why);
}

// Start (or start again) the connection of a link.
static void dial(const struct rails *rails, const struct group *group, struct link *link)
{
    struct sockaddr_in to = {.sin_family = AF_INET, .sin_port = link->port, .sin_addr = link->address};
    if (link->fd >= 0) close(link->fd);
    link->fd = rail_socket(&rails->channels[link->channel].rail);
    if (connect(link->fd, (struct sockaddr *)&to, sizeof to) && errno != EINPROGRESS && errno != EHOSTUNREACH)
        unreachable(rails, group, link, strerror(errno));
}

// Complete the connection of a link whose socket became ready; true if the socket is connected and the hello is sent.
static bool dialled(const struct rails *rails, const struct group *group, struct link *link)
{
    int error = 0;
    socklen_t size = sizeof error;
    struct hello hello = {HELLO, link->channel, group->at.host_index};
    getsockopt(link->fd, SOL_SOCKET, SO_ERROR, &error, &size);
    if (!error && send(link->fd, &hello, sizeof hello, MSG_NOSIGNAL) == sizeof hello) return true;
    if (error != EHOSTUNREACH) unreachable(rails, group, link, strerror(error ? error : errno));
    usleep(100 * 1000); // ARP may not have resolved the address yet; retry until the time limit
    dial(rails, group, link);
    return false;
}

static bool accepted(struct rails *rails, const struct group *group, int listener, int channel)
{
    struct hello hello = {0};
    int fd = accept4(listener, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK), one = 1, service;
    socklen_t size = sizeof service;
    struct pollfd ready = {.fd = fd, .events = POLLIN};
    if (fd < 0) return false;
    if (!getsockopt(listener, IPPROTO_IP, IP_TOS, &service, &size)) setsockopt(fd, IPPROTO_IP, IP_TOS, &service, size);
    if (poll(&ready, 1, 5000) == 1 && recv(fd, &hello, sizeof hello, 0) == sizeof hello && hello.magic == HELLO &&
        hello.channel == channel && hello.host < group->at.host_index) {
        struct link *link = rails_link(rails, channel, hello.host);
        if (link && link->fd < 0) {
            setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
            link->fd = fd;
            return true;
        }
    }
    close(fd);
    return false;
}

// Connect all links. Of each pair of hosts, the host that comes first in the ring dials.
static void connect_links(struct rails *rails, struct group *group, const int *listeners)
{
    struct pollfd *polls = calloc((size_t)(rails->link_count + rails->count), sizeof *polls);
    bool *done = calloc((size_t)rails->link_count + 1, sizeof *done);
    double end = job_now() + connect_s();
    int left = rails->link_count, here = group->at.host_index;
    for (int i = 0; i < rails->link_count; i++)
        if (rails->links[i].host > here) dial(rails, group, &rails->links[i]);
    while (left > 0) {
        for (int i = 0; i < rails->link_count; i++) {
            const struct link *link = &rails->links[i];
            polls[i] = (struct pollfd){.fd = link->host > here && !done[i] ? link->fd : -1, .events = POLLOUT};
        }
        struct pollfd *incoming = polls + rails->link_count;
        for (int c = 0; c < rails->count; c++) incoming[c] = (struct pollfd){.fd = listeners[c], .events = POLLIN};
        double wait = end - job_now();
        poll(polls, (nfds_t)(rails->link_count + rails->count), wait > 0 ? (int)(wait * 1000) + 1 : 200);
        for (int i = 0; i < rails->link_count; i++) {
            if (polls[i].revents && dialled(rails, group, &rails->links[i])) {
                done[i] = true;
                left--;
            }
            if (wait <= 0 && rails->links[i].host > here && !done[i])
                unreachable(rails, group, &rails->links[i], strerror(ETIMEDOUT));
        }
        for (int c = 0; c < rails->count; c++)
            if (incoming[c].revents && accepted(rails, group, listeners[c], c)) left--;
        for (int i = 0; i < rails->link_count && wait <= -3; i++) // by now, a host that could not dial has printed why
            if (rails->links[i].fd < 0)
                FAIL(RESULT_NCCL, "%s did not connect to %s on at least one rail", group_host_name(group, rails->links[i].host),
                     fail_host());
    }
    free(polls);
    free(done);
}

static void name_links(struct rails *rails, struct group *group, const bool *peers, const struct ports *all)
{
    rails->links = calloc((size_t)rails->count * (size_t)group->at.host_count + 1, sizeof *rails->links);
    for (int c = 0; c < rails->count; c++) {
        if (rails_owner(rails, c, group->at.host_index) != group->at.local_rank) continue;
        for (int host = 0; host < group->at.host_count; host++) {
            if (host == group->at.host_index || !peers[host]) continue;
            const struct ports *to = &all[job_rank(group, host, rails_owner(rails, c, host))];
            rails->links[rails->link_count++] = (struct link){
                .channel = c, .host = host, .fd = -1, .low_water = 1, .address = to->address[c], .port = to->port[c]};
        }
    }
}

void rails_connect(struct rails *rails, struct group *group, const bool *peers)
{
    int listeners[RAILS_MAX];
    struct ports mine = {0};
    struct ports *all = calloc((size_t)group->job->at.size, sizeof *all);
    *rails = (struct rails){0};
    network_find(&rails->network);
    if (group->job->at.host_count > 1) agree(rails, group);
    for (int c = 0; c < rails->count; c++) {
        struct sockaddr_in at;
        socklen_t size = sizeof at;
        listeners[c] = -1;
        if (rails_owner(rails, c, group->at.host_index) != group->at.local_rank) continue;
        listeners[c] = rail_socket(&rails->channels[c].rail);
        if (listen(listeners[c], 64) || getsockname(listeners[c], (struct sockaddr *)&at, &size))
            FAIL(RESULT_NCCL, "rail %s cannot listen: %s", rails->channels[c].rail.hca, strerror(errno));
        mine.port[c] = at.sin_port;
        mine.address[c] = at.sin_addr;
    }
    job_allgather(group->job, &mine, sizeof mine, all);
    name_links(rails, group, peers, all);
    connect_links(rails, group, listeners);
    for (int c = 0; c < rails->count; c++)
        if (listeners[c] >= 0) close(listeners[c]);
    free(all);
    job_barrier(group->job);
}
