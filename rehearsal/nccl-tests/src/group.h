// The ranks that run a collective together: all ranks of the job, or, with NCCL_TESTS_SPLIT, all ranks of one colour. Groups
// run in parallel.
#pragma once
#include "job.h"

struct group {
    struct job *job;
    struct layout at; // in this layout, ranks are numbered within the group, from 0
    int color;
    int members[RANKS_MAX];   // rank of the group -> rank of the job
    int job_local[RANKS_MAX]; // local rank of the group on this host -> local rank of the job
};

// Form the group of this rank: all ranks of the job that have this rank's colour. `colors` has the colour of every rank.
void group_form(struct group *group, struct job *job, const int *colors);

// The data (see job_data) of a local rank of the group.
void *group_data(const struct group *group, int local);
const char *group_host_name(const struct group *group, int host);

// A barrier over the group's ranks on this host; see job_local_barrier.
void group_local_barrier(struct group *group, double deadline, int timeout_s);
