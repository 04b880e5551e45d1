// The connections of the ring: channel c crosses from each host to the next on rail c, in sockets bound to that rail.
// It agrees on the rails and connects them; it moves no benchmark data.
#pragma once
#include <stdbool.h>

#include "job.h"

struct channel {
    struct rail rail;  // this host's end
    int in_fd, out_fd; // -1 where another local rank owns the channel
    struct in_addr next_address, previous_address; // the neighbours' ends
};

struct rails {
    int count; // channels: the rails that every host has, or 1 over the front end; 0 on one host
    bool sockets_only; // NET/Socket over the front end
    int missing;       // rails that some host lacks and that are therefore left out
    struct channel channels[RAILS_MAX];
};

int rails_owner(const struct rails *rails, const struct job *job, int channel); // local rank
int rails_next_host(const struct job *job);
int rails_previous_host(const struct job *job);
const char *rails_host_name(const struct job *job, int host);

// Agree with all hosts on the channels and connect those that this rank owns. Ends the job where a rail cannot be
// reached within 20 s (or BUSBAR_RING_CONNECT_S), naming the rail and both addresses.
void rails_connect(struct rails *rails, struct job *job);
