// The ring all-reduce of floats over shared memory and rails. It checks nothing and times only what it waits for.
#pragma once
#include <stddef.h>

#include "rails.h"

struct ring {
    struct job *job;
    struct rails *rails;
    double seconds[RAILS_MAX]; // per channel: from the start of an operation to its last byte, summed
    double deadline;           // monotonic seconds at which an operation is given up; 0: none
    int timeout_s;             // what the user asked for, for the message
};

// Sum count floats over all ranks, in place or not. The offsets (in bytes) are those of the buffers in each rank's
// data, equal on all ranks. Returns when every rank of this host has its result. Ends the job when a channel with work
// to do sees no byte for 30 s (or BUSBAR_RING_STALL_S), naming channel, rail and peer.
void ring_all_reduce(struct ring *ring, size_t send_offset, size_t receive_offset, size_t count);

// Seconds in which the rail to the next host had bytes of this rank under way. The slow rail is the one with the most.
double ring_busy_s(const struct ring *ring, int channel);
