#include "job.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/futex.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "fail.h"
#include "launch.h"

static const double EXCHANGE_S = 300, CONNECT_S = 20;

// Memory that the ranks of a host share. There are two banks of records, because a rank may still read the records of one
// exchange while another rank writes the records of the next exchange.
struct control {
    // The last barrier is for all ranks of the host. Every other barrier is for a group; its number is the local rank of the
    // group's first member on the host.
    struct {
        atomic_uint arrived, generation;
    } barriers[RANKS_MAX + 1];
    char banks[2][RANKS_MAX][RECORD_BYTES];
};

static struct control *control;
static void *data[RANKS_MAX];
static size_t mapped_bytes;
static unsigned exchanges;
static int to_first = -1;          // in a host's first rank: the socket to rank 0
static int from_hosts[RANKS_MAX];  // in rank 0: the socket to each other host

double job_now(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

// How long a rank waits for other ranks in a barrier that has no deadline; also how long it waits for another host's records.
static double exchange_s(void)
{
    const char *given = getenv("BUSBAR_RING_EXCHANGE_S");
    return given && atof(given) > 0 ? atof(given) : EXCHANGE_S;
}

static void futex_wait(atomic_uint *word, unsigned seen, double seconds)
{
    struct timespec wait = {.tv_sec = (time_t)seconds, .tv_nsec = (long)(1e9 * (seconds - (double)(time_t)seconds))};
    syscall(SYS_futex, word, FUTEX_WAIT, seen, &wait, NULL, 0);
}

void job_local_barrier(struct job *job, int number, int count, double deadline, int timeout_s)
{
    (void)job;
    atomic_uint *arrived = &control->barriers[number].arrived, *word = &control->barriers[number].generation;
    unsigned generation = atomic_load(word);
    if (atomic_fetch_add(arrived, 1) + 1 == (unsigned)count) {
        atomic_store(arrived, 0);
        atomic_fetch_add(word, 1);
        syscall(SYS_futex, word, FUTEX_WAKE, INT_MAX, NULL, NULL, 0);
        return;
    }
    double limit_s = exchange_s(), end = deadline > 0 ? deadline : job_now() + limit_s;
    while (atomic_load(word) == generation) {
        double left = end - job_now();
        if (left <= 0 && deadline > 0) FAIL_TIMEOUT(timeout_s);
        if (left <= 0) FAIL(RESULT_NCCL, "a rank of this host did not answer within %.0f s", limit_s);
        futex_wait(word, generation, left < 1 ? left : 1);
    }
}

static void move(int fd, void *buffer, size_t bytes, int sending)
{
    char *at = buffer;
    double limit_s = exchange_s(), end = job_now() + limit_s;
    while (bytes > 0) {
        ssize_t moved = sending ? send(fd, at, bytes, MSG_NOSIGNAL | MSG_DONTWAIT) : recv(fd, at, bytes, MSG_DONTWAIT);
        if (moved > 0) {
            at += moved;
            bytes -= (size_t)moved;
            continue;
        }
        if (moved == 0 || (errno != EAGAIN && errno != EINTR)) {
            sleep(2); // the rank that failed prints the cause, and its message should come first
            FAIL(RESULT_NCCL, "a host left the job: %s", moved ? strerror(errno) : "its connection was closed");
        }
        struct pollfd ready = {.fd = fd, .events = sending ? POLLOUT : POLLIN};
        if (job_now() > end) FAIL(RESULT_NCCL, "a host did not answer over the front end within %.0f s", limit_s);
        poll(&ready, 1, 1000);
    }
}

// Send (or receive) the records of one host's ranks, in ring order.
static void move_host(struct job *job, int fd, int host, char (*bank)[RECORD_BYTES], size_t bytes, int sending)
{
    static char packed[RANKS_MAX * RECORD_BYTES];
    for (int i = 0; sending && i < job->at.host_size[host]; i++)
        memcpy(packed + (size_t)i * bytes, bank[layout_rank(&job->at, host, i)], bytes);
    move(fd, packed, bytes * (size_t)job->at.host_size[host], sending);
    for (int i = 0; !sending && i < job->at.host_size[host]; i++)
        memcpy(bank[layout_rank(&job->at, host, i)], packed + (size_t)i * bytes, bytes);
}

void job_allgather(struct job *job, const void *mine, size_t bytes, void *all)
{
    if (bytes > RECORD_BYTES) FAIL(RESULT_INTERNAL, "a record of %zu bytes exceeds the limit of %d bytes", bytes, RECORD_BYTES);
    char(*bank)[RECORD_BYTES] = control->banks[exchanges++ % 2];
    memcpy(bank[job->at.rank], mine, bytes);
    job_local_barrier(job, RANKS_MAX, job->at.local_size, 0, 0);
    if (job->at.rank == 0) {
        for (int host = 1; host < job->at.host_count; host++) move_host(job, from_hosts[host], host, bank, bytes, 0);
        for (int to = 1; to < job->at.host_count; to++)
            for (int host = 0; host < job->at.host_count; host++)
                if (host != to) move_host(job, from_hosts[to], host, bank, bytes, 1);
    } else if (job->at.local_rank == 0) {
        move_host(job, to_first, job->at.host_index, bank, bytes, 1);
        for (int host = 0; host < job->at.host_count; host++)
            if (host != job->at.host_index) move_host(job, to_first, host, bank, bytes, 0);
    }
    job_local_barrier(job, RANKS_MAX, job->at.local_size, 0, 0);
    for (int rank = 0; rank < job->at.size; rank++) memcpy((char *)all + (size_t)rank * bytes, bank[rank], bytes);
}

void job_barrier(struct job *job)
{
    char mine = 0, all[RANKS_MAX];
    job_allgather(job, &mine, 1, all);
}

// Whether this rank has a user namespace of its own, as in a container. Ranks in other user namespaces are not allowed to open
// this rank's descriptors.
static bool alone_in_namespace(void)
{
    FILE *file = fopen("/proc/self/uid_map", "r");
    unsigned inside, outside, count = UINT_MAX;
    if (file && fscanf(file, "%u %u %u", &inside, &outside, &count) != 3) count = UINT_MAX;
    if (file) fclose(file);
    return count != UINT_MAX;
}

enum kind { CONTROL, DATA };

static void name(char path[64], const struct member *owner, enum kind kind)
{
    int fd = kind == CONTROL ? owner->control_fd : owner->data_fd;
    if (owner->named) snprintf(path, 64, "/dev/shm/nccl-tests.%d.%d.%llx", owner->pid, kind, (unsigned long long)owner->named);
    else snprintf(path, 64, "/proc/%d/fd/%d", owner->pid, fd);
}

static int shared_memory(const struct member *owner, enum kind kind, size_t bytes)
{
    char path[64];
    name(path, owner, kind);
    // Shared memory gets a name only if other ranks cannot open this rank's descriptors. Names are avoided, because the
    // rehearsed hosts of one machine may share /dev/shm, and a name stays there after its process was killed.
    int fd = owner->named ? open(path, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600) : memfd_create("nccl-tests", MFD_CLOEXEC);
    if (fd < 0 || ftruncate(fd, (off_t)bytes)) FAIL(RESULT_INTERNAL, "no shared memory: %s", strerror(errno));
    return fd;
}

static void release(const struct member *owner, enum kind kind)
{
    char path[64];
    name(path, owner, kind);
    if (owner->named) unlink(path);
    close(kind == CONTROL ? owner->control_fd : owner->data_fd);
}

static void *map(const struct member *owner, enum kind kind, size_t bytes)
{
    char path[64];
    name(path, owner, kind);
    int mine = open(path, O_RDWR | O_CLOEXEC);
    void *at = mine < 0 ? MAP_FAILED : mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, mine, 0);
    if (at == MAP_FAILED) FAIL(RESULT_INTERNAL, "cannot map %s: %s", path, strerror(errno));
    close(mine);
    return at;
}

