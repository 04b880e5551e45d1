// The table of collectives: what distinguishes all_reduce_perf from its future siblings, and nothing else.
#pragma once
#include <stddef.h>
#include <stdint.h>

#include "ring.h"

struct collective {
    const char *program; // all_reduce_perf
    size_t (*send_count)(size_t count, int ranks);
    size_t (*receive_count)(size_t count, int ranks);
    double (*bus_factor)(int ranks); // bus bandwidth over algorithm bandwidth
    void (*fill)(float *to, size_t count, int rank, int round);
    int64_t (*wrong)(const float *from, size_t count, int rank, int ranks, int round); // values not as expected
    void (*run)(struct ring *ring, size_t send_offset, size_t receive_offset, size_t count);
};

const struct collective *collective_named(const char *program); // NULL: not carried out here
