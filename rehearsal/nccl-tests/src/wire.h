// Moves the bytes of one operation over all links of this rank at the same time, without waiting for an individual link.
// The callers decide what the bytes are and where they are.
#pragma once
#include <stddef.h>

#include "rails.h"

struct wire {
    struct group *group;
    struct rails *rails;
    double seconds[RAILS_MAX]; // per channel: time from an operation's start to its last byte, summed over all operations
    double deadline;           // monotonic seconds at which the job is given up; 0: never
    int timeout_s;             // the timeout that the user set, for the message
};

// What one operation does on one channel, with one peer host or with two (receiving from one and sending to the other).
struct lane {
    struct link *in, *out;    // the same link or two links; `in` is unused if nothing is received, `out` if nothing is sent
    bool receiving, sending;  // whether bytes are still to be received, and to be sent; the functions below update both
    bool confirms;            // whether the operation ends only when the peer has the bytes, not when this kernel has them
    size_t (*ready)(struct lane *lane, const char **from, bool *more); // bytes that may be sent now; 0: none for now
    void (*sent)(struct lane *lane, size_t bytes);
    size_t (*room)(struct lane *lane, char **to);                      // bytes that fit at *to; not 0 while receiving
    void (*arrived)(struct lane *lane, size_t bytes);
    size_t (*wake)(struct lane *lane); // how many bytes must arrive before the rank wakes up to receive them
    // Used only by wire.c:
    bool owes, awaits; // whether a confirmation is still to be sent, or to be received
    double moved_at, done_at;
};

// Run all lanes to their end. `meanwhile` (or NULL) is called once, when the first bytes are under way. If no byte moves on a
// lane for 30 s (or BUSBAR_RING_STALL_S), the job ends, and the message names channel, rail and peer.
void wire_run(struct wire *wire, struct lane **lanes, int count, void (*meanwhile)(void *), void *argument);

// Seconds in which this rank had bytes under way on a link. The slowest rail has the most seconds.
double wire_busy_s(const struct link *link);
