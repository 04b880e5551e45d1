#include "collective.h"

#include <string.h>

#include "exchange.h"
#include "ring.h"

// A value depends on its index, on the round and on the rank; all sums stay below 2^24, so floats represent them exactly.
static inline unsigned pattern(size_t index, int round)
{
    return ((unsigned)index * 2654435761u + (unsigned)round * 40503u) >> 25; // 0..127
}

void collective_fill(float *to, size_t count, int rank, int round)
{
    for (size_t i = 0; i < count; i++) to[i] = (float)(int)(pattern(i, round) + (unsigned)rank + 1);
}

// Return how many of the `count` values are wrong: values[i] must equal element `at` + i of the input of rank number `rank`.
static int64_t not_of(const float *values, size_t count, int rank, size_t at, int round)
{
    int64_t wrong = 0;
    for (size_t i = 0; i < count; i++) wrong += values[i] != (float)(int)(pattern(at + i, round) + (unsigned)rank + 1);
    return wrong;
}

// Return how many of the `count` values are wrong: values[i] must equal the sum of element `at` + i of all ranks' inputs.
static int64_t not_sums(const float *values, size_t count, int ranks, size_t at, int round)
{
    unsigned n = (unsigned)ranks, places = n * (n + 1) / 2; // the sum over all ranks of rank + 1
    int64_t wrong = 0;
    for (size_t i = 0; i < count; i++) wrong += values[i] != (float)(int)(pattern(at + i, round) * n + places);
    return wrong;
}

static int64_t not_zero(const float *values, size_t count)
{
    int64_t wrong = 0;
    for (size_t i = 0; i < count; i++) wrong += values[i] != 0;
    return wrong;
}

static int64_t all_reduce_wrong(const struct outcome *r)
{
    return not_sums(r->values, r->counts.receive, r->ranks, 0, r->round);
}

static int64_t reduce_wrong(const struct outcome *r)
{
    if (r->rank == r->root) return all_reduce_wrong(r);
    // Only the root's buffer may change.
    return r->in_place ? not_of(r->values, r->counts.receive, r->rank, 0, r->round) : not_zero(r->values, r->counts.receive);
}

static int64_t reduce_scatter_wrong(const struct outcome *r)
{
    return not_sums(r->values, r->counts.receive, r->ranks, (size_t)r->rank * r->counts.receive, r->round);
}

static int64_t all_gather_wrong(const struct outcome *r)
{
    size_t share = r->counts.send;
    int64_t wrong = 0;
    for (int from = 0; from < r->ranks; from++) wrong += not_of(r->values + (size_t)from * share, share, from, 0, r->round);
    return wrong;
}

static int64_t gather_wrong(const struct outcome *r)
{
    if (r->rank == r->root) return all_gather_wrong(r);
    size_t share = r->counts.send, own = (size_t)r->rank * share, rest = r->counts.receive - own - share;
    if (!r->in_place) return not_zero(r->values, r->counts.receive);
    int64_t around = not_zero(r->values, own) + not_zero(r->values + own + share, rest);
    return around + not_of(r->values + own, share, r->rank, 0, r->round);
}

static int64_t alltoall_wrong(const struct outcome *r)
{
    size_t share = r->counts.call, own = (size_t)r->rank * share;
    int64_t wrong = 0;
    for (int from = 0; from < r->ranks; from++) wrong += not_of(r->values + (size_t)from * share, share, from, own, r->round);
    return wrong;
}

static int64_t alltoallv_wrong(const struct outcome *r)
{
    size_t at = 0;
    int64_t wrong = 0;
    for (int from = 0; from < r->ranks; from++) {
        size_t floats = exchange_alltoallv_floats(from, r->rank, r->ranks, r->counts.call), place = 0;
        for (int to = 0; to < r->rank; to++) place += exchange_alltoallv_floats(from, to, r->ranks, r->counts.call);
        wrong += not_of(r->values + at, floats, from, place, r->round);
        at += floats;
    }
    return wrong + not_zero(r->values + at, r->counts.receive - at);
}

static int64_t broadcast_wrong(const struct outcome *r) { return not_of(r->values, r->counts.receive, r->root, 0, r->round); }

static int64_t scatter_wrong(const struct outcome *r)
{
    return not_of(r->values, r->counts.receive, r->root, (size_t)r->rank * r->counts.receive, r->round);
}

