// SPDX-License-Identifier: Apache-2.0
/*
 * Traffic for bench/edge/run, over IPv4 TCP:
 *
 *   load serve PORT                                 take whatever is sent to PORT, echo what is sent to PORT + 1
 *   load send ADDRESS PORT FLOWS SECONDS RATE CHUNK send over FLOWS connections at once; RATE in bit/s of all together,
 *                                                   0: as fast as they take it; CHUNK bytes a write
 *   load ping ADDRESS PORT SECONDS [GAP]            one byte there and back, again and again; one begins GAP us after the other,
 *                                                   0: at once after the answer. One that has to wait for the answer before it
 *                                                   counts from when it was due
 *   load ask ADDRESS PORT SECONDS GAP               the same, but what is due before the answer is left out: at most one each GAP us
 *   load fetch ADDRESS PORT SECONDS BYTES [GAP]     connect, send BYTES, wait until the server has them: again and again, at most
 *                                                   one each GAP us
 *   load datagrams ADDRESS PORT SECONDS BYTES       UDP as fast as it goes; prints how many, and seconds of CPU
 *
 * Clients print one JSON object; `send` prints "begin" first, once all connections stand. Its time and CPU run from there
 * to when sending ends; bytes are those that the server's TCP acknowledged meanwhile, and with at most 64 flows those of
 * each flow and of each 100 ms. CPU is all non-idle time of all
 * CPUs, /proc/stat.
 *
 * The environment's CONGESTION names the congestion control of both sides' connections; CUBIC without it. With PRIORITY the first
 * connection of `send` has that priority, and each further one the next: HTB takes it for a class.
 */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <errno.h>
#include <linux/tcp.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#define MAX_FLOWS 20000
#define MAX_CHUNK (1 << 20)
/* Bytes that a connection may hold unsent: enough to keep it busy, and thousands of them in memory. */
#define UNSENT (256 << 10)
#define MAX_SAMPLES 4000000
/* Of how many flows and of how many 100 ms the bytes are told. */
#define TOLD_FLOWS 64
#define TOLD_STEPS 1000
#define STEP_NS 100000000
/* Nothing may hang: an alarm ends the process so long after it should have been done. */
#define GRACE_SECONDS 30

static char buffer[MAX_CHUNK];

static void die(const char *what)
{
	fprintf(stderr, "load: %s: %s\n", what, strerror(errno));
	exit(1);
}

static uint64_t now_ns(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (uint64_t)t.tv_sec * 1000000000 + (uint64_t)t.tv_nsec;
}

/* Seconds that CPUs did not idle, as /proc/stat counts: all fields but idle and iowait, guests' time being in user. */
static double busy_seconds(void)
{
	unsigned long long f[8] = {0};
	FILE *stat = fopen("/proc/stat", "r");

	if (!stat || fscanf(stat, "cpu %llu %llu %llu %llu %llu %llu %llu %llu", &f[0], &f[1], &f[2], &f[3], &f[4], &f[5],
			    &f[6], &f[7]) != 8)
		die("/proc/stat");
	fclose(stat);
	return (double)(f[0] + f[1] + f[2] + f[5] + f[6] + f[7]) / (double)sysconf(_SC_CLK_TCK);
}

static struct sockaddr_in address(const char *text, int port)
{
	struct sockaddr_in a = { .sin_family = AF_INET, .sin_port = htons((uint16_t)port) };

	if (inet_pton(AF_INET, text, &a.sin_addr) != 1) {
		errno = EINVAL;
		die(text);
	}
	return a;
}

static void set(int fd, int level, int option, int value)
{
	if (setsockopt(fd, level, option, &value, sizeof(value)))
		die("setsockopt");
}

/*
 * CUBIC unless the environment's CONGESTION names another, whatever this machine's default is: BBR paces by timers, and then
 * timers are what is measured.
 */
