// The ranks of one run: their identities, the memory that ranks of one host share, barriers, and exchanges of small records.
// No benchmark data moves here. After the start, exchanges never use MPI: the ranks of a host use shared memory, and hosts use
// plain sockets on the front end.
#pragma once
#include <stddef.h>
#include <stdint.h>

#include "host.h"
#include "layout.h"

enum { RECORD_BYTES = 2048 };

struct member {
    uint64_t host;
    int32_t pid, control_fd, data_fd;
    uint64_t named; // part of the names of this rank's shared memory; 0: no names, so other ranks open this rank's descriptors
    struct sockaddr_in listener; // only rank 0 listens; the other ranks leave this unused
    char host_name[64];
};

struct job {
    struct layout at;
    struct member members[RANKS_MAX];
    struct rail front_end;
};

// Exchange the ranks' identities over MPI, map the shared memory, and connect the hosts. A failure ends the job.
void job_start(struct job *job, size_t data_bytes);

// The data of a local rank: data_bytes of memory that all ranks of this host share.
void *job_data(const struct job *job, int local_rank);

// Give every rank the records of all ranks, in rank order. Each record has at most RECORD_BYTES. The exchange is also a
// barrier over all ranks.
void job_allgather(struct job *job, const void *mine, size_t bytes, void *all);
void job_barrier(struct job *job);

// Wait at the host's barrier `number` until `count` ranks of this host wait there. At `deadline` (monotonic seconds), the job
// ends with a message that names `timeout_s`. If `deadline` is 0, the job ends after BUSBAR_RING_EXCHANGE_S seconds (default:
// 300).
void job_local_barrier(struct job *job, int number, int count, double deadline, int timeout_s);

double job_now(void); // monotonic seconds
