// Collectives of single messages between pairs of ranks: each message is cut over the channels, so that it crosses on all
// rails; ranks of one host copy in memory.
#pragma once
#include "operation.h"

void exchange_alltoall(struct operation *op);
void exchange_alltoallv(struct operation *op);
void exchange_gather(struct operation *op);
void exchange_scatter(struct operation *op);
void exchange_send_receive(struct operation *op);
void exchange_hypercube(struct operation *op); // on 2, 4, 8 ... ranks

// Floats that a rank sends to another in alltoallv, of `count` each where all get the same (NCCL_TESTS_ALLTOALLV_SPREAD).
size_t exchange_alltoallv_floats(int from, int to, int ranks, size_t count);

void exchange_peers(const struct group *group, bool *peers); // the hosts that these collectives connect this one to