static void use_congestion_control(int fd)
{
	const char *name = getenv("CONGESTION");

	if (!name || !*name)
		name = "cubic";
	if (setsockopt(fd, IPPROTO_TCP, TCP_CONGESTION, name, (socklen_t)strlen(name)))
		die(name);
}

static int listen_on(int port)
{
	struct sockaddr_in a = address("0.0.0.0", port);
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK, 0);

	if (fd < 0)
		die("socket");
	use_congestion_control(fd);
	set(fd, SOL_SOCKET, SO_REUSEADDR, 1);
	if (bind(fd, (struct sockaddr *)&a, sizeof(a)) || listen(fd, 4096))
		die("listen");
	return fd;
}

static void watch(int epoll, int fd, uint32_t events, uint32_t kind)
{
	struct epoll_event e = { .events = events, .data.u64 = (uint64_t)kind << 32 | (uint32_t)fd };

	if (epoll_ctl(epoll, EPOLL_CTL_ADD, fd, &e))
		die("epoll_ctl");
}

enum { SINK_LISTENER, ECHO_LISTENER, FETCH_LISTENER, SINK, ECHO, FETCH };

/* By descriptor, of a fetch: bytes that are still to come, and 0 before their number is known. */
static uint64_t missing[MAX_FLOWS + 100];

static void take(int epoll, int listener, int kind)
{
	for (;;) {
		int fd = accept4(listener, NULL, NULL, SOCK_NONBLOCK);

		if (fd < 0)
			return;
		if (kind == ECHO)
			set(fd, IPPROTO_TCP, TCP_NODELAY, 1);
		if (kind == FETCH)
			missing[fd] = 0;
		watch(epoll, fd, EPOLLIN, (uint32_t)kind);
	}
}

/* At most this much of one connection, then the others: on a busy core data arrive as fast as they are read. */
#define TURN (128 << 10)

static void receive(int fd, int kind)
{
	ssize_t n = recv(fd, buffer, TURN, 0);

	if (n < 0 && (errno == EAGAIN || errno == EINTR))
		return;
	if (n <= 0 || (kind == ECHO && send(fd, buffer, (size_t)n, MSG_NOSIGNAL) != n))
		close(fd);
}

/* A number of bytes in eight, and so many of them with these; then one byte goes back. */
static void receive_fetch(int fd)
{
	for (;;) {
		ssize_t n = recv(fd, buffer, sizeof(buffer), 0);

		if (n < 0 && (errno == EAGAIN || errno == EINTR))
			return;
		if (n <= 0 || (!missing[fd] && n < 8)) {
			close(fd);
			return;
		}
		if (!missing[fd])
			memcpy(&missing[fd], buffer, 8);
		missing[fd] -= missing[fd] < (uint64_t)n ? missing[fd] : (uint64_t)n;
		if (!missing[fd]) {
			if (send(fd, buffer, 1, MSG_NOSIGNAL) != 1)
				perror("load: answer");
			close(fd);
			return;
		}
	}
}

static void serve(int port)
{
	struct epoll_event events[256];
	int sink = listen_on(port), echo = listen_on(port + 1), fetch = listen_on(port + 2);
	int epoll = epoll_create1(0);

	watch(epoll, sink, EPOLLIN, SINK_LISTENER);
	watch(epoll, echo, EPOLLIN, ECHO_LISTENER);
	watch(epoll, fetch, EPOLLIN, FETCH_LISTENER);
	puts("ready");
	fflush(stdout);
	for (;;) {
		int n = epoll_wait(epoll, events, 256, -1);

		for (int i = 0; i < n; i++) {
			int fd = (int)(uint32_t)events[i].data.u64, kind = (int)(events[i].data.u64 >> 32);

			if (kind == SINK_LISTENER)
				take(epoll, fd, SINK);
			else if (kind == ECHO_LISTENER)
				take(epoll, fd, ECHO);
			else if (kind == FETCH_LISTENER)
				take(epoll, fd, FETCH);
			else if (kind == FETCH)
				receive_fetch(fd);
			else
				receive(fd, kind);
		}
	}
}

