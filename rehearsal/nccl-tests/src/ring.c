#include "ring.h"

#include <stdlib.h>
#include <string.h>

enum { CHUNK_BYTES = 64 * 1024, CHUNK_FLOATS = CHUNK_BYTES / 4, CHANNEL_MIN_BYTES = 1024 };

enum kind { ALL_REDUCE, ALL_GATHER, REDUCE_SCATTER, BROADCAST, REDUCE };

// What all channels of one operation share. The ring has n positions; this host's ranks have the positions `first` to `last`.
// For each channel, one rank of the host, the channel's owner, does the work for all ranks of the host. In a ring, out-step t
// sends block (last - t + shift) mod n to the next host, and in-step s receives block (first - 1 - s + shift) mod n from the
// previous host. The owner processes that block for all local ranks, and sends the block on in out-step s + locals. A chain
// (broadcast, reduce) has one block, which is sent on in the step in which it arrives.
struct walk {
    struct operation *op;
    enum kind kind;
    int n, first, locals, shift;
    int in_steps, out_steps;
    int lag;      // out-step t sends what arrives in in-step t - lag; the first `lag` out-steps send blocks of this host
    int channels; // number of channels in use
};

// One channel during one operation.
struct stream {
    struct lane lane;
    const struct walk *walk;
    size_t base, count; // the channel's part of all floats, or of each rank's share
    int in_step, out_step;
    size_t in_bytes, out_bytes, made_bytes; // progress in the current blocks; made: progress of a sum that starts on this host
    size_t staged; // number of bytes (0 to 3) in staging that belong to a float whose other bytes have not arrived
    float staging[CHUNK_FLOATS + 1];
};

static int modulo(int value, int n) { return ((value % n) + n) % n; }
static bool shared(const struct walk *w) { return w->kind == ALL_GATHER || w->kind == REDUCE_SCATTER; }
static int rank_at(const struct walk *w, int local) { return operation_layout(w->op)->order[w->first + local]; }

// Where a block of this channel begins in a whole buffer, and the block's length. Blocks are numbered by ring position, but the
// shares in a buffer are in order of rank.
static size_t block_start(const struct stream *s, int block)
{
    const struct walk *w = s->walk;
    if (shared(w)) return (size_t)operation_layout(w->op)->order[block] * w->op->count + s->base;
    return w->kind == ALL_REDUCE ? s->base + s->count * (size_t)block / (size_t)w->n : s->base;
}
static size_t block_floats(const struct stream *s, int block)
{
    size_t n = (size_t)s->walk->n, at = (size_t)block;
    return s->walk->kind == ALL_REDUCE ? s->count * (at + 1) / n - s->count * at / n : s->count;
}
static int in_block(const struct stream *s) { return modulo(s->walk->first - 1 - s->in_step + s->walk->shift, s->walk->n); }
static int out_block(const struct stream *s, int step)
{
    return modulo(s->walk->first + s->walk->locals - 1 - step + s->walk->shift, s->walk->n);
}

static void add(float *restrict to, const float *restrict from, size_t count)
{
    for (size_t i = 0; i < count; i++) to[i] += from[i];
}

static void copy(float *to, const float *from, size_t count)
{
    if (to != from) memcpy(to, from, 4 * count);
}

// Sum `count` floats at `at` over the local ranks from `from` to the last local rank.
static void sum_locals(const struct walk *w, float *sum, int from, size_t at, size_t count)
{
    memcpy(sum, w->op->send[from] + at, 4 * count);
    for (int local = from + 1; local < w->locals; local++) add(sum, w->op->send[local] + at, count);
}

