/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/*
 * Preloaded into a program: a kernel without HTB and VXLAN, as far as the program can see. Requests for them by netlink are answered as
 * such a kernel answers. Once the file is there that LACKING_UNTIL names, the kernel has HTB.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <linux/rtnetlink.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

static int has_htb(void)
{
    const char *until = getenv("LACKING_UNTIL");

    return until && access(until, F_OK) == 0;
}

ssize_t sendto(int fd, const void *data, size_t len, int flags, const struct sockaddr *to, socklen_t to_len)
{
    ssize_t (*next)(int, const void *, size_t, int, const struct sockaddr *, socklen_t) = dlsym(RTLD_NEXT, "sendto");
    struct nlmsghdr head;

    if (to && to->sa_family == AF_NETLINK && len >= sizeof head) {
        memcpy(&head, data, sizeof head);
        if (head.nlmsg_type == RTM_NEWQDISC && memmem(data, len, "htb", 4) && !has_htb()) {
            errno = ENOENT;
            return -1;
        }
        if (head.nlmsg_type == RTM_NEWLINK && memmem(data, len, "vxlan", 5)) {
            errno = EOPNOTSUPP;
            return -1;
        }
    }
    return next(fd, data, len, flags, to, to_len);
}
