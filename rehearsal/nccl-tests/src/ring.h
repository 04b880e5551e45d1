// Collectives over a ring of all ranks, or over a chain along the ring, from or to the root. Channel c crosses from each host
// to the next on rail c. On each host, the channel's owner processes the local ranks in memory.
#pragma once
#include "operation.h"

void ring_all_reduce(struct operation *op);
void ring_all_gather(struct operation *op);
void ring_reduce_scatter(struct operation *op);
void ring_broadcast(struct operation *op);
void ring_reduce(struct operation *op);

void ring_peers(const struct group *group, bool *peers); // mark the hosts that a ring connects this host to
