// One operation as the algorithms see it: where each local rank's values are and how many there are. Floats throughout.
#pragma once
#include <stddef.h>

#include "wire.h"

struct operation {
    struct wire *wire;
    float *scratch;         // of this process: as large as a buffer, for sums that no rank keeps
    size_t count;           // of values, as the collective's call takes it: per rank, or all
    int root;
    float *send[RANKS_MAX]; // by local rank of the group; never written where `receive` is another buffer
    float *receive[RANKS_MAX];
};

// Returns when every rank of the group on this host has its result.
typedef void (*algorithm)(struct operation *operation);

static inline const struct layout *operation_layout(const struct operation *op) { return &op->wire->group->at; }