// Process floats that arrived, for all local ranks: add the ranks' values, store complete results in the ranks' buffers, and
// keep in scratch the sums that are not complete yet and must be sent on.
static void carry(struct stream *s, size_t at, size_t floats)
{
    const struct walk *w = s->walk;
    struct operation *op = w->op;
    int last_sum = w->n - 2; // the step that completes a block's sum
    switch (w->kind) {
    case ALL_GATHER:
    case BROADCAST:
        for (int local = 0; local < w->locals; local++) memcpy(op->receive[local] + at, s->staging, 4 * floats);
        return;
    case REDUCE:
        for (int local = 0; local < w->locals; local++) add(s->staging, op->send[local] + at, floats);
        if (w->out_steps == 0) {
            const struct layout *layout = operation_layout(op);
            memcpy(op->receive[layout->position[op->root] - w->first] + at, s->staging, 4 * floats);
            return;
        }
        break;
    default:
        for (int local = 0; local < w->locals; local++) {
            int step = s->in_step + local;
            if (step >= w->in_steps) return;
            if (step <= last_sum) add(s->staging, op->send[local] + at, floats);
            if (step < last_sum) continue;
            // In reduce_scatter, a rank's share of the result is at the start of the rank's receive buffer; all other buffers
            // have the same layout on all ranks.
            size_t share = w->kind == REDUCE_SCATTER ? (size_t)rank_at(w, local) * op->count : 0;
            memcpy(op->receive[local] + at - share, s->staging, 4 * floats);
        }
        if (s->in_step + w->locals - 1 >= last_sum) return; // complete sums are sent on from the last local rank's buffer
    }
    memcpy(op->scratch + at, s->staging, 4 * floats);
}

// Whether an out-step sends a sum that starts on this host; `outgoing` returns where the step's bytes are.
static bool makes(const struct walk *w, int step) { return step < w->lag && w->kind != ALL_GATHER && w->kind != BROADCAST; }

static const float *outgoing(const struct stream *s, int step)
{
    const struct walk *w = s->walk;
    const struct operation *op = w->op;
    int last = w->locals - 1;
    size_t start = block_start(s, out_block(s, step));
    if (w->kind == ALL_GATHER && step < w->lag) return op->send[last - step] + s->base; // this buffer has only one share
    if (w->kind == BROADCAST && step < w->lag) return op->send[operation_layout(op)->position[op->root] - w->first] + start;
    bool partial = w->kind == REDUCE || w->kind == REDUCE_SCATTER || (w->kind == ALL_REDUCE && step <= w->n - 2);
    return (partial ? op->scratch : op->receive[last]) + start;
}

// Compute the next piece of a sum that starts on this host.
static void make(struct stream *s, size_t bytes)
{
    const struct walk *w = s->walk;
    size_t at = block_start(s, out_block(s, s->out_step)) + s->made_bytes / 4;
    sum_locals(w, w->op->scratch + at, w->kind == REDUCE ? 0 : w->locals - 1 - s->out_step, at, bytes / 4);
    s->made_bytes += bytes;
}

// Bytes of the current outgoing block that may be sent now: all bytes if the block starts on this host, otherwise the bytes
// that have arrived.
static size_t sendable(struct stream *s)
{
    while (s->out_step < s->walk->out_steps) {
        size_t whole = 4 * block_floats(s, out_block(s, s->out_step));
        int source = s->out_step - s->walk->lag;
        size_t there = source < s->in_step ? whole : source == s->in_step ? s->in_bytes : 0;
        if (s->out_bytes < there) return there - s->out_bytes;
        if (s->out_bytes < whole) return 0;
        s->out_step++; // this also skips empty blocks
        s->out_bytes = s->made_bytes = 0;
    }
    s->lane.sending = false;
    return 0;
}

static size_t ready(struct lane *lane, const char **from, bool *more)
{
    struct stream *s = (struct stream *)lane;
    size_t bytes = sendable(s);
    if (bytes == 0) return 0;
    if (makes(s->walk, s->out_step)) {
        if (s->made_bytes == s->out_bytes) make(s, bytes < CHUNK_BYTES ? bytes : CHUNK_BYTES);
        bytes = s->made_bytes - s->out_bytes;
    }
    // If more bytes of this stream are ready, one packet may carry several small blocks.
    *more = s->out_step + 1 < s->walk->lag && s->out_step + 1 < s->walk->out_steps &&
            s->out_bytes + bytes == 4 * block_floats(s, out_block(s, s->out_step)) &&
            block_floats(s, out_block(s, s->out_step + 1)) > 0;
    *from = (const char *)outgoing(s, s->out_step) + s->out_bytes;
    return bytes;
}

