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
static const double CONNECT_S = 20;

// What ranks tell each other: first the rails, then the ports of the channels they own.
struct offer {
    int count;
    char hcas[RAILS_MAX][20]; // names of HCAs are short; the record must stay below RECORD_BYTES
    struct in_addr front_end;
};
struct ports {
    uint16_t port[RAILS_MAX];
    struct in_addr address[RAILS_MAX];
};

static double connect_s(void)
{
    const char *given = getenv("BUSBAR_RING_CONNECT_S");
    return given && atof(given) > 0 ? atof(given) : CONNECT_S;
}

int rails_owner(const struct rails *rails, const struct job *job, int channel)
{
    (void)rails;
    return channel % job->local_size;
}

int rails_next_host(const struct job *job) { return (job->host_index + 1) % job->host_count; }
int rails_previous_host(const struct job *job) { return (job->host_index + job->host_count - 1) % job->host_count; }

const char *rails_host_name(const struct job *job, int host)
{
    return job->members[job->order[job->host_first[host]]].host_name;
}

static bool offers(const struct offer *offer, const char *hca)
{
    for (int i = 0; i < offer->count; i++)
        if (!strcmp(offer->hcas[i], hca)) return true;
    return false;
}

// Keep the rails that every rank of every host offers: a ring over a rail needs that rail on each host.
static void agree(struct rails *rails, struct job *job)
{
    struct rail mine[RAILS_MAX];
    struct offer offer = {.count = host_rails(mine, RAILS_MAX)};
    struct offer *all = calloc((size_t)job->size, sizeof *all);
    _Static_assert(sizeof(struct offer) <= RECORD_BYTES, "an offer travels in one record");
    for (int i = 0; i < offer.count; i++) snprintf(offer.hcas[i], sizeof offer.hcas[i], "%.19s", mine[i].hca);
    job_allgather(job, &offer, sizeof offer, all);
    int most = 0;
    for (int rank = 0; rank < job->size; rank++) most = all[rank].count > most ? all[rank].count : most;
    for (int i = 0; i < offer.count; i++) {
        bool everywhere = true;
        for (int rank = 0; rank < job->size; rank++) everywhere = everywhere && offers(&all[rank], offer.hcas[i]);
        if (everywhere) rails->channels[rails->count++].rail = mine[i];
    }
    rails->missing = most - rails->count;
    if (rails->count == 0) {
        rails->sockets_only = true;
        rails->channels[0].rail = job->front_end;
        rails->count = 1;
    }
    free(all);
}

static int rail_socket(const struct rail *rail)
{
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    int one = 1, buffer = SOCKET_BUFFER_BYTES;
    struct sockaddr_in here = {.sin_family = AF_INET, .sin_addr = rail->address};
    // Not allowed to everybody; the address alone decides then, as every rail has a subnet of its own.
    setsockopt(fd, SOL_SOCKET, SO_BINDTODEVICE, rail->netdev, (socklen_t)strlen(rail->netdev));
    setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
    setsockopt(fd, SOL_SOCKET, SO_SNDBUF, &buffer, sizeof buffer);
    setsockopt(fd, SOL_SOCKET, SO_RCVBUF, &buffer, sizeof buffer);
    if (fd < 0 || bind(fd, (struct sockaddr *)&here, sizeof here))
        FAIL(RESULT_NCCL, "rail %s (%s) cannot use its address %s: %s", rail->hca, rail->netdev,
             inet_ntoa(rail->address), strerror(errno));
    return fd;
}

static void unreachable(const struct job *job, const struct channel *channel, int number, const char *why)
{
    char here[INET_ADDRSTRLEN], there[INET_ADDRSTRLEN];
    inet_ntop(AF_INET, &channel->rail.address, here, sizeof here);
    inet_ntop(AF_INET, &channel->next_address, there, sizeof there);
    FAIL(RESULT_NCCL, "channel %d: rail %s (%s) of %s, %s, cannot reach %s, %s, within %.0f s: %s", number,
         channel->rail.hca, channel->rail.netdev, fail_host(), here, rails_host_name(job, rails_next_host(job)), there,
         connect_s(), why);
}

// Start (or start again) the connection of a channel to the next host.
static void dial(const struct job *job, struct channel *channel, int number, uint16_t port)
{
    struct sockaddr_in to = {.sin_family = AF_INET, .sin_port = port, .sin_addr = channel->next_address};
    if (channel->out_fd >= 0) close(channel->out_fd);
    channel->out_fd = rail_socket(&channel->rail);
    if (connect(channel->out_fd, (struct sockaddr *)&to, sizeof to) && errno != EINPROGRESS && errno != EHOSTUNREACH)
        unreachable(job, channel, number, strerror(errno));
}

