/* Keeps the byte counters of a rehearsed host's RDMA ports true: what an interface has counted goes into the files that its
 * port shows, as words of four bytes, at most 50 ms late and only when it changed. It counts nothing itself and never ends.
 * argv: pairs of an interface index and the folder of its port's counters; names of interfaces may change, indices do not. */
#include <fcntl.h>
#include <linux/if_link.h>
#include <linux/netlink.h>
#include <linux/rtnetlink.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

enum { EVERY_MS = 50, PORTS_MAX = 65, SHOWN = 6 };

static const char *const NAMES[SHOWN] = {
    "port_xmit_data", "port_rcv_data", "port_xmit_packets", "port_rcv_packets", "port_xmit_discards", "port_rcv_errors",
};

struct port {
    unsigned index;
    int files[SHOWN];
    unsigned long long last[SHOWN];
};

static void show(struct port *port, const struct rtnl_link_stats64 *counted)
{
    unsigned long long now[SHOWN] = {counted->tx_bytes / 4, counted->rx_bytes / 4, counted->tx_packets,
                                     counted->rx_packets,   counted->tx_dropped,   counted->rx_errors};
    char text[32];
    for (int i = 0; i < SHOWN; i++) {
        if (now[i] == port->last[i])
            continue;
        /* One write over the old digits: a counter only grows, so nothing of them is left. */
        if (pwrite(port->files[i], text, (size_t)snprintf(text, sizeof text, "%llu\n", now[i]), 0) > 0)
            port->last[i] = now[i];
    }
}

/* Ask for the counters of all interfaces at once. */
static void ask(int kernel)
{
    struct {
        struct nlmsghdr head;
        struct if_stats_msg stats;
    } request = {
        .head = {.nlmsg_len = sizeof request, .nlmsg_type = RTM_GETSTATS, .nlmsg_flags = NLM_F_REQUEST | NLM_F_DUMP},
        .stats = {.filter_mask = IFLA_STATS_FILTER_BIT(IFLA_STATS_LINK_64)},
    };
    send(kernel, &request, sizeof request, 0);
}

static void take(const struct nlmsghdr *message, struct port *ports, int count)
{
    const struct if_stats_msg *stats = NLMSG_DATA(message);
    const struct rtattr *first = (const void *)((const char *)stats + NLMSG_ALIGN(sizeof *stats));
    struct rtnl_link_stats64 counted;
    if (message->nlmsg_len < NLMSG_LENGTH(sizeof *stats) + RTA_LENGTH(sizeof counted) || first->rta_type != IFLA_STATS_LINK_64)
        return;
    memcpy(&counted, RTA_DATA(first), sizeof counted);
    for (int i = 0; i < count; i++)
        if (ports[i].index == stats->ifindex)
            show(&ports[i], &counted);
}

int main(int argc, char **argv)
{
    static struct port ports[PORTS_MAX];
    static char answer[1 << 16];
    int count = 0, kernel = socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC, NETLINK_ROUTE);
    char path[512];
    for (int i = 1; i + 1 < argc && count < PORTS_MAX; i += 2, count++) {
        ports[count].index = (unsigned)atoi(argv[i]);
        for (int file = 0; file < SHOWN; file++) {
            snprintf(path, sizeof path, "%s/%s", argv[i + 1], NAMES[file]);
            ports[count].files[file] = open(path, O_WRONLY | O_CLOEXEC);
            if (ports[count].files[file] < 0)
                return 1;
        }
    }
    for (; kernel >= 0; poll(NULL, 0, EVERY_MS)) {
        ask(kernel);
        for (int done = 0; !done;) {
            ssize_t left = recv(kernel, answer, sizeof answer, 0);
            if (left <= 0)
                return 1;
            for (struct nlmsghdr *one = (void *)answer; NLMSG_OK(one, left); one = NLMSG_NEXT(one, left)) {
                done = one->nlmsg_type == NLMSG_DONE || one->nlmsg_type == NLMSG_ERROR;
                if (done)
                    break;
                take(one, ports, count);
            }
        }
    }
    return 1;
}
