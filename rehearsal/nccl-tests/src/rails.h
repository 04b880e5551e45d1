// The rails of a group and the connections over these rails: one socket for each channel and peer host, bound to the channel's
// rail. This module lets the hosts agree on the rails and opens the connections, but moves no benchmark data.
#pragma once
#include <stdbool.h>

#include "group.h"
#include "net.h"

struct channel {
    struct rail rail;  // this host's rail of the channel
    uint16_t *owner;   // for each host of the group: the local rank that moves this channel's bytes
};

// A connection that this rank owns, for both directions.
struct link {
    int channel, host; // host: index in the group
    int fd;
    int low_water;     // SO_RCVLOWAT as last set: how many bytes must arrive before a reader wakes up
    struct in_addr address; // address and port of the peer's end
    uint16_t port;
};

struct rails {
    int count;         // number of channels: one for each rail in use; 1 over the front end; 0 if all ranks are on one host
    bool sockets_only; // whether the group uses only NET/Socket over the front end
    uint64_t used, missing; // bit sets of rails in use, and of rails left out because a host of the group lacks them
    struct channel channels[RAILS_MAX];
    struct network network;       // the network that this host has, even if the group does not use it
    int link_count;
    struct link *links;
};

int rails_owner(const struct rails *rails, int channel, int host); // the local rank on `host` that owns the channel
struct link *rails_link(struct rails *rails, int channel, int host); // NULL: this rank has no such link

// Agree with all hosts of the group on the channels, and connect the channels that this rank owns to the hosts that `peers`
// marks. The marks must be mutual: if host A marks host B, host B marks host A. All ranks of the job call this
// function together. If a rail cannot be connected within 20 s (or BUSBAR_RING_CONNECT_S), the job ends, and the message names
// the rail and both addresses.
void rails_connect(struct rails *rails, struct group *group, const bool *peers);