static int connect_to(const struct sockaddr_in *a)
{
	int fd = socket(AF_INET, SOCK_STREAM, 0);

	if (fd < 0)
		die("socket");
	use_congestion_control(fd);
	if (connect(fd, (const struct sockaddr *)a, sizeof(*a)))
		die("connect");
	return fd;
}

/* Bytes that the other side acknowledged, of all connections. */
static uint64_t acknowledged(const int *fds, int flows)
{
	uint64_t sum = 0;

	for (int i = 0; i < flows; i++) {
		struct tcp_info info = {0};
		socklen_t len = sizeof(info);

		if (getsockopt(fds[i], IPPROTO_TCP, TCP_INFO, &info, &len))
			die("TCP_INFO");
		sum += info.tcpi_bytes_acked;
	}
	return sum;
}

/* Bytes acknowledged so far at the end of each 100 ms. */
static uint64_t told[TOLD_STEPS];
static int told_steps;

static void tell_steps(const int *fds, int flows, uint64_t begin)
{
	while (flows <= TOLD_FLOWS && told_steps < TOLD_STEPS && now_ns() >= begin + (uint64_t)(told_steps + 1) * STEP_NS)
		told[told_steps++] = acknowledged(fds, flows);
}

static void send_unlimited(const int *fds, int flows, uint64_t end, size_t chunk)
{
	struct epoll_event events[256];
	uint64_t begin = now_ns();
	int epoll = epoll_create1(0);

	for (int i = 0; i < flows; i++)
		watch(epoll, fds[i], EPOLLOUT, 0);
	while (now_ns() < end) {
		int n = epoll_wait(epoll, events, 256, 10);

		tell_steps(fds, flows, begin);

		for (int i = 0; i < n; i++) {
			int fd = (int)(uint32_t)events[i].data.u64;

			if (send(fd, buffer, chunk, MSG_NOSIGNAL | MSG_DONTWAIT) < 0 && errno != EAGAIN)
				die("send");
		}
	}
	close(epoll);
}

/* A chunk on the next connection whenever its time has come; one that is late is made up for, within 10 ms. */
static void send_paced(const int *fds, int flows, uint64_t end, size_t chunk, double rate)
{
	uint64_t gap = (uint64_t)((double)chunk * 8e9 / rate), due = now_ns(), now;
	int next = 0;

	while ((now = now_ns()) < end) {
		if (now < due) {
			struct timespec t = { .tv_nsec = (long)(due - now < 1000000 ? due - now : 1000000) };

			nanosleep(&t, NULL);
			continue;
		}
		if (send(fds[next], buffer, chunk, MSG_NOSIGNAL | MSG_DONTWAIT) < 0 && errno != EAGAIN)
			die("send");
		next = (next + 1) % flows;
		due += gap;
		if (due + 10000000 < now)
			due = now - 10000000;
	}
}

static void send_flows(const struct sockaddr_in *a, int flows, double seconds, double rate, size_t chunk)
{
	const struct linger discard = { .l_onoff = 1 };
	static int fds[MAX_FLOWS];
	uint64_t begin, bytes;
	const char *priority = getenv("PRIORITY");
	double busy, elapsed;

	for (int i = 0; i < flows; i++) {
		fds[i] = connect_to(a);
		if (priority)
			set(fds[i], SOL_SOCKET, SO_PRIORITY, atoi(priority) + i);
		set(fds[i], IPPROTO_TCP, TCP_NOTSENT_LOWAT, UNSENT);
		/* What is under way when time is up need not arrive. */
		if (setsockopt(fds[i], SOL_SOCKET, SO_LINGER, &discard, sizeof(discard)))
			die("setsockopt");
	}
	puts("begin");
	fflush(stdout);
	busy = busy_seconds();
	begin = now_ns();
	if (rate > 0)
		send_paced(fds, flows, begin + (uint64_t)(seconds * 1e9), chunk, rate);
	else
		send_unlimited(fds, flows, begin + (uint64_t)(seconds * 1e9), chunk);
	bytes = acknowledged(fds, flows);
	elapsed = (double)(now_ns() - begin) / 1e9;
	busy = busy_seconds() - busy;
	printf("{\"bytes\": %llu, \"seconds\": %.6f, \"busy_seconds\": %.3f", (unsigned long long)bytes, elapsed, busy);
	printf(", \"flows\": [");
	for (int i = 0; flows <= TOLD_FLOWS && i < flows; i++)
		printf("%s%llu", i ? ", " : "", (unsigned long long)acknowledged(fds + i, 1));
	printf("], \"steps\": [");
	for (int i = 0; i < told_steps; i++)
		printf("%s%llu", i ? ", " : "", (unsigned long long)(told[i] - (i ? told[i - 1] : 0)));
	puts("]}");
}

