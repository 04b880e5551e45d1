#include "exchange.h"

#include <stdlib.h>
#include <string.h>

enum { PIECE_MIN_FLOATS = 1024 };

// One message: where it begins in the sender's buffer and in the receiver's, and its length, in floats. Length 0: no message.
struct message {
    size_t from, to, floats;
};

// One round of messages that are all under way at once.
struct round {
    struct operation *op;
    struct message (*message)(const struct operation *op, int mask, int from, int to);
    int mask;             // the hypercube's step
    bool from_results;    // the data to send is in the receive buffers, not in the send buffers
};

// Walks over the pieces that one channel carries from one host to another, in an order that both hosts know.
struct cursor {
    const struct round *round;
    int channel, from_host, to_host;
    int next;      // next pair of ranks to look at
    size_t dealt;  // pieces assigned to all channels so far
    int from, to;  // local ranks of the current piece
    size_t at_from, at_to, left_bytes;
};

struct exchange {
    struct lane lane;
    struct cursor out, in;
};

// Find the part of a message that the cursor's channel carries; false if the channel carries no part. A small message uses only
// a few channels. The pieces of all messages between two hosts are assigned to the channels in turn, so that all channels carry
// about the same amount.
static bool piece(struct cursor *c, const struct message *whole, struct message *part)
{
    size_t channels = (size_t)c->round->op->wire->rails->count, pieces = whole->floats / PIECE_MIN_FLOATS;
    if (pieces < 1) pieces = 1;
    if (pieces > channels) pieces = channels;
    size_t number = ((size_t)c->channel + channels - c->dealt % channels) % channels;
    c->dealt += pieces;
    if (number >= pieces) return false;
    size_t begin = whole->floats * number / pieces, end = whole->floats * (number + 1) / pieces;
    *part = (struct message){whole->from + begin, whole->to + begin, end - begin};
    return true;
}

// Go to the next piece; false if no piece is left.
static bool advance(struct cursor *c)
{
    const struct layout *at = operation_layout(c->round->op);
    int receivers = at->host_size[c->to_host], pairs = at->host_size[c->from_host] * receivers;
    while (c->next < pairs) {
        c->from = c->next / receivers;
        c->to = c->next % receivers;
        c->next++;
        struct message part, whole = c->round->message(c->round->op, c->round->mask, layout_rank(at, c->from_host, c->from),
                                                       layout_rank(at, c->to_host, c->to));
        if (whole.floats == 0 || !piece(c, &whole, &part)) continue;
        c->at_from = 4 * part.from;
        c->at_to = 4 * part.to;
        c->left_bytes = 4 * part.floats;
        return true;
    }
    return false;
}

// Count bytes that moved; false if nothing is left to move.
static bool moved(struct cursor *c, size_t bytes)
{
    c->at_from += bytes;
    c->at_to += bytes;
    c->left_bytes -= bytes;
    return c->left_bytes > 0 || advance(c);
}

static const char *source(const struct round *round, int local)
{
    return (const char *)(round->from_results ? round->op->receive[local] : round->op->send[local]);
}

static size_t ready(struct lane *lane, const char **from, bool *more)
{
    struct cursor *c = &((struct exchange *)lane)->out;
    *from = source(c->round, c->from) + c->at_from;
    *more = false;
    return c->left_bytes;
}

static void sent(struct lane *lane, size_t bytes) { lane->sending = moved(&((struct exchange *)lane)->out, bytes); }

static size_t room(struct lane *lane, char **to)
{
    struct cursor *c = &((struct exchange *)lane)->in;
    *to = (char *)c->round->op->receive[c->to] + c->at_to;
    return c->left_bytes;
}

static void arrived(struct lane *lane, size_t bytes) { lane->receiving = moved(&((struct exchange *)lane)->in, bytes); }

static size_t wake(struct lane *lane) { return ((struct exchange *)lane)->in.left_bytes; }

// Copy to this rank the messages from all ranks of its host, this rank included.
static void copy_local(void *argument)
{
    const struct round *round = argument;
    const struct layout *at = operation_layout(round->op);
    for (int from = 0; from < at->local_size; from++) {
        struct message m = round->message(round->op, round->mask, layout_rank(at, at->host_index, from), at->rank);
        float *to = round->op->receive[at->local_rank] + m.to;
        if (m.floats > 0) memmove(to, (const float *)source(round, from) + m.from, 4 * m.floats);
    }
}

