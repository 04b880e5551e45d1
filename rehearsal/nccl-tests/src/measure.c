#include "measure.h"

#include "host.h"

#include <stdlib.h>
#include <string.h>

enum { FIRST_ROUND = 99, TIMES_IN_A_RECORD = RECORD_BYTES / sizeof(double) };

// From this size on, the time that the process has waited for a processor is read before and after each iteration, except in a
// job that is split into groups. At smaller sizes, the reading would take a noticeable part of the iteration's time.
enum { ONE_BY_ONE_BYTES = 64 * 1024 };

size_t bench_stride(const struct options *o)
{
    size_t page = 4096, bytes = o->max_bytes + 4 * (size_t)o->unalign;
    return (bytes + page) / page * page;
}

static float *buffer(const struct bench *b, int local, bool receive)
{
    size_t offset = (receive ? b->stride_bytes : 0) + 4 * (size_t)b->options->unalign;
    return (float *)((char *)group_data(b->wire->group, local) + offset);
}

static const struct layout *layout(const struct bench *b) { return &b->wire->group->at; }

// Fill this rank's input and clear its output; afterwards, the inputs of all the group's ranks on this host may be read.
static void fill(struct bench *b, struct counts counts, bool in_place, int round)
{
    int rank = layout(b)->rank, local = layout(b)->local_rank;
    float *results = buffer(b, local, true);
    memset(results, 0, 4 * counts.receive);
    if (b->collective->has_input(rank, b->root)) {
        float *input = in_place ? results + counts.send_step * (size_t)rank : buffer(b, local, false);
        collective_fill(input, counts.send, rank, round);
    }
    group_local_barrier(b->wire->group, 0, 0);
}

static size_t larger(size_t one, size_t other) { return one > other ? one : other; }

static void operate(struct bench *b, struct counts counts, bool in_place, int iteration)
{
    static struct operation operation;
    struct operation *op = &operation;
    const struct layout *at = layout(b);
    // Successive iterations use different parts of the buffer, so that small sizes are not measured in a cache.
    size_t floats = larger(counts.send, counts.receive), places = floats ? b->max_bytes / (4 * floats) : 1;
    size_t shift = floats * ((size_t)iteration % (places ? places : 1));
    op->wire = b->wire;
    op->scratch = b->scratch;
    op->count = counts.call;
    op->root = b->root;
    for (int local = 0; local < at->local_size; local++) {
        size_t rank = (size_t)layout_rank(at, at->host_index, local);
        op->send[local] = buffer(b, local, in_place) + shift + (in_place ? counts.send_step * rank : 0);
        op->receive[local] = buffer(b, local, true) + shift + (in_place ? counts.receive_step * rank : 0);
    }
    b->collective->run(op);
}

static void arm(struct bench *b)
{
    int timeout_s = b->options->timeout_s;
    b->wire->timeout_s = timeout_s;
    b->wire->deadline = timeout_s > 0 ? job_now() + timeout_s : 0;
}

static double averaged(struct bench *b, double mine)
{
    double all[RANKS_MAX], value = 0;
    job_allgather(b->job, &mine, sizeof mine, all);
    for (int rank = 0; rank < b->job->at.size; rank++) {
        switch (b->options->average) {
        case AVERAGE_RANK0: value = all[0]; break;
        case AVERAGE_MEAN: value += all[rank] / b->job->at.size; break;
        case AVERAGE_MIN: value = rank == 0 || all[rank] < value ? all[rank] : value; break;
        case AVERAGE_MAX: value = all[rank] > value ? all[rank] : value; break;
        }
    }
    return value;
}

// Returns one allocation: the largest time of each iteration, followed by every rank's times (ranks x iterations).
static double *gather_times(struct bench *b, const double *mine)
{
    int iters = b->options->iters, ranks = b->job->at.size;
    double *largest = calloc((size_t)iters * (size_t)(ranks + 1), sizeof *largest), *all = largest + iters;
    double *part = malloc(sizeof *part * TIMES_IN_A_RECORD * (size_t)ranks);
    for (int start = 0; start < iters; start += TIMES_IN_A_RECORD) {
        int count = iters - start < (int)TIMES_IN_A_RECORD ? iters - start : (int)TIMES_IN_A_RECORD;
        job_allgather(b->job, mine + start, sizeof *mine * (size_t)count, part);
        for (int rank = 0; rank < ranks; rank++)
            memcpy(all + (size_t)rank * (size_t)iters + start, part + (size_t)rank * (size_t)count,
                   sizeof *part * (size_t)count);
    }
    for (int i = 0; i < iters; i++)
        for (int rank = 0; rank < ranks; rank++) {
            double one = all[(size_t)rank * (size_t)iters + (size_t)i];
            largest[i] = one > largest[i] ? one : largest[i];
        }
    free(part);
    return largest;
}

