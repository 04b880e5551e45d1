// The measurement, as nccl-tests does it: warm up, then time and check each size out of place and in place.
#pragma once
#include "collective.h"
#include "report.h"

struct bench {
    const struct options *options;
    const struct collective *collective;
    struct job *job;
    struct wire *wire;
    struct report *report;
    float *scratch;      // memory as large as one buffer
    size_t max_bytes;    // size of one buffer, limited by the machine's memory
    size_t stride_bytes; // where the receive buffer begins in a rank's data
    int root;
    int round;           // round of the pattern, so that no check can pass with values of the previous round
    int errors;          // checks of this rank that found wrong values
    // timed_s: time of the timed loops. waited_s: how long this rank waited for a processor in these loops. If the waiting time
    // is read after each iteration, the longest waiting time of any rank in the iteration is added to waited_s instead.
    double timed_s, waited_s;
    double bus_sum_gb_s;
    int bus_count;
};

size_t bench_stride(const struct options *options); // a rank's data has two buffers of this size
void bench_run(struct bench *bench, int root); // root: -1 if the collective has no root
