// The ranks of one run: who they are, the memory that ranks of one host share, and exchanges small enough for a barrier.
// It moves no benchmark data. After start it uses plain sockets on the front end, never MPI.
#pragma once
#include <stddef.h>
#include <stdint.h>

#include "host.h"

enum { RANKS_MAX = 1024, RECORD_BYTES = 2048 };

struct member {
    uint64_t host;
    int32_t pid, control_fd, data_fd;
    struct sockaddr_in listener; // meant for rank 0's host; the others' stay unused
    char host_name[64];
};

struct job {
    int rank, size, color; // color: the group whose ranks reduce together; one group for now
    int host_count, host_index; // hosts in the order of the ring, and this one's place
    int local_rank, local_size;
    struct member members[RANKS_MAX];
    int order[RANKS_MAX];      // ring position -> rank; ranks of a host lie together
    int host_first[RANKS_MAX]; // host index -> ring position of its first rank
    int host_size[RANKS_MAX];  // host index -> ranks
    struct rail front_end;
};

// Learn the ranks over MPI, map the shared memory, connect the hosts. Ends the job on failure.
void job_start(struct job *job, size_t data_bytes);

// The data of a local rank: data_bytes, shared with every rank of this host.
void *job_data(const struct job *job, int local_rank);

// Every rank's record of at most RECORD_BYTES, by rank. A barrier over all ranks.
void job_allgather(struct job *job, const void *mine, size_t bytes, void *all);
void job_barrier(struct job *job);

// A barrier over the ranks of this host; gives the job up at the deadline (monotonic seconds; 0: a generous bound).
void job_local_barrier(struct job *job, double deadline, int timeout_s);

double job_now(void); // monotonic seconds
