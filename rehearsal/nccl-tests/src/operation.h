// One operation as the algorithms see it: where each local rank's values are, and how many. All values are floats.
#pragma once
#include <stddef.h>

#include "wire.h"

struct operation {
    struct wire *wire;
    float *scratch;         // this process's memory of a buffer's size, for sums that no rank keeps
    size_t count;           // of values, as in the collective's call: per rank or in all, depending on the collective
    int root;
    float *send[RANKS_MAX]; // by local rank of the group; never written, unless it is part of `receive`
    float *receive[RANKS_MAX];
};

// Returns when every rank of the group on this host has its result.
typedef void (*algorithm)(struct operation *operation);

static inline const struct layout *operation_layout(const struct operation *op) { return &op->wire->group->at; }
