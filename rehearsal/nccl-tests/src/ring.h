// Collectives that go round a ring of all ranks, or along it as a chain from or to the root: channel c crosses from each host
// to the next on rail c. Local ranks are walked in memory by the channel's owner.
#pragma once
#include "operation.h"

void ring_all_reduce(struct operation *op);
void ring_all_gather(struct operation *op);
void ring_reduce_scatter(struct operation *op);
void ring_broadcast(struct operation *op);
void ring_reduce(struct operation *op);

void ring_peers(const struct group *group, bool *peers); // the hosts that a ring connects this one to