static void run(struct round *round)
{
    static struct exchange *lanes;
    static struct lane **pointers;
    struct wire *wire = round->op->wire;
    const struct layout *at = operation_layout(round->op);
    int links = wire->rails->link_count, count = 0;
    if (!lanes) {
        lanes = calloc((size_t)links + 1, sizeof *lanes);
        pointers = calloc((size_t)links + 1, sizeof *pointers);
    }
    for (int i = 0; i < links; i++) {
        struct link *link = &wire->rails->links[i];
        struct exchange *e = &lanes[count];
        *e = (struct exchange){
            .lane = {.in = link, .out = link, .confirms = true,
                     .ready = ready, .sent = sent, .room = room, .arrived = arrived, .wake = wake},
            .out = {.round = round, .channel = link->channel, .from_host = at->host_index, .to_host = link->host},
            .in = {.round = round, .channel = link->channel, .from_host = link->host, .to_host = at->host_index},
        };
        e->lane.sending = advance(&e->out);
        e->lane.receiving = advance(&e->in);
        if (e->lane.sending || e->lane.receiving) pointers[count++] = &e->lane;
    }
    wire_run(wire, pointers, count, copy_local, round);
    group_local_barrier(wire->group, wire->deadline, wire->timeout_s);
}

static struct message alltoall(const struct operation *op, int mask, int from, int to)
{
    (void)mask;
    return (struct message){(size_t)to * op->count, (size_t)from * op->count, op->count};
}

static struct message gather(const struct operation *op, int mask, int from, int to)
{
    (void)mask;
    return (struct message){0, (size_t)from * op->count, to == op->root ? op->count : 0};
}

static struct message scatter(const struct operation *op, int mask, int from, int to)
{
    (void)mask;
    return (struct message){(size_t)to * op->count, 0, from == op->root ? op->count : 0};
}

static struct message to_next(const struct operation *op, int mask, int from, int to)
{
    (void)mask;
    return (struct message){0, 0, to == (from + 1) % operation_layout(op)->size ? op->count : 0};
}

// Rank `from` sends everything that it has collected in its subcube so far. The receiver is the rank's partner across the cube.
static struct message across(const struct operation *op, int mask, int from, int to)
{
    size_t start = (size_t)(from & ~(mask - 1)) * op->count;
    return (struct message){start, start, to == (from ^ mask) ? op->count * (size_t)mask : 0};
}

static double spread(void)
{
    static double known = -1;
    if (known >= 0) return known;
    const char *given = getenv("NCCL_TESTS_ALLTOALLV_SPREAD");
    char *end;
    double value = given ? strtod(given, &end) : 1;
    if (given && (end == given || *end)) value = 1;
    return known = value < 0 ? 0 : value > 1 ? 1 : value;
}

size_t exchange_alltoallv_floats(int from, int to, int ranks, size_t count)
{
    double all = 4.0 * (double)count * ranks, even = all / ranks, s = spread();
    if (ranks == 1) return count / 4 * 4;
    int distance = (to - from + ranks) % ranks;
    double far = distance * all / ((double)ranks * (ranks - 1) / 2);
    return (size_t)((1 - s) * even + s * far) / 16 * 4; // a multiple of 16 bytes
}

static struct message alltoallv(const struct operation *op, int mask, int from, int to)
{
    (void)mask;
    int n = operation_layout(op)->size;
    struct message m = {0, 0, exchange_alltoallv_floats(from, to, n, op->count)};
    for (int before = 0; before < to; before++) m.from += exchange_alltoallv_floats(from, before, n, op->count);
    for (int before = 0; before < from; before++) m.to += exchange_alltoallv_floats(before, to, n, op->count);
    return m;
}

void exchange_alltoall(struct operation *op) { run(&(struct round){.op = op, .message = alltoall}); }
void exchange_alltoallv(struct operation *op) { run(&(struct round){.op = op, .message = alltoallv}); }
void exchange_gather(struct operation *op) { run(&(struct round){.op = op, .message = gather}); }
void exchange_scatter(struct operation *op) { run(&(struct round){.op = op, .message = scatter}); }
void exchange_send_receive(struct operation *op) { run(&(struct round){.op = op, .message = to_next}); }

void exchange_hypercube(struct operation *op)
{
    const struct layout *at = operation_layout(op);
    float *own = op->receive[at->local_rank] + (size_t)at->rank * op->count;
    if (own != op->send[at->local_rank]) memcpy(own, op->send[at->local_rank], 4 * op->count);
    group_local_barrier(op->wire->group, op->wire->deadline, op->wire->timeout_s);
    for (int mask = 1; mask < at->size; mask <<= 1)
        run(&(struct round){.op = op, .message = across, .mask = mask, .from_results = true});
}

void exchange_peers(const struct group *group, bool *peers)
{
    for (int host = 0; host < group->at.host_count; host++) peers[host] = host != group->at.host_index;
}
