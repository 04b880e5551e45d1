/* Stand-in: wpa_supplicant. To the real wpa_cli, the stand-in looks like the wpa_supplicant with which the vendor's agent
 * authenticates each rail by 802.1X (wired, EAP-TLS). Arguments: for each interface, its name and the file with its state.
 * As in wpa_supplicant, each interface has a separate socket. Commands other than PING and STATUS get wpa_supplicant's
 * answer to an unknown command. */
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#define MOST 64
#define FOLDER "/run/wpa_supplicant"

static const char *status(const char *path)
{
    static char text[256];
    char state[32] = "DISCONNECTED";
    FILE *file = fopen(path, "r");
    int in;

    if (file) {
        if (fscanf(file, "%31s", state) != 1)
            strcpy(state, "DISCONNECTED");
        fclose(file);
    }
    in = !strcmp(state, "AUTHENTICATED");
    snprintf(text, sizeof text,
             "key_mgmt=IEEE 802.1X (no WPA)\nwpa_state=%s\nSupplicant PAE state=%s\nsuppPortStatus=%s\nEAP state=%s\n",
             in ? "COMPLETED" : "ASSOCIATED", state, in ? "Authorized" : "Unauthorized", in ? "SUCCESS" : "IDLE");
    return text;
}

int main(int argc, char **argv)
{
    struct pollfd sockets[MOST];
    int count = (argc - 1) / 2;

    if (count < 1 || count > MOST)
        return 2;
    mkdir(FOLDER, 0750);
    for (int at = 0; at < count; at++) {
        struct sockaddr_un own = {.sun_family = AF_UNIX};
        snprintf(own.sun_path, sizeof own.sun_path, FOLDER "/%s", argv[1 + 2 * at]);
        unlink(own.sun_path);
        sockets[at].fd = socket(AF_UNIX, SOCK_DGRAM, 0);
        sockets[at].events = POLLIN;
        if (bind(sockets[at].fd, (struct sockaddr *)&own, sizeof own))
            return perror(own.sun_path), 1;
    }
    if (daemon(0, 0))
        return perror("daemon"), 1;
    while (poll(sockets, count, -1) > 0)
        for (int at = 0; at < count; at++) {
            struct sockaddr_un from;
            socklen_t size = sizeof from;
            char asked[128];
            ssize_t length;
            const char *said;

            if (!(sockets[at].revents & POLLIN))
                continue;
            length = recvfrom(sockets[at].fd, asked, sizeof asked - 1, 0, (struct sockaddr *)&from, &size);
            if (length < 0)
                continue;
            asked[length] = 0;
            said = !strcmp(asked, "PING") ? "PONG\n" : !strcmp(asked, "STATUS") ? status(argv[2 + 2 * at]) : "UNKNOWN COMMAND\n";
            sendto(sockets[at].fd, said, strlen(said), 0, (struct sockaddr *)&from, size);
        }
    return 0;
}
