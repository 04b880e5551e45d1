// What this host has: its identity, its GPUs as far as the transcript names them, its rails and its front end.
// It only reads; it opens no connection.
#pragma once
#include <netinet/in.h>
#include <stdbool.h>
#include <stdint.h>

enum { RAILS_MAX = 64, NAME_MAX_BYTES = 32 };

struct rail {
    char hca[NAME_MAX_BYTES];    // mlx5_0; the interface itself when it is the front end
    char netdev[NAME_MAX_BYTES]; // enp12s0f0
    struct in_addr address;
    int index; // among all selected HCAs of this host, those without a link too
};

struct gpu {
    int index;
    char bus[32], name[96];
};

uint64_t host_identity(void);      // equal for two processes exactly when they share a host
double host_waited_s(void);        // how long this process has been ready to run and waited for a processor; -1: the kernel does not say
int host_scale(void);              // line rates here are the shape's divided by this; 1 where nothing says otherwise
int host_gpus(struct gpu *gpus, int capacity); // number found, 0: none

// The rails that NCCL_IB_HCA (and NCCL_IB_DISABLE) select, that a verbs library could open, that are InfiniBand or Ethernet and
// up with an address, in natural order. *count: all HCAs that the variables select, usable or not.
int host_rails(struct rail *rails, int capacity, int *count);

// The EFA devices that a verbs library could open and whose link is up, in natural order; which interface carries a device's
// bytes here is said by /etc/rehearsal/rails, as such a device has none of its own.
int host_efa_rails(struct rail *rails, int capacity);

// The interface of NCCL_SOCKET_IFNAME, else of the default route, else the first that is up. False: none has an address.
bool host_front_end(struct rail *front_end);
