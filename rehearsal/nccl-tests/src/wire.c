#include "wire.h"

#include <arpa/inet.h>
#include <errno.h>
#include <linux/tcp.h> // the tcp_info of the C library lacks busy_time
#include <netinet/in.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "fail.h"

enum { READS_IN_A_ROW = 4, MARK_BYTES = 64 * 1024 };
static const double STALL_S = 30, SECOND_REPORT_S = 3, HANG_UP_S = 2;

__attribute__((noreturn)) static void connection_lost(const struct wire *wire, const struct link *link, bool outward,
                                                      const char *why)
{
    const struct rail *rail = &wire->rails->channels[link->channel].rail;
    char here[64], there[64];
    snprintf(here, sizeof here, "%.40s, %s", fail_host(), inet_ntoa(rail->address));
    snprintf(there, sizeof there, "%.40s, %s", group_host_name(wire->group, link->host), inet_ntoa(link->address));
    FAIL(RESULT_NCCL, "channel %d: rail %s (%s) from %s, to %s: %s", link->channel, rail->hca, rail->netdev,
         outward ? here : there, outward ? there : here, why);
}

__attribute__((noreturn)) static void hung_up(const struct wire *wire, const struct link *link, bool outward, const char *why)
{
    usleep((useconds_t)(HANG_UP_S * 1e6)); // first let a rank that failed name the cause and end the job
    connection_lost(wire, link, outward, why);
}

// Send what is ready; true if the rail accepts no more bytes for now.
static bool pump_out(const struct wire *wire, struct lane *lane)
{
    const char *from;
    bool more = false;
    for (size_t bytes; lane->sending && (bytes = lane->ready(lane, &from, &more)) > 0;) {
        ssize_t sent = send(lane->out->fd, from, bytes, MSG_NOSIGNAL | MSG_DONTWAIT | (more ? MSG_MORE : 0));
        if (sent < 0 && errno == EINTR) continue;
        if (sent < 0 && errno == EAGAIN) return true;
        if (sent < 0) hung_up(wire, lane->out, true, strerror(errno));
        lane->sent(lane, (size_t)sent);
        lane->moved_at = job_now();
    }
    // Confirm only after the last byte in both directions, so that a confirmation cannot be mistaken for data.
    if (!lane->sending && !lane->receiving && lane->owes) {
        ssize_t sent = send(lane->in->fd, "", 1, MSG_NOSIGNAL | MSG_DONTWAIT);
        if (sent < 0 && (errno == EAGAIN || errno == EINTR)) return true;
        if (sent < 0) hung_up(wire, lane->in, true, strerror(errno));
        lane->owes = false;
    }
    return false;
}

static void wake_at(struct link *link, size_t bytes)
{
    int mark = bytes < 1 ? 1 : bytes < MARK_BYTES ? (int)bytes : MARK_BYTES;
    if (mark != link->low_water) setsockopt(link->fd, SOL_SOCKET, SO_RCVLOWAT, &mark, sizeof mark);
    link->low_water = mark;
}

// Receive what has arrived.
static void pump_in(const struct wire *wire, struct lane *lane)
{
    for (int reads = 0; reads < READS_IN_A_ROW && lane->receiving; reads++) {
        char *to;
        size_t room = lane->room(lane, &to);
        ssize_t got = recv(lane->in->fd, to, room, MSG_DONTWAIT);
        if (got < 0 && errno == EINTR) continue;
        if (got < 0 && errno == EAGAIN) break;
        if (got <= 0) hung_up(wire, lane->in, false, got ? strerror(errno) : "the peer closed the connection");
        lane->moved_at = job_now();
        lane->arrived(lane, (size_t)got);
    }
    if (lane->receiving) {
        wake_at(lane->in, lane->wake(lane));
    } else if (!lane->sending && lane->awaits) {
        char confirmation;
        ssize_t got = recv(lane->out->fd, &confirmation, 1, MSG_DONTWAIT);
        if (got == 0 || (got < 0 && errno != EAGAIN && errno != EINTR))
            hung_up(wire, lane->out, false, got ? strerror(errno) : "the peer closed the connection");
        lane->awaits = got != 1;
        if (lane->awaits) wake_at(lane->out, 1);
        else lane->moved_at = job_now();
    }
}

