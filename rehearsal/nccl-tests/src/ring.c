#include "ring.h"

#include <arpa/inet.h>
#include <errno.h>
#include <linux/tcp.h> // the C library's own tcp_info ends before busy_time
#include <netinet/in.h>
#include <poll.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "fail.h"

enum { CHUNK_BYTES = 64 * 1024, CHUNK_FLOATS = CHUNK_BYTES / 4, CHANNEL_MIN_BYTES = 1024, READS_IN_A_ROW = 4 };
static const double STALL_S = 30, SECOND_REPORT_S = 3, HANG_UP_S = 2;

// One channel during one operation. The ring has n ranks and the channel's floats n blocks; step t of 2n-2 sends block
// (last - t) mod n out of this host, and step s brings in block (first - 1 - s) mod n, which the owner carries past the
// local ranks and sends on in step s + local_size.
struct stream {
    int number; // of the channel
    size_t base, count; // its floats
    int in_step, out_step;
    size_t in_bytes, out_bytes, made_bytes; // done of the current block; made: of a block that starts on this host
    size_t staged; // bytes of staging that are no whole float yet
    int low_water;
    double moved_at, done_at; // 0: not yet
    float staging[CHUNK_FLOATS + 1];
};

struct operation {
    struct ring *ring;
    int n, first, locals, steps;
    const float *send[RANKS_MAX];
    float *receive[RANKS_MAX];
};

static int modulo(int value, int n) { return ((value % n) + n) % n; }
static size_t block_start(const struct stream *stream, int n, int block) { return stream->count * (size_t)block / (size_t)n; }
static size_t block_bytes(const struct stream *stream, int n, int block)
{
    return 4 * (block_start(stream, n, block + 1) - block_start(stream, n, block));
}
static int in_block(const struct operation *op, const struct stream *s) { return modulo(op->first - 1 - s->in_step, op->n); }
static int out_block(const struct operation *op, int step) { return modulo(op->first + op->locals - 1 - step, op->n); }

static void add(float *restrict to, const float *restrict from, size_t count)
{
    for (size_t i = 0; i < count; i++) to[i] += from[i];
}

// Carry floats that arrived in step s->in_step past the local ranks: add their values, then hand out the sums.
static void carry(const struct operation *op, struct stream *s, size_t at, size_t count)
{
    for (int local = 0; local < op->locals; local++) {
        int step = s->in_step + local;
        if (step >= op->steps) return;
        if (step <= op->n - 2) add(s->staging, op->send[local] + at, count);
        if (step >= op->n - 2) memcpy(op->receive[local] + at, s->staging, 4 * count);
    }
    // The last rank's receive buffer keeps partial sums until the rail takes them. In place too: its own value is in.
    int last = op->locals - 1;
    if (s->in_step + last < op->n - 2) memcpy(op->receive[last] + at, s->staging, 4 * count);
}

// Make the next piece of a block that starts on this host: the sum over its first local rank up to the last.
static void make(const struct operation *op, struct stream *s, size_t at, size_t bytes)
{
    int last = op->locals - 1;
    float sum[CHUNK_FLOATS];
    memcpy(sum, op->send[last - s->out_step] + at, bytes);
    for (int local = last - s->out_step + 1; local <= last; local++) add(sum, op->send[local] + at, bytes / 4);
    memcpy(op->receive[last] + at, sum, bytes);
    s->made_bytes += bytes;
}

__attribute__((noreturn)) static void connection_lost(const struct operation *op, const struct stream *s, int outward,
                                                      const char *why)
{
    const struct job *job = op->ring->job;
    const struct channel *channel = &op->ring->rails->channels[s->number];
    char here[64], there[64];
    snprintf(here, sizeof here, "%.40s, %s", fail_host(), inet_ntoa(channel->rail.address));
    snprintf(there, sizeof there, "%.40s, %s", rails_host_name(job, outward ? rails_next_host(job) : rails_previous_host(job)),
             inet_ntoa(outward ? channel->next_address : channel->previous_address));
    FAIL(RESULT_NCCL, "channel %d: rail %s (%s) from %s, to %s: %s", s->number, channel->rail.hca, channel->rail.netdev,
         outward ? here : there, outward ? there : here, why);
}

__attribute__((noreturn)) static void hung_up(const struct operation *op, const struct stream *s, int outward, const char *why)
{
    usleep((useconds_t)(HANG_UP_S * 1e6)); // a rank that failed ends the job and names the cause; let it be the first
    connection_lost(op, s, outward, why);
}

