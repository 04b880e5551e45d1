// Moves the bytes of one operation over this rank's links, all at once, without waiting on a single one.
// Its callers decide what the bytes are and where they are.
#pragma once
#include <stddef.h>

#include "rails.h"

struct wire {
    struct group *group;
    struct rails *rails;
    double seconds[RAILS_MAX]; // per channel: from the start of an operation to its last byte, summed
    double deadline;           // monotonic seconds at which an operation is given up; 0: none
    int timeout_s;             // what the user asked for, for the message
};

// What one operation does on one channel with one peer host, or with two: in from the one, out to the other.
struct lane {
    struct link *in, *out;    // the same or two; not read while nothing is awaited, or to be sent
    bool receiving, sending;  // kept up to date by the four functions below: whether more is to come, and to go
    bool confirms;            // the operation ends when the peer has its bytes, not when they are handed to the kernel
    size_t (*ready)(struct lane *lane, const char **from, bool *more); // bytes that may go now; 0: none for now
    void (*sent)(struct lane *lane, size_t bytes);
    size_t (*room)(struct lane *lane, char **to);                      // where the next bytes go; not 0 while receiving
    void (*arrived)(struct lane *lane, size_t bytes);
    size_t (*wake)(struct lane *lane); // bytes worth waking up for
    // The wire's own:
    bool owes, awaits; // a confirmation
    double moved_at, done_at;
};

// Run all lanes to their end. `meanwhile` (or NULL) is called once, when the first bytes are under way. Ends the job when a
// lane sees no byte for 30 s (or BUSBAR_RING_STALL_S), naming channel, rail and peer.
void wire_run(struct wire *wire, struct lane **lanes, int count, void (*meanwhile)(void *), void *argument);

// Seconds in which a link had bytes of this rank under way. The slow rail is the one with the most.
double wire_busy_s(const struct link *link);