static void sent(struct lane *lane, size_t bytes)
{
    struct stream *s = (struct stream *)lane;
    s->out_bytes += bytes;
    sendable(s);
}

static void next_in(struct stream *s)
{
    while (s->in_step < s->walk->in_steps && 4 * block_floats(s, in_block(s)) == s->in_bytes) {
        s->in_step++;
        s->in_bytes = 0;
    }
    s->lane.receiving = s->in_step < s->walk->in_steps;
}

static size_t room(struct lane *lane, char **to)
{
    struct stream *s = (struct stream *)lane;
    size_t left = 4 * block_floats(s, in_block(s)) - s->in_bytes - s->staged;
    *to = (char *)s->staging + s->staged;
    return left < CHUNK_BYTES - s->staged ? left : CHUNK_BYTES - s->staged;
}

static void arrived(struct lane *lane, size_t bytes)
{
    struct stream *s = (struct stream *)lane;
    size_t filled = s->staged + bytes, floats = filled / 4;
    float rest = s->staging[floats];
    carry(s, block_start(s, in_block(s)) + s->in_bytes / 4, floats);
    s->in_bytes += 4 * floats;
    s->staged = filled % 4;
    s->staging[0] = rest;
    next_in(s);
}

// How many bytes must arrive before the process wakes up: an eighth of the block if the block is passed on while it arrives,
// otherwise the whole rest of the block.
static size_t wake(struct lane *lane)
{
    struct stream *s = (struct stream *)lane;
    size_t whole = 4 * block_floats(s, in_block(s)), bytes = whole - s->in_bytes - s->staged;
    bool passes = s->walk->lag <= 1 && s->walk->out_steps > 0;
    return passes && bytes > whole / 8 + 1 ? whole / 8 + 1 : bytes;
}

// Copy what does not cross the network: shares and values that ranks of one host get from each other.
static void hand_over(void *argument)
{
    struct stream *s = argument;
    const struct walk *w = s->walk;
    struct operation *op = w->op;
    if (w->kind == ALL_GATHER) {
        for (int from = 0; from < w->locals; from++)
            for (int to = 0; to < w->locals; to++)
                copy(op->receive[to] + (size_t)rank_at(w, from) * op->count + s->base, op->send[from] + s->base, s->count);
    } else if (w->kind == BROADCAST && operation_layout(op)->host_of[op->root] == operation_layout(op)->host_index) {
        const float *root = op->send[operation_layout(op)->position[op->root] - w->first] + s->base;
        for (int to = 0; to < w->locals; to++) copy(op->receive[to] + s->base, root, s->count);
    }
}

struct streams {
    int count;
    struct stream *all[RAILS_MAX];
};

static void hand_all_over(void *argument)
{
    struct streams *streams = argument;
    for (int i = 0; i < streams->count; i++) hand_over(streams->all[i]);
}

// If all ranks are on one host, the owner of a channel computes the channel's part of all sums itself.
static void reduce_locally(struct stream *s)
{
    const struct walk *w = s->walk;
    struct operation *op = w->op;
    float sum[CHUNK_FLOATS];
    int blocks = w->kind == REDUCE_SCATTER ? w->n : 1;
    for (int block = 0; block < blocks; block++) {
        size_t share = w->kind == REDUCE_SCATTER ? (size_t)rank_at(w, block) * op->count : 0;
        for (size_t at = s->base; at < s->base + s->count; at += CHUNK_FLOATS) {
            size_t left = s->base + s->count - at, floats = left < CHUNK_FLOATS ? left : CHUNK_FLOATS;
            sum_locals(w, sum, 0, share + at, floats);
            for (int local = 0; local < w->locals; local++)
                if (w->kind == ALL_REDUCE || (w->kind == REDUCE ? rank_at(w, local) == op->root : local == block))
                    memcpy(op->receive[local] + at, sum, 4 * floats);
        }
    }
}

