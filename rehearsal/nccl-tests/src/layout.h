// How ranks are placed on hosts, and their order in a ring, for the whole job and for each group of a split.
// This module has nothing to do with memory or network.
#pragma once
#include <stdint.h>

enum { RANKS_MAX = 1024 };

struct layout {
    int rank, size;
    int host_count, host_index; // number of hosts, and this rank's host in ring order
    int local_rank, local_size; // this rank's number on its host, and the host's number of ranks
    int order[RANKS_MAX];       // ring position -> rank; ranks of a host are neighbours
    int position[RANKS_MAX];    // rank -> ring position
    int host_of[RANKS_MAX];     // rank -> host index
    int host_first[RANKS_MAX];  // host index -> ring position of its first rank
    int host_size[RANKS_MAX];   // host index -> number of ranks
};

// Order `size` ranks by host; `identity` has the host of each rank. Hosts come in the order of their lowest rank.
void layout_order(struct layout *layout, int rank, int size, const uint64_t *identity);

static inline int layout_rank(const struct layout *layout, int host, int local)
{
    return layout->order[layout->host_first[host] + local];
}