static int listen_on_front_end(const struct rail *front_end, struct sockaddr_in *listener)
{
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    socklen_t size = sizeof *listener;
    *listener = (struct sockaddr_in){.sin_family = AF_INET, .sin_addr = front_end->address};
    if (fd < 0 || bind(fd, (struct sockaddr *)listener, size) || listen(fd, RANKS_MAX) ||
        getsockname(fd, (struct sockaddr *)listener, &size))
        FAIL(RESULT_NCCL, "cannot listen on %s: %s", front_end->netdev, strerror(errno));
    return fd;
}

static void connect_hosts(struct job *job, int listener)
{
    const struct sockaddr_in *to = &job->members[0].listener;
    double end = job_now() + CONNECT_S;
    int one = 1, host = job->at.host_index;
    if (job->at.local_rank == 0 && host != 0) {
        to_first = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
        struct pollfd ready = {.fd = to_first, .events = POLLOUT};
        int error = 0;
        socklen_t size = sizeof error;
        if (connect(to_first, (const struct sockaddr *)to, sizeof *to) && errno != EINPROGRESS) error = errno;
        else if (poll(&ready, 1, (int)(CONNECT_S * 1000)) != 1) error = ETIMEDOUT;
        else getsockopt(to_first, SOL_SOCKET, SO_ERROR, &error, &size);
        if (error)
            FAIL(RESULT_NCCL, "front end %s cannot reach %s at %s:%d within %.0f s: %s", job->front_end.netdev,
                 job->members[0].host_name, inet_ntoa(to->sin_addr), ntohs(to->sin_port), CONNECT_S, strerror(error));
        setsockopt(to_first, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
        move(to_first, &host, sizeof host, 1);
    }
    for (int left = job->at.rank == 0 ? job->at.host_count - 1 : 0; left > 0; left--) {
        struct pollfd ready = {.fd = listener, .events = POLLIN};
        double wait = end - job_now();
        if (wait <= 0 || poll(&ready, 1, (int)(wait * 1000)) != 1)
            FAIL(RESULT_NCCL, "%d of %d hosts did not reach %s at %s:%d within %.0f s", left, job->at.host_count - 1,
                 fail_host(), inet_ntoa(to->sin_addr), ntohs(to->sin_port), CONNECT_S);
        int fd = accept4(listener, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
        if (fd < 0) FAIL(RESULT_NCCL, "cannot accept a host: %s", strerror(errno));
        setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
        move(fd, &host, sizeof host, 0);
        if (host <= 0 || host >= job->at.host_count) FAIL(RESULT_NCCL, "an unknown peer connected to the front end");
        from_hosts[host] = fd;
    }
}

void job_start(struct job *job, size_t data_bytes)
{
    int rank = launch_rank(), size = launch_size();
    if (size > RANKS_MAX) FAIL(RESULT_INTERNAL, "%d ranks: at most %d are allowed", size, RANKS_MAX);
    struct member *me = &job->members[rank];
    mapped_bytes = data_bytes ? data_bytes : 1;
    me->host = host_identity();
    me->pid = getpid();
    me->named = alone_in_namespace() ? (uint64_t)(1e9 * job_now()) | 1 : 0;
    me->control_fd = shared_memory(me, CONTROL, sizeof *control);
    me->data_fd = shared_memory(me, DATA, mapped_bytes);
    snprintf(me->host_name, sizeof me->host_name, "%.63s", fail_host());
    bool on_front_end = host_front_end(&job->front_end);
    int listener = rank == 0 && on_front_end ? listen_on_front_end(&job->front_end, &me->listener) : -1;
    struct member mine = *me;
    launch_allgather(&mine, sizeof mine, job->members);
    static uint64_t identity[RANKS_MAX];
    for (int one = 0; one < size; one++) identity[one] = job->members[one].host;
    layout_order(&job->at, rank, size, identity);
    if (job->at.host_count > 1 && !on_front_end) FAIL(RESULT_NCCL, "no interface with an address for the bootstrap");

    const struct member *first = &job->members[layout_rank(&job->at, job->at.host_index, 0)];
    control = map(first, CONTROL, sizeof *control);
    for (int local = 0; local < job->at.local_size; local++) {
        const struct member *owner = &job->members[layout_rank(&job->at, job->at.host_index, local)];
        data[local] = map(owner, DATA, mapped_bytes);
    }
    connect_hosts(job, listener);
    if (listener >= 0) close(listener);
    job_barrier(job); // from here on, every rank has mapped the memory
    release(me, CONTROL);
    release(me, DATA);
}

void *job_data(const struct job *job, int local_rank)
{
    (void)job;
    return data[local_rank];
}