static void plan(struct walk *w, struct operation *op, enum kind kind)
{
    const struct layout *at = operation_layout(op);
    *w = (struct walk){.op = op, .kind = kind, .n = at->size, .first = at->host_first[at->host_index], .locals = at->local_size,
                       .shift = kind == REDUCE_SCATTER ? -1 : 0};
    w->in_steps = w->out_steps = kind == ALL_REDUCE ? 2 * w->n - 2 : w->n - 1;
    w->lag = w->locals;
    if (kind == BROADCAST || kind == REDUCE) {
        // The chain follows the ring: broadcast begins at the root's host, reduce ends there.
        int hosts = at->host_count, start = (at->host_of[op->root] + (kind == REDUCE)) % hosts;
        int place = modulo(at->host_index - start, hosts);
        w->in_steps = place > 0;
        w->out_steps = place < hosts - 1;
        w->lag = place == 0;
    }
    // A small operation uses few channels, because each channel costs a message in every step.
    size_t rails = at->host_count > 1 ? (size_t)op->wire->rails->count : (size_t)at->local_size;
    size_t worth = 4 * op->count * (shared(w) ? (size_t)w->n : 1) / CHANNEL_MIN_BYTES;
    w->channels = (int)(worth < 1 ? 1 : worth < rails ? worth : rails);
}

static int owner(const struct walk *w, int channel)
{
    const struct layout *at = operation_layout(w->op);
    return at->host_count > 1 ? rails_owner(w->op->wire->rails, channel, at->host_index) : channel;
}

static void open_stream(struct stream *s, const struct walk *w, int channel)
{
    const struct layout *at = operation_layout(w->op);
    struct rails *rails = w->op->wire->rails;
    int hosts = at->host_count;
    size_t channels = (size_t)w->channels, c = (size_t)channel;
    memset(s, 0, offsetof(struct stream, staging));
    s->walk = w;
    s->base = w->op->count * c / channels;
    s->count = w->op->count * (c + 1) / channels - s->base;
    if (hosts == 1) return;
    s->lane = (struct lane){
        .in = rails_link(rails, channel, (at->host_index + hosts - 1) % hosts),
        .out = rails_link(rails, channel, (at->host_index + 1) % hosts),
        .sending = true, .confirms = w->kind == BROADCAST || w->kind == REDUCE,
        .ready = ready, .sent = sent, .room = room, .arrived = arrived, .wake = wake,
    };
    next_in(s);
    sendable(s);
}

static void run(struct operation *op, enum kind kind)
{
    static struct streams streams;
    struct lane *lanes[RAILS_MAX];
    struct walk walk;
    plan(&walk, op, kind);
    streams.count = 0;
    for (int c = 0; c < walk.channels; c++) {
        if (owner(&walk, c) != operation_layout(op)->local_rank) continue;
        struct stream **s = &streams.all[streams.count];
        if (!*s) *s = malloc(sizeof **s);
        open_stream(*s, &walk, c);
        lanes[streams.count++] = &(*s)->lane;
    }
    if (operation_layout(op)->host_count > 1) {
        wire_run(op->wire, lanes, streams.count, hand_all_over, &streams);
    } else {
        for (int i = 0; i < streams.count; i++)
            if (kind == ALL_GATHER || kind == BROADCAST) hand_over(streams.all[i]);
            else reduce_locally(streams.all[i]);
    }
    group_local_barrier(op->wire->group, op->wire->deadline, op->wire->timeout_s);
}

void ring_all_reduce(struct operation *op) { run(op, ALL_REDUCE); }
void ring_all_gather(struct operation *op) { run(op, ALL_GATHER); }
void ring_reduce_scatter(struct operation *op) { run(op, REDUCE_SCATTER); }
void ring_broadcast(struct operation *op) { run(op, BROADCAST); }
void ring_reduce(struct operation *op) { run(op, REDUCE); }

void ring_peers(const struct group *group, bool *peers)
{
    int hosts = group->at.host_count, here = group->at.host_index;
    peers[(here + 1) % hosts] = peers[(here + hosts - 1) % hosts] = true;
}