// Bytes of the current outward block that may go now: what its inward step has brought, all if it starts on this host.
static size_t sendable(const struct operation *op, struct stream *s)
{
    while (s->out_step < op->steps) {
        size_t whole = block_bytes(s, op->n, out_block(op, s->out_step));
        int source = s->out_step - op->locals;
        size_t there = source < s->in_step ? whole : source == s->in_step ? s->in_bytes : 0;
        if (s->out_bytes < there) return there - s->out_bytes;
        if (s->out_bytes < whole) return 0;
        s->out_step++; // also past blocks of no bytes
        s->out_bytes = s->made_bytes = 0;
    }
    return 0;
}

// Send what is ready. True: the rail takes no more for now.
static bool pump_out(const struct operation *op, struct stream *s)
{
    int fd = op->ring->rails->channels[s->number].out_fd;
    for (size_t ready; (ready = sendable(op, s)) > 0;) {
        int block = out_block(op, s->out_step);
        size_t start = s->base + block_start(s, op->n, block);
        if (s->out_step < op->locals) {
            size_t limit = s->made_bytes > s->out_bytes ? s->made_bytes - s->out_bytes : 0;
            if (limit == 0) {
                limit = ready < CHUNK_BYTES ? ready : CHUNK_BYTES;
                make(op, s, start + s->made_bytes / 4, limit);
            }
            ready = limit;
        }
        // More of the same stream is at hand: one packet may carry several small blocks.
        bool more = s->out_step + 1 < op->locals && s->out_bytes + ready == block_bytes(s, op->n, block) &&
                    block_bytes(s, op->n, out_block(op, s->out_step + 1)) > 0;
        const char *from = (const char *)(op->receive[op->locals - 1] + start) + s->out_bytes;
        ssize_t sent = send(fd, from, ready, MSG_NOSIGNAL | MSG_DONTWAIT | (more ? MSG_MORE : 0));
        if (sent < 0 && errno == EINTR) continue;
        if (sent < 0 && errno == EAGAIN) return true;
        if (sent < 0) hung_up(op, s, 1, strerror(errno));
        s->out_bytes += (size_t)sent;
        s->moved_at = job_now();
    }
    return false;
}

static bool incoming(const struct operation *op, struct stream *s)
{
    while (s->in_step < op->steps && block_bytes(s, op->n, in_block(op, s)) == s->in_bytes) {
        s->in_step++;
        s->in_bytes = 0;
    }
    return s->in_step < op->steps;
}

// Let poll sleep until a piece worth a wake-up is there: the rest of the block where whole blocks are in hand to send
// meanwhile, an eighth where one rank alone on its host passes a block on while it comes in.
static void wake_at(const struct operation *op, struct stream *s)
{
    size_t whole = block_bytes(s, op->n, in_block(op, s)), bytes = whole - s->in_bytes - s->staged;
    if (op->locals == 1 && bytes > whole / 8 + 1) bytes = whole / 8 + 1;
    int mark = bytes < CHUNK_BYTES ? (int)bytes : CHUNK_BYTES;
    int fd = op->ring->rails->channels[s->number].in_fd;
    if (mark != s->low_water) setsockopt(fd, SOL_SOCKET, SO_RCVLOWAT, &mark, sizeof mark);
    s->low_water = mark;
}

// Take what has arrived.
static void pump_in(const struct operation *op, struct stream *s)
{
    int fd = op->ring->rails->channels[s->number].in_fd;
    for (int reads = 0; reads < READS_IN_A_ROW && incoming(op, s); reads++) {
        size_t left = block_bytes(s, op->n, in_block(op, s)) - s->in_bytes - s->staged;
        size_t want = left < CHUNK_BYTES - s->staged ? left : CHUNK_BYTES - s->staged;
        ssize_t got = recv(fd, (char *)s->staging + s->staged, want, MSG_DONTWAIT);
        if (got < 0 && errno == EINTR) continue;
        if (got < 0 && errno == EAGAIN) break;
        if (got <= 0) hung_up(op, s, 0, got ? strerror(errno) : "the peer closed the connection");
        s->moved_at = job_now();
        size_t filled = s->staged + (size_t)got, floats = filled / 4;
        float rest = s->staging[floats];
        carry(op, s, s->base + block_start(s, op->n, in_block(op, s)) + s->in_bytes / 4, floats);
        s->in_bytes += 4 * floats;
        s->staged = filled % 4;
        s->staging[0] = rest;
    }
    if (incoming(op, s)) wake_at(op, s);
}

static void ask_tcp(int fd, struct tcp_info *info)
{
    socklen_t size = sizeof *info;
    memset(info, 0, sizeof *info);
    getsockopt(fd, IPPROTO_TCP, TCP_INFO, info, &size);
}