static int ascending(const void *a, const void *b)
{
	float x = *(const float *)a, y = *(const float *)b;

	return (x > y) - (x < y);
}

static void tell_samples(float *samples, size_t n)
{
	qsort(samples, n, sizeof(*samples), ascending);
	if (!n)
		die("no sample");
	printf("{\"count\": %zu, \"p50_us\": %.2f, \"p90_us\": %.2f, \"p99_us\": %.2f, \"p999_us\": %.2f}\n", n, samples[n / 2],
	       samples[n * 9 / 10], samples[n * 99 / 100], samples[n * 999 / 1000]);
}

/* Sleeps until it is `due`. Returns what the time is then, or `due` if that was over. */
static uint64_t wait_until(uint64_t due)
{
	uint64_t now = now_ns();
	struct timespec t = { .tv_sec = (time_t)(due / 1000000000), .tv_nsec = (long)(due % 1000000000) };

	if (now >= due)
		return due;
	while (clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &t, NULL) == EINTR)
		;
	return now_ns();
}

static void fetch(const struct sockaddr_in *a, double seconds, uint64_t bytes, uint64_t gap_ns)
{
	float *samples = malloc(sizeof(*samples) * MAX_SAMPLES);
	uint64_t due = now_ns(), end = due + (uint64_t)(seconds * 1e9);
	size_t n = 0;

	if (!samples)
		die("malloc");
	memcpy(buffer, &bytes, sizeof(bytes));
	while (n < MAX_SAMPLES && now_ns() < end) {
		uint64_t begin = gap_ns ? wait_until(due) : now_ns(), sent = 0;
		int fd = connect_to(a);
		char byte;

		while (sent < bytes) {
			uint64_t left = bytes - sent;
			ssize_t taken = send(fd, buffer, left < MAX_CHUNK ? left : MAX_CHUNK, MSG_NOSIGNAL);

			if (taken <= 0)
				die("send");
			sent += (uint64_t)taken;
		}
		if (recv(fd, &byte, 1, 0) != 1)
			die("fetch");
		samples[n++] = (float)(now_ns() - begin) / 1e3f;
		close(fd);
		for (uint64_t now = now_ns(); gap_ns && due < now;)
			due += gap_ns;
	}
	tell_samples(samples, n);
	free(samples);
}

/* `skips`: none waits for the answer before it, but is left out. */
static void ping(const struct sockaddr_in *a, double seconds, uint64_t gap_ns, int skips)
{
	float *samples = malloc(sizeof(*samples) * MAX_SAMPLES);
	int fd = connect_to(a);
	uint64_t due = now_ns(), end = due + (uint64_t)(seconds * 1e9);
	size_t n = 0;

	if (!samples)
		die("malloc");
	set(fd, IPPROTO_TCP, TCP_NODELAY, 1);
	while (n < MAX_SAMPLES && now_ns() < end) {
		uint64_t begin = gap_ns ? wait_until(due) : now_ns();

		due += gap_ns;
		if (send(fd, buffer, 1, MSG_NOSIGNAL) != 1 || recv(fd, buffer, 1, 0) != 1)
			die("ping");
		samples[n++] = (float)(now_ns() - begin) / 1e3f;
		for (uint64_t now = now_ns(); skips && due < now;)
			due += gap_ns;
	}
	tell_samples(samples, n);
	free(samples);
}

