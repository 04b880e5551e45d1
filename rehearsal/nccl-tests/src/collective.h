// The table of collectives: what distinguishes one test from another, and nothing else.
#pragma once
#include <stdint.h>

#include "operation.h"

enum { ALIGNED_FLOATS = 4 }; // a share's length is a multiple of 16 bytes

// Counts for one message size, in floats.
struct counts {
    size_t call;               // the count argument of the NCCL call, which the printed table shows as count
    size_t send, receive;      // sizes of one rank's buffers
    size_t send_step, receive_step; // for a run in place: input and result begin at rank x step in the receive buffer
};

// One result to check.
struct outcome {
    const float *values;
    struct counts counts;
    int rank, ranks, root, round;
    bool in_place;
};

struct collective {
    const char *program;         // all_reduce_perf
    const char *reduction;       // as the printed table shows it: "sum", "none" or empty
    bool rooted;
    bool checked_in_place;
    bool power_of_two;           // runs only if the number of ranks is a power of two
    struct counts (*counts)(size_t count, int ranks);
    double (*algorithm_bytes)(struct counts counts, int ranks); // algorithm bandwidth x time
    double (*bus_factor)(int ranks);                            // bus bandwidth divided by algorithm bandwidth
    bool (*has_input)(int rank, int root);
    int64_t (*wrong)(const struct outcome *result); // number of wrong values
    algorithm run;
    void (*peers)(const struct group *group, bool *peers);
};

const struct collective *collective_named(const char *program); // NULL if no test has this name

// Fill a rank's input for one round.
void collective_fill(float *to, size_t count, int rank, int round);