static void check_stall(const struct operation *op, const struct stream *s, double now, double stall_s)
{
    struct tcp_info info;
    char why[64];
    if (now - s->moved_at < stall_s) return;
    ask_tcp(op->ring->rails->channels[s->number].out_fd, &info);
    // Repeats without an answer: the rail itself. A peer that merely does not read answers probes.
    snprintf(why, sizeof why, "nothing was acknowledged for %.0f s", stall_s);
    if (info.tcpi_retransmits > 0 || info.tcpi_probes > 1) connection_lost(op, s, 1, why);
    // Otherwise the rail before us is at fault, or another channel's: the rank that can tell says so first.
    snprintf(why, sizeof why, "nothing came for %.0f s", stall_s + SECOND_REPORT_S);
    if (now - s->moved_at > stall_s + SECOND_REPORT_S) connection_lost(op, s, 0, why);
}

static void run_streams(const struct operation *op, struct stream *streams, int count)
{
    struct ring *ring = op->ring;
    const char *given = getenv("BUSBAR_RING_STALL_S");
    double stall_s = given && atof(given) > 0 ? atof(given) : STALL_S, begin = job_now();
    for (int i = 0; i < count; i++) streams[i].moved_at = begin;
    for (int open = count; open > 0;) {
        struct pollfd polls[2 * RAILS_MAX];
        double now = job_now();
        for (int i = 0; i < count; i++) {
            struct stream *s = &streams[i];
            const struct channel *channel = &ring->rails->channels[s->number];
            polls[2 * i] = polls[2 * i + 1] = (struct pollfd){.fd = -1};
            if (s->done_at > 0) continue;
            pump_in(op, s);
            bool blocked = pump_out(op, s);
            bool more = incoming(op, s);
            if (!more && !blocked && s->out_step >= op->steps) {
                s->done_at = job_now();
                ring->seconds[s->number] += s->done_at - begin;
                open--;
                continue;
            }
            if (more) polls[2 * i] = (struct pollfd){.fd = channel->in_fd, .events = POLLIN};
            if (blocked) polls[2 * i + 1] = (struct pollfd){.fd = channel->out_fd, .events = POLLOUT};
            check_stall(op, s, now, stall_s);
        }
        if (ring->deadline > 0 && now > ring->deadline) FAIL_TIMEOUT(ring->timeout_s);
        if (open > 0) poll(polls, (nfds_t)(2 * count), 500);
    }
}

// One host: the owner of a channel walks all ranks itself, block by block in the order of the ring.
static void reduce_locally(const struct operation *op, const struct stream *s)
{
    float sum[CHUNK_FLOATS];
    for (int block = 0; block < op->n; block++) {
        size_t end = s->base + block_start(s, op->n, block + 1);
        for (size_t at = s->base + block_start(s, op->n, block); at < end; at += CHUNK_FLOATS) {
            size_t count = end - at < CHUNK_FLOATS ? end - at : CHUNK_FLOATS;
            memcpy(sum, op->send[block] + at, 4 * count);
            for (int hop = 1; hop < op->n; hop++) add(sum, op->send[(block + hop) % op->n] + at, count);
            for (int local = 0; local < op->n; local++) memcpy(op->receive[local] + at, sum, 4 * count);
        }
    }
}

void ring_all_reduce(struct ring *ring, size_t send_offset, size_t receive_offset, size_t count)
{
    static struct stream streams[RAILS_MAX];
    static struct operation operation;
    struct operation *op = &operation;
    struct job *job = ring->job;
    op->ring = ring;
    op->n = job->size;
    op->first = job->host_first[job->host_index];
    op->locals = job->local_size;
    op->steps = 2 * op->n - 2;
    for (int local = 0; local < op->locals; local++) {
        op->send[local] = (const float *)((char *)job_data(job, local) + send_offset);
        op->receive[local] = (float *)((char *)job_data(job, local) + receive_offset);
    }
    // A small operation uses few channels: each costs a message in every step.
    size_t rails = job->host_count > 1 ? (size_t)ring->rails->count : (size_t)op->locals;
    size_t worth = 4 * count / CHANNEL_MIN_BYTES, channels = worth < 1 ? 1 : worth < rails ? worth : rails;
    int owned = 0;
    for (size_t c = 0; c < channels; c++) {
        if (rails_owner(ring->rails, job, (int)c) != job->local_rank) continue;
        struct stream *s = &streams[owned++];
        int low_water = s->number == (int)c ? s->low_water : 0;
        memset(s, 0, offsetof(struct stream, staging));
        s->number = (int)c;
        s->low_water = low_water;
        s->base = count * c / channels;
        s->count = count * (c + 1) / channels - s->base;
        if (job->host_count == 1) reduce_locally(op, s);
    }
    if (job->host_count > 1) run_streams(op, streams, owned);
    job_local_barrier(job, ring->deadline, ring->timeout_s);
}

double ring_busy_s(const struct ring *ring, int channel)
{
    struct tcp_info info;
    ask_tcp(ring->rails->channels[channel].out_fd, &info);
    return 1e-6 * (double)info.tcpi_busy_time;
}
