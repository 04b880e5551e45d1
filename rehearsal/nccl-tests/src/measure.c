#include "measure.h"

#include <stdlib.h>
#include <string.h>

enum { FIRST_ROUND = 99, TIMES_IN_A_RECORD = RECORD_BYTES / sizeof(double) };

size_t bench_stride(const struct options *o)
{
    size_t page = 4096, bytes = o->max_bytes + 4 * (size_t)o->unalign;
    return (bytes + page) / page * page;
}

static size_t offset(const struct bench *b, bool receive)
{
    return (receive ? b->stride_bytes : 0) + 4 * (size_t)b->options->unalign;
}

static float *buffer(const struct bench *b, bool receive)
{
    return (float *)((char *)job_data(b->job, b->job->local_rank) + offset(b, receive));
}

// Fill this rank's input and clear its output; afterwards every rank of the host may be read.
static void fill(struct bench *b, size_t count, bool in_place, int round)
{
    if (!in_place) memset(buffer(b, true), 0, 4 * b->collective->receive_count(count, b->job->size));
    b->collective->fill(buffer(b, in_place), b->collective->send_count(count, b->job->size), b->job->rank, round);
    job_local_barrier(b->job, 0, 0);
}

static void operate(struct bench *b, size_t count, bool in_place, int iteration)
{
    // Walk through the buffer, so that small sizes are not measured in a cache.
    size_t bytes = 4 * count, places = bytes ? b->max_bytes / bytes : 1, shift = bytes * ((size_t)iteration % places);
    b->collective->run(b->ring, offset(b, in_place) + shift, offset(b, true) + shift, count);
}

static void arm(struct bench *b)
{
    int timeout_s = b->options->timeout_s;
    b->ring->timeout_s = timeout_s;
    b->ring->deadline = timeout_s > 0 ? job_now() + timeout_s : 0;
}

static double averaged(struct bench *b, double mine)
{
    double all[RANKS_MAX], value = 0;
    job_allgather(b->job, &mine, sizeof mine, all);
    for (int rank = 0; rank < b->job->size; rank++) {
        switch (b->options->average) {
        case AVERAGE_RANK0: value = all[0]; break;
        case AVERAGE_MEAN: value += all[rank] / b->job->size; break;
        case AVERAGE_MIN: value = rank == 0 || all[rank] < value ? all[rank] : value; break;
        case AVERAGE_MAX: value = all[rank] > value ? all[rank] : value; break;
        }
    }
    return value;
}

// Every rank's times (ranks x iterations) behind the largest of each iteration, in one allocation.
static double *gather_times(struct bench *b, const double *mine)
{
    int iters = b->options->iters, ranks = b->job->size;
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

static int64_t check(struct bench *b, size_t count, bool in_place)
{
    int64_t all[RANKS_MAX], total = 0;
    for (int i = 0; i < b->options->check && total == 0; i++) {
        fill(b, count, in_place, b->round);
        operate(b, count, in_place, 0);
        int64_t wrong = b->collective->wrong(buffer(b, true), b->collective->receive_count(count, b->job->size),
                                             b->job->rank, b->job->size, b->round);
        b->errors += wrong > 0;
        job_allgather(b->job, &wrong, sizeof wrong, all);
        for (int rank = 0; rank < b->job->size; rank++) total += all[rank];
    }
    return b->options->check ? total : -1;
}

static void measure(struct bench *b, size_t count, bool in_place)
{
    const struct options *o = b->options;
    double *mine = calloc((size_t)o->iters, sizeof *mine), *times = NULL, busy = 0;
    if (o->check) fill(b, count, in_place, FIRST_ROUND);
    arm(b);
    operate(b, count, in_place, 0);
    job_barrier(b->job);

    arm(b);
    double begin = job_now();
    for (int i = 0; i < o->iters; i++) {
        double start = job_now();
        for (int j = 0; j < o->agg_iters; j++) {
            operate(b, count, in_place, i * o->agg_iters + j);
            if (o->blocking == BLOCKING_BARRIER_INNER) job_barrier(b->job);
        }
        double took = job_now() - start;
        mine[i] = took / o->agg_iters;
        busy += took;
        if (o->blocking == BLOCKING_BARRIER_OUTER) job_barrier(b->job);
    }
    double spent = o->blocking == BLOCKING_BARRIER_OUTER ? busy : job_now() - begin;
    double time_s = averaged(b, spent / (o->iters * o->agg_iters));
    if (o->per_iter) times = gather_times(b, mine);

    b->round++;
    arm(b);
    double gbps = time_s > 0 ? 4.0 * (double)count / 1e9 / time_s : 0;
    struct measured measured = {
        .time_s = time_s,
        .algorithm_gbps = gbps,
        .bus_gbps = gbps * b->collective->bus_factor(b->job->size),
        .wrong = check(b, count, in_place),
        .iteration_s = times,
        .rank_iteration_s = times ? times + o->iters : NULL,
    };
    report_line_body(b->report, &measured, in_place);
    b->bus_sum_gbps += measured.bus_gbps;
    b->bus_count++;
    free(times);
    free(mine);
}

void bench_run(struct bench *b)
{
    const struct options *o = b->options;
    size_t least = o->min_bytes < b->max_bytes ? o->min_bytes : b->max_bytes;
    job_barrier(b->job);
    for (size_t bytes = least; bytes <= b->max_bytes; bytes *= 2) {
        arm(b);
        for (int i = 0; i < o->warmup_iters; i++) operate(b, bytes / 4, false, i);
    }
    int cycles = o->run_cycles;
    do {
        for (size_t bytes = least; bytes <= b->max_bytes;
             bytes = o->step_factor > 1 ? bytes * o->step_factor : bytes + o->step_bytes) {
            size_t count = bytes / 4, sent = 4 * b->collective->send_count(count, b->job->size);
            size_t received = 4 * b->collective->receive_count(count, b->job->size);
            report_line_start(b->report, sent > received ? sent : received, count, "float", "sum", -1);
            measure(b, count, false);
            measure(b, count, true);
            report_line_end(b->report);
            if (o->step_factor <= 1 && o->step_bytes == 0) break; // one size
        }
    } while (--cycles);
}
