// The ranks of one run: who they are, the memory that ranks of one host share, and exchanges small enough for a barrier.
// It moves no benchmark data. After start it uses plain sockets on the front end, never MPI.
#pragma once
#include <stddef.h>
#include <stdint.h>

#include "host.h"
#include "layout.h"

enum { RECORD_BYTES = 2048 };

struct member {
    uint64_t host;
    int32_t pid, control_fd, data_fd;
    uint64_t named; // not 0: its memory has names with this in them, for ranks that may not look into each other's processes
    struct sockaddr_in listener; // meant for rank 0's host; the others' stay unused
    char host_name[64];
};

struct job {
    struct layout at;
    struct member members[RANKS_MAX];
    struct rail front_end;
};

// Learn the ranks over MPI, map the shared memory, connect the hosts. Ends the job on failure.
void job_start(struct job *job, size_t data_bytes);

// The data of a local rank: data_bytes, shared with every rank of this host.
void *job_data(const struct job *job, int local_rank);

// Every rank's record of at most RECORD_BYTES, by rank. A barrier over all ranks.
void job_allgather(struct job *job, const void *mine, size_t bytes, void *all);
void job_barrier(struct job *job);

// Barrier `number` of this host, over `count` of its ranks, of which each calls with the same number; gives the job up at the
// deadline (monotonic seconds; 0: a generous bound).
void job_local_barrier(struct job *job, int number, int count, double deadline, int timeout_s);

double job_now(void); // monotonic seconds
