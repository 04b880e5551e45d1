// The rails of a group and its connections over them: one socket for each channel and peer host, bound to the channel's rail.
// Hosts agree on the rails and connect them here, but no benchmark data moves.
#pragma once
#include <stdbool.h>

#include "group.h"
#include "net.h"

struct channel {
    struct rail rail;  // this host's end
    uint16_t *owner;   // for each host of the group: the local rank that moves this channel's bytes
};

// A connection that this rank owns, for both directions.
struct link {
    int channel, host; // host: index in the group
    int fd;
    int low_water;     // SO_RCVLOWAT as last set: bytes that wake a reader
    struct in_addr address; // the peer's end
    uint16_t port;
};

struct rails {
    int count;         // channels, one for each rail in use; 1 over the front end; 0 on one host
    bool sockets_only; // NET/Socket over the front end
    uint64_t used, missing; // rails by index: used, and left out because some host of the group lacks them
    struct channel channels[RAILS_MAX];
    struct network network;       // what this host has, used or not
    int link_count;
    struct link *links;
};

int rails_owner(const struct rails *rails, int channel, int host); // local rank of the group on that host
struct link *rails_link(struct rails *rails, int channel, int host); // NULL: this rank has no such link

// Agree with all hosts of the group on the channels, and connect those that this rank owns to the hosts that `peers` marks
// (marks are mutual). All ranks of the job call this together. If a rail cannot be connected within 20 s (or
// BUSBAR_RING_CONNECT_S), the job ends, and the message names the rail and both addresses.
void rails_connect(struct rails *rails, struct group *group, const bool *peers);