static void datagrams(const struct sockaddr_in *a, double seconds, size_t bytes)
{
	struct iovec part = { .iov_base = buffer, .iov_len = bytes };
	struct mmsghdr batch[32] = {0};
	int fd = socket(AF_INET, SOCK_DGRAM, 0);
	uint64_t end = now_ns() + (uint64_t)(seconds * 1e9), sent = 0;
	struct rusage used;

	if (fd < 0 || connect(fd, (const struct sockaddr *)a, sizeof(*a)))
		die("connect");
	for (int i = 0; i < 32; i++) {
		batch[i].msg_hdr.msg_iov = &part;
		batch[i].msg_hdr.msg_iovlen = 1;
	}
	while (now_ns() < end) {
		int n = sendmmsg(fd, batch, 32, 0); /* nobody listens: what was refused counts as sent */

		sent += n > 0 ? (uint64_t)n : 0;
	}
	getrusage(RUSAGE_SELF, &used);
	printf("{\"sent\": %llu, \"cpu_seconds\": %.6f}\n", (unsigned long long)sent,
	       (double)(used.ru_utime.tv_sec + used.ru_stime.tv_sec) +
		       (double)(used.ru_utime.tv_usec + used.ru_stime.tv_usec) / 1e6);
}

int main(int argc, char **argv)
{
	struct rlimit files = { MAX_FLOWS + 100, MAX_FLOWS + 100 };
	struct sockaddr_in a;

	setrlimit(RLIMIT_NOFILE, &files);
	if (argc == 3 && !strcmp(argv[1], "serve"))
		serve(atoi(argv[2]));
	if (argc == 8 && !strcmp(argv[1], "send")) {
		int flows = atoi(argv[4]), chunk = atoi(argv[7]);

		if (flows < 1 || flows > MAX_FLOWS || chunk < 1 || chunk > MAX_CHUNK)
			return 2;
		a = address(argv[2], atoi(argv[3]));
		alarm((unsigned)atof(argv[5]) + GRACE_SECONDS);
		send_flows(&a, flows, atof(argv[5]), atof(argv[6]), (size_t)chunk);
		return 0;
	}
	if (((argc == 5 || argc == 6) && !strcmp(argv[1], "ping")) || (argc == 6 && !strcmp(argv[1], "ask"))) {
		int gap = argc == 6 ? atoi(argv[5]) : 0, skips = !strcmp(argv[1], "ask");

		if (gap < skips)
			return 2;
		a = address(argv[2], atoi(argv[3]) + 1);
		alarm((unsigned)atof(argv[4]) + GRACE_SECONDS);
		ping(&a, atof(argv[4]), (uint64_t)gap * 1000, skips);
		return 0;
	}
	if ((argc == 6 || argc == 7) && !strcmp(argv[1], "fetch")) {
		long bytes = atol(argv[5]), gap = argc == 7 ? atol(argv[6]) : 0;

		if (bytes < 8 || bytes > 1L << 30 || gap < 0)
			return 2;
		a = address(argv[2], atoi(argv[3]) + 2);
		alarm((unsigned)atof(argv[4]) + GRACE_SECONDS);
		fetch(&a, atof(argv[4]), (uint64_t)bytes, (uint64_t)gap * 1000);
		return 0;
	}
	if (argc == 6 && !strcmp(argv[1], "datagrams")) {
		long bytes = atol(argv[5]);

		if (bytes < 1 || bytes > 65000)
			return 2;
		a = address(argv[2], atoi(argv[3]));
		alarm((unsigned)atof(argv[4]) + GRACE_SECONDS);
		datagrams(&a, atof(argv[4]), (size_t)bytes);
		return 0;
	}
	fprintf(stderr, "load: see the head of load.c\n");
	return 2;
}