// The delay that waiting for processors caused, summed over all iterations. The delay of one iteration is the longest wait of
// any rank.
static double delay(struct bench *b, const double *waits)
{
    double *largest = gather_times(b, waits), sum = 0;
    for (int i = 0; i < b->options->iters; i++) sum += largest[i];
    free(largest);
    return sum;
}

// Returns how many wrong values all ranks of the job found together. Returns -1 if nothing was checked: -c is 0, or the
// collective's result cannot be checked in place.
static int64_t check(struct bench *b, struct counts counts, bool in_place)
{
    int64_t all[RANKS_MAX], total = 0;
    bool looks = !in_place || b->collective->checked_in_place;
    int rank = layout(b)->rank;
    for (int i = 0; i < b->options->check && total == 0; i++) {
        fill(b, counts, in_place, b->round);
        operate(b, counts, in_place, 0);
        const float *results = buffer(b, layout(b)->local_rank, true);
        struct outcome outcome = {.values = results + (in_place ? counts.receive_step * (size_t)rank : 0),
                                .counts = counts, .rank = rank, .ranks = layout(b)->size, .root = b->root, .round = b->round,
                                .in_place = in_place};
        int64_t wrong = looks ? b->collective->wrong(&outcome) : 0;
        b->errors += wrong > 0;
        job_allgather(b->job, &wrong, sizeof wrong, all);
        for (int one = 0; one < b->job->at.size; one++) total += all[one];
    }
    return looks && b->options->check ? total : -1;
}

static void measure(struct bench *b, struct counts counts, bool in_place)
{
    const struct options *o = b->options;
    double *mine = calloc((size_t)o->iters, sizeof *mine), *waits = calloc((size_t)o->iters, sizeof *waits);
    double *times = NULL, busy = 0;
    bool one_by_one = layout(b)->size == b->job->at.size && 4 * larger(counts.send, counts.receive) >= ONE_BY_ONE_BYTES;
    if (o->check) fill(b, counts, in_place, FIRST_ROUND);
    arm(b);
    operate(b, counts, in_place, 0);
    job_barrier(b->job);

    arm(b);
    double begin = job_now(), waited_s = host_waited_s();
    for (int i = 0; i < o->iters; i++) {
        double start = job_now(), until_s = one_by_one ? host_waited_s() : 0;
        for (int j = 0; j < o->agg_iters; j++) {
            operate(b, counts, in_place, i * o->agg_iters + j);
            if (o->blocking == BLOCKING_BARRIER_INNER) job_barrier(b->job);
        }
        double took = job_now() - start;
        mine[i] = took / o->agg_iters;
        busy += took;
        if (one_by_one) waits[i] = host_waited_s() - until_s;
        if (o->blocking == BLOCKING_BARRIER_OUTER) job_barrier(b->job);
    }
    b->timed_s += job_now() - begin;
    b->waited_s += one_by_one ? delay(b, waits) : host_waited_s() - waited_s;
    double spent = o->blocking == BLOCKING_BARRIER_OUTER ? busy : job_now() - begin;
    double time_s = averaged(b, spent / (o->iters * o->agg_iters));
    if (o->per_iter) times = gather_times(b, mine);

    b->round++;
    arm(b);
    int ranks = layout(b)->size;
    double gb_s = time_s > 0 ? b->collective->algorithm_bytes(counts, ranks) / 1e9 / time_s : 0;
    struct measured measured = {
        .time_s = time_s,
        .algorithm_gb_s = gb_s,
        .bus_gb_s = gb_s * b->collective->bus_factor(ranks),
        .wrong = check(b, counts, in_place),
        .iteration_s = times,
        .rank_iteration_s = times ? times + o->iters : NULL,
    };
    report_line_body(b->report, &measured, in_place);
    b->bus_sum_gb_s += measured.bus_gb_s;
    b->bus_count++;
    free(times);
    free(waits);
    free(mine);
}

static struct counts counts_of(const struct bench *b, size_t bytes)
{
    return b->collective->counts(bytes / 4, layout(b)->size);
}

void bench_run(struct bench *b, int root)
{
    const struct options *o = b->options;
    size_t least = o->min_bytes < b->max_bytes ? o->min_bytes : b->max_bytes;
    b->root = root < 0 ? 0 : root;
    job_barrier(b->job);
    for (size_t bytes = least; bytes <= b->max_bytes; bytes *= 2) {
        arm(b);
        for (int i = 0; i < o->warmup_iters; i++) operate(b, counts_of(b, bytes), false, i);
    }
    int cycles = o->run_cycles;
    do {
        for (size_t bytes = least; bytes <= b->max_bytes;
             bytes = o->step_factor > 1 ? bytes * o->step_factor : bytes + o->step_bytes) {
            struct counts counts = counts_of(b, bytes);
            report_line_start(b->report, 4 * larger(counts.send, counts.receive), counts.call, "float",
                              b->collective->reduction, root);
            measure(b, counts, false);
            measure(b, counts, true);
            report_line_end(b->report);
            if (o->step_factor <= 1 && o->step_bytes == 0) break; // without a step, only one size is measured
        }
    } while (--cycles);
}