static void ask_tcp(int fd, struct tcp_info *info)
{
    socklen_t size = sizeof *info;
    memset(info, 0, sizeof *info);
    getsockopt(fd, IPPROTO_TCP, TCP_INFO, info, &size);
}

static void check_stall(const struct wire *wire, const struct lane *lane, double now, double stall_s)
{
    struct tcp_info info = {0};
    char why[64];
    if (now - lane->moved_at < stall_s) return;
    if (lane->out) ask_tcp(lane->out->fd, &info);
    // Retransmissions without an answer mean that this rail is at fault. On a good rail, a peer answers probes even if the peer
    // reads no data.
    snprintf(why, sizeof why, "nothing was acknowledged for %.0f s", stall_s);
    if (info.tcpi_retransmits > 0 || info.tcpi_probes > 1) connection_lost(wire, lane->out, true, why);
    // Without retransmissions, the incoming rail or the rail of another channel is at fault. This rank waits longer, so that a
    // rank that knows the faulty rail prints its message first.
    snprintf(why, sizeof why, "nothing came for %.0f s", stall_s + SECOND_REPORT_S);
    if (now - lane->moved_at > stall_s + SECOND_REPORT_S)
        connection_lost(wire, lane->in ? lane->in : lane->out, !lane->in, why);
}

// Move what can be moved on a lane; true if the lane has nothing left to do.
static bool pump(const struct wire *wire, struct lane *lane, struct pollfd *polls)
{
    pump_in(wire, lane);
    bool blocked = pump_out(wire, lane);
    if (!lane->receiving && !lane->sending && lane->awaits) pump_in(wire, lane);
    bool confirmed = !lane->owes && !lane->awaits;
    if (!lane->receiving && !lane->sending && confirmed) return true;
    if (lane->receiving) polls[0] = (struct pollfd){.fd = lane->in->fd, .events = POLLIN};
    else if (!lane->sending && lane->awaits) polls[0] = (struct pollfd){.fd = lane->out->fd, .events = POLLIN};
    if (blocked) polls[1] = (struct pollfd){.fd = lane->sending ? lane->out->fd : lane->in->fd, .events = POLLOUT};
    return false;
}

void wire_run(struct wire *wire, struct lane **lanes, int count, void (*meanwhile)(void *), void *argument)
{
    const char *given = getenv("BUSBAR_RING_STALL_S");
    double stall_s = given && atof(given) > 0 ? atof(given) : STALL_S, begin = job_now();
    struct pollfd *polls = malloc(sizeof *polls * (size_t)(2 * count + 1));
    for (int i = 0; i < count; i++) {
        lanes[i]->moved_at = begin;
        lanes[i]->done_at = 0;
        lanes[i]->owes = lanes[i]->confirms && lanes[i]->receiving;
        lanes[i]->awaits = lanes[i]->confirms && lanes[i]->sending;
    }
    for (int open = count; open > 0 || meanwhile;) {
        double now = job_now();
        for (int i = 0; i < count; i++) {
            struct lane *lane = lanes[i];
            polls[2 * i] = polls[2 * i + 1] = (struct pollfd){.fd = -1};
            if (lane->done_at > 0) continue;
            if (!pump(wire, lane, &polls[2 * i])) {
                check_stall(wire, lane, now, stall_s);
                continue;
            }
            lane->done_at = job_now();
            if (lane->out || lane->in) wire->seconds[(lane->out ? lane->out : lane->in)->channel] += lane->done_at - begin;
            open--;
        }
        if (wire->deadline > 0 && now > wire->deadline) FAIL_TIMEOUT(wire->timeout_s);
        if (meanwhile) meanwhile(argument);
        else if (open > 0) poll(polls, (nfds_t)(2 * count), 500);
        meanwhile = NULL;
    }
    free(polls);
}

double wire_busy_s(const struct link *link)
{
    struct tcp_info info;
    ask_tcp(link->fd, &info);
    return 1e-6 * (double)info.tcpi_busy_time;
}
