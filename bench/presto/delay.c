// SPDX-License-Identifier: Apache-2.0
/*
 * delay DEVICE MICROSECONDS: makes the TAP device DEVICE, prints "ready" and its MAC address, and gives back every frame
 * that the kernel sends on it, so much later. Segments stay whole, in a UDP tunnel too where the kernel can say so (Linux
 * 6.17). Ends when its standard input does.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <linux/if.h>
#include <linux/if_tun.h>
#include <poll.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/prctl.h>
#include <time.h>
#include <unistd.h>

#ifndef TUN_F_UDP_TUNNEL_GSO
#define TUN_F_UDP_TUNNEL_GSO 0x080
#endif
/* struct virtio_net_hdr_v1_hash_tunnel; handed back as it came. */
#define HEADER 24
#define FRAME (HEADER + 65536 + 64)
/* What waits at once, at most: more is lost, as in a full queue. */
#define FRAMES 8192

struct frame {
	uint64_t due;
	ssize_t len;
	unsigned char bytes[FRAME];
};

static void die(const char *what)
{
	fprintf(stderr, "delay: %s: %s\n", what, strerror(errno));
	exit(1);
}

static uint64_t now_ns(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (uint64_t)t.tv_sec * 1000000000 + (uint64_t)t.tv_nsec;
}

static int open_tap(const char *name)
{
	unsigned offload = TUN_F_CSUM | TUN_F_TSO4 | TUN_F_TSO6 | TUN_F_TSO_ECN;
	struct ifreq request = { .ifr_flags = IFF_TAP | IFF_NO_PI | IFF_VNET_HDR };
	int fd = open("/dev/net/tun", O_RDWR | O_NONBLOCK), size = HEADER;

	if (fd < 0)
		die("/dev/net/tun");
	strncpy(request.ifr_name, name, IFNAMSIZ - 1);
	if (ioctl(fd, TUNSETIFF, &request) || ioctl(fd, TUNSETVNETHDRSZ, &size))
		die(name);
	if (ioctl(fd, TUNSETOFFLOAD, offload | TUN_F_UDP_TUNNEL_GSO) && ioctl(fd, TUNSETOFFLOAD, 0))
		die("offload");
	if (ioctl(fd, SIOCGIFHWADDR, &request))
		die("hardware address");
	printf("ready");
	for (int i = 0; i < 6; i++)
		printf("%c%02x", i ? ':' : ' ', (unsigned char)request.ifr_hwaddr.sa_data[i]);
	printf("\n");
	fflush(stdout);
	return fd;
}

int main(int argc, char **argv)
{
	static struct frame *frames[FRAMES];
	uint64_t delay, head = 0, tail = 0;
	int fd;

	if (argc != 3) {
		fprintf(stderr, "usage: delay DEVICE MICROSECONDS\n");
		return 2;
	}
	delay = strtoull(argv[2], 0, 10) * 1000;
	prctl(PR_SET_TIMERSLACK, 1);
	fd = open_tap(argv[1]);
	for (;;) {
		struct pollfd fds[] = { { .fd = fd, .events = POLLIN }, { .fd = 0, .events = POLLIN } };
		uint64_t now = now_ns(), wait = head < tail && frames[head % FRAMES]->due > now ? frames[head % FRAMES]->due - now : 0;
		struct timespec t = { .tv_sec = 0, .tv_nsec = (long)(wait < 999999999 ? wait : 999999999) };

		if (ppoll(fds, 2, head < tail ? &t : 0, 0) > 0 && fds[1].revents)
			return 0;
		while (tail - head < FRAMES) {
			struct frame **f = &frames[tail % FRAMES];

			if (!*f && !(*f = malloc(sizeof(**f))))
				die("memory");
			(*f)->len = read(fd, (*f)->bytes, FRAME);
			if ((*f)->len <= 0)
				break;
			(*f)->due = now_ns() + delay;
			tail++;
			if (head < tail - 1 && frames[head % FRAMES]->due <= now_ns())
				break;
		}
		for (now = now_ns(); head < tail && frames[head % FRAMES]->due <= now; head++)
			if (write(fd, frames[head % FRAMES]->bytes, (size_t)frames[head % FRAMES]->len) < 0 && errno != EAGAIN &&
			    errno != ENOBUFS && errno != EIO)
				die("write");
	}
}