// Finish a dial whose socket became ready. True: connected and introduced.
static bool dialled(const struct job *job, struct channel *channel, int number, uint16_t port)
{
    int error = 0;
    socklen_t size = sizeof error;
    int32_t hello[2] = {HELLO, number};
    getsockopt(channel->out_fd, SOL_SOCKET, SO_ERROR, &error, &size);
    if (!error && send(channel->out_fd, hello, sizeof hello, MSG_NOSIGNAL) == sizeof hello) return true;
    if (error != EHOSTUNREACH) unreachable(job, channel, number, strerror(error ? error : errno));
    usleep(100 * 1000); // an address that does not resolve yet may do so until the bound
    dial(job, channel, number, port);
    return false;
}

static bool accepted(struct channel *channel, int listener, int number)
{
    int32_t hello[2] = {0, 0};
    int fd = accept4(listener, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK), one = 1;
    struct pollfd ready = {.fd = fd, .events = POLLIN};
    if (fd < 0) return false;
    if (poll(&ready, 1, 5000) == 1 && recv(fd, hello, sizeof hello, 0) == sizeof hello && hello[0] == HELLO &&
        hello[1] == number) {
        setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
        channel->in_fd = fd;
        return true;
    }
    close(fd);
    return false;
}

static void connect_owned(struct rails *rails, struct job *job, const int *listeners, const struct ports *all)
{
    struct pollfd polls[2 * RAILS_MAX];
    bool out[RAILS_MAX] = {false};
    double end = job_now() + connect_s();
    int next = rails_next_host(job), previous = rails_previous_host(job), left = 0;
    uint16_t port[RAILS_MAX];
    for (int c = 0; c < rails->count; c++) {
        const struct ports *to = &all[job->order[job->host_first[next] + c % job->host_size[next]]];
        const struct ports *from = &all[job->order[job->host_first[previous] + c % job->host_size[previous]]];
        rails->channels[c].next_address = to->address[c];
        rails->channels[c].previous_address = from->address[c];
        port[c] = to->port[c];
        if (listeners[c] < 0) continue;
        dial(job, &rails->channels[c], c, port[c]);
        left += 2;
    }
    while (left > 0) {
        for (int c = 0; c < rails->count; c++) {
            struct channel *channel = &rails->channels[c];
            bool mine = listeners[c] >= 0;
            polls[2 * c] = (struct pollfd){.fd = mine && !out[c] ? channel->out_fd : -1, .events = POLLOUT};
            polls[2 * c + 1] = (struct pollfd){.fd = mine && channel->in_fd < 0 ? listeners[c] : -1, .events = POLLIN};
        }
        double wait = end - job_now();
        poll(polls, (nfds_t)(2 * rails->count), wait > 0 ? (int)(wait * 1000) + 1 : 200);
        for (int c = 0; c < rails->count; c++) {
            struct channel *channel = &rails->channels[c];
            if (polls[2 * c].revents && dialled(job, channel, c, port[c])) {
                out[c] = true;
                left--;
            }
            if (polls[2 * c + 1].revents && accepted(channel, listeners[c], c)) left--;
            if (wait <= 0 && listeners[c] >= 0 && !out[c]) unreachable(job, channel, c, strerror(ETIMEDOUT));
        }
        if (wait <= -3) // the host that cannot dial names the rail; this one has only waited for it
            FAIL(RESULT_NCCL, "%s did not connect to %s on every rail", rails_host_name(job, previous), fail_host());
    }
}

void rails_connect(struct rails *rails, struct job *job)
{
    int listeners[RAILS_MAX];
    struct ports mine = {0};
    struct ports *all = calloc((size_t)job->size, sizeof *all);
    *rails = (struct rails){0};
    for (int c = 0; c < RAILS_MAX; c++) rails->channels[c].in_fd = rails->channels[c].out_fd = -1;
    if (job->host_count > 1) agree(rails, job);
    for (int c = 0; c < rails->count; c++) {
        struct sockaddr_in at;
        socklen_t size = sizeof at;
        listeners[c] = -1;
        if (rails_owner(rails, job, c) != job->local_rank) continue;
        listeners[c] = rail_socket(&rails->channels[c].rail);
        if (listen(listeners[c], 4) || getsockname(listeners[c], (struct sockaddr *)&at, &size))
            FAIL(RESULT_NCCL, "rail %s cannot listen: %s", rails->channels[c].rail.hca, strerror(errno));
        mine.port[c] = at.sin_port;
        mine.address[c] = at.sin_addr;
    }
    job_allgather(job, &mine, sizeof mine, all);
    connect_owned(rails, job, listeners, all);
    for (int c = 0; c < rails->count; c++)
        if (listeners[c] >= 0) close(listeners[c]);
    free(all);
    job_barrier(job);
}
