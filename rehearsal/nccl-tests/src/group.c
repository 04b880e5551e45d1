#include "group.h"

void group_form(struct group *group, struct job *job, const int *colors)
{
    static uint64_t identity[RANKS_MAX];
    int size = 0, rank = 0, locals = 0;
    group->job = job;
    group->color = colors[job->at.rank];
    for (int one = 0; one < job->at.size; one++) {
        if (colors[one] != group->color) continue;
        if (one == job->at.rank) rank = size;
        identity[size] = job->members[one].host;
        group->members[size++] = one;
    }
    layout_order(&group->at, rank, size, identity);
    for (int local = 0; local < job->at.local_size; local++)
        if (colors[layout_rank(&job->at, job->at.host_index, local)] == group->color) group->job_local[locals++] = local;
}

void *group_data(const struct group *group, int local) { return job_data(group->job, group->job_local[local]); }

const char *group_host_name(const struct group *group, int host)
{
    return group->job->members[group->members[layout_rank(&group->at, host, 0)]].host_name;
}

void group_local_barrier(struct group *group, double deadline, int timeout_s)
{
    // The barrier gets the local number of the group's first rank on this host. No other group has this rank, so no other group
    // uses this barrier.
    job_local_barrier(group->job, group->job_local[0], group->at.local_size, deadline, timeout_s);
}