static int64_t send_receive_wrong(const struct outcome *r)
{
    return not_of(r->values, r->counts.receive, (r->rank - 1 + r->ranks) % r->ranks, 0, r->round);
}

static size_t share_of(size_t count, int ranks) { return count / (size_t)ranks / ALIGNED_FLOATS * ALIGNED_FLOATS; }

static struct counts whole(size_t count, int ranks)
{
    (void)ranks;
    return (struct counts){.call = count, .send = count, .receive = count};
}
static struct counts to_all(size_t count, int ranks) // a rank sends one share and receives all shares
{
    size_t share = share_of(count, ranks);
    return (struct counts){.call = share, .send = share, .receive = share * (size_t)ranks, .send_step = share};
}
static struct counts from_all(size_t count, int ranks)
{
    size_t share = share_of(count, ranks);
    return (struct counts){.call = share, .send = share * (size_t)ranks, .receive = share, .receive_step = share};
}
static struct counts all_to_all(size_t count, int ranks)
{
    size_t share = share_of(count, ranks), all = share * (size_t)ranks;
    return (struct counts){.call = share, .send = all, .receive = all};
}
static struct counts uneven(size_t count, int ranks)
{
    struct counts counts = {.call = share_of(count, ranks)};
    for (int to = 0; to < ranks; to++) counts.send += exchange_alltoallv_floats(0, to, ranks, counts.call);
    counts.receive = counts.send; // every rank sends and receives the same total
    return counts;
}

static double called(struct counts counts, int ranks)
{
    (void)ranks;
    return 4.0 * (double)counts.call;
}
static double shares(struct counts counts, int ranks) { return 4.0 * (double)counts.call * ranks; }
static double other_shares(struct counts counts, int ranks) { return 4.0 * (double)counts.call * (ranks - 1); }
static double sent_bytes(struct counts counts, int ranks)
{
    (void)ranks;
    return 4.0 * (double)counts.send;
}

static double one(int ranks)
{
    (void)ranks;
    return 1;
}
static double others(int ranks) { return (double)(ranks - 1) / ranks; }
static double twice_others(int ranks) { return 2.0 * (ranks - 1) / ranks; }

static bool everybody(int rank, int root)
{
    (void)rank;
    (void)root;
    return true;
}
static bool the_root(int rank, int root) { return rank == root; }

static const struct collective TABLE[] = {
    {"all_reduce_perf", "sum", false, true, false, whole, called, twice_others, everybody, all_reduce_wrong, ring_all_reduce,
     ring_peers},
    {"all_gather_perf", "none", false, true, false, to_all, shares, others, everybody, all_gather_wrong, ring_all_gather,
     ring_peers},
    {"reduce_scatter_perf", "sum", false, true, false, from_all, shares, others, everybody, reduce_scatter_wrong,
     ring_reduce_scatter, ring_peers},
    {"broadcast_perf", "none", true, true, false, whole, called, one, the_root, broadcast_wrong, ring_broadcast, ring_peers},
    {"reduce_perf", "sum", true, true, false, whole, called, one, everybody, reduce_wrong, ring_reduce, ring_peers},
    {"alltoall_perf", "none", false, false, false, all_to_all, shares, others, everybody, alltoall_wrong, exchange_alltoall,
     exchange_peers},
    {"alltoallv_perf", "none", false, false, false, uneven, sent_bytes, others, everybody, alltoallv_wrong, exchange_alltoallv,
     exchange_peers},
    {"gather_perf", "none", true, true, false, to_all, shares, others, everybody, gather_wrong, exchange_gather,
     exchange_peers},
    {"scatter_perf", "none", true, true, false, from_all, shares, others, the_root, scatter_wrong, exchange_scatter,
     exchange_peers},
    {"sendrecv_perf", "sum", false, false, false, whole, called, one, everybody, send_receive_wrong, exchange_send_receive,
     exchange_peers},
    {"hypercube_perf", "", false, true, true, to_all, other_shares, one, everybody, all_gather_wrong, exchange_hypercube,
     exchange_peers},
};

const struct collective *collective_named(const char *program)
{
    for (size_t i = 0; i < sizeof TABLE / sizeof *TABLE; i++)
        if (!strcmp(TABLE[i].program, program)) return &TABLE[i];
    return NULL;
}
