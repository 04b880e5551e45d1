// The measurement: warm up, time, check, for each size out of place and in place, as nccl-tests does it.
#pragma once
#include "collective.h"
#include "report.h"

struct bench {
    const struct options *options;
    const struct collective *collective;
    struct job *job;
    struct wire *wire;
    struct report *report;
    float *scratch;      // as large as a buffer
    size_t max_bytes;    // of one buffer, after any limit
    size_t stride_bytes; // where the receive buffer begins in a rank's data
    int root;
    int round;           // of the pattern, so that no check can pass on the values of the last one
    int errors;          // checks of this rank that found wrong values
    double timed_s, waited_s; // in timed loops, and of that ready to run without a processor: this rank, or whichever waited most in each operation
    double bus_sum_gb_s;
    int bus_count;
};

size_t bench_stride(const struct options *options); // a rank's data is two of these
void bench_run(struct bench *bench, int root); // root: -1 where the collective has none
