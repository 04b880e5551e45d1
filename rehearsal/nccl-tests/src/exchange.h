// Collectives made of individual messages between pairs of ranks. A large message is split over all channels, so that it uses
// all rails; ranks of one host copy in memory.
#pragma once
#include "operation.h"

void exchange_alltoall(struct operation *op);
void exchange_alltoallv(struct operation *op);
void exchange_gather(struct operation *op);
void exchange_scatter(struct operation *op);
void exchange_send_receive(struct operation *op);
void exchange_hypercube(struct operation *op); // on 2, 4, 8 ... ranks

// How many floats one rank sends to another in alltoallv. If NCCL_TESTS_ALLTOALLV_SPREAD is 0, the result is `count`.
size_t exchange_alltoallv_floats(int from, int to, int ranks, size_t count);

void exchange_peers(const struct group *group, bool *peers); // mark the hosts that these collectives connect this host to
