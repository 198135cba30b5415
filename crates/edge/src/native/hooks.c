/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/*
 * For a test: edge.h with a scheme that has every hook of balance.h, and with locks that are counted. Shows when the hooks are
 * called, what they see and which lock is held.
 */
#include "paths.h"

typedef int sv_lock;
#define SV_LOCK(lock) (nested += flow_lock + paths_lock, ++*(lock))
#define SV_UNLOCK(lock) (--*(lock))
#define SV_BALANCE_TEST 255

static sv_lock flow_lock, paths_lock;
static int nested; /* how often one was taken while another was held */

/* The path that is least congested; ticks halve what is known. */
static u32 sv_test_best(const struct sv_paths *paths)
{
	u32 best = 0;

	for (u32 i = 1; i < paths->n; i++)
		best = paths->path[i].congestion < paths->path[best].congestion ? i : best;
	return best;
}

/* What is offered is what egress sees: of all paths that a schedule may have. */
static int sv_test_egress(struct sv_choice *c, const struct sv_paths *paths)
{
	if (flow_lock != 1 || paths_lock || paths->offer != sv_test_best(paths) + 1)
		return -1;
	sv_choice_enter(c, paths, paths->offer - 1u);
	return 1;
}

static u16 sv_test_offer(const struct sv_paths *paths)
{
	return flow_lock || paths_lock != 1 ? 0 : (u16)(sv_test_best(paths) + 1);
}

static void sv_test_ingress(const struct sv_paths *paths, const struct sv_path_news *news, u64 now)
{
	if (flow_lock || paths_lock != 1)
		return;
	paths->path[news->path].congestion = (u16)(news->value << 8);
	paths->path[news->path].heard = (u32)(now >> SV_PATH_SHIFT);
}

static void sv_test_tick(const struct sv_paths *paths, u64 now)
{
	(void)now;
	for (u32 i = 0; !flow_lock && paths_lock == 1 && i < paths->n; i++)
		paths->path[i].congestion /= 2;
}

/* The path of every segment: each begins a flowlet. */
#define sv_test_wants() ((struct sv_balance_wants){ .keeps = 1, .offers = SV_OFFERS_ALL })

#include "edge.h"

#define HOLDS(what) do { if (!(what)) return __LINE__; } while (0)

/* A flow with n paths, five ticks after the clock began. */
static struct sv_ctx context(const struct sv_conf *conf, struct sv_flow *flow, struct sv_balance *balance, const u16 *labels, u32 n,
			     struct sv_path *path)
{
	struct sv_ctx c = {
		.conf = conf,
		.flow = flow,
		.balance = balance,
		.flow_lock = &flow_lock,
		.paths = { .labels = labels, .n = n, .path = path },
		.paths_lock = &paths_lock,
		.now = 5 << SV_PATH_SHIFT,
	};

	return c;
}

int sv_edge_hooks(void);

/* Returns 0, or the line that does not hold. */
int sv_edge_hooks(void)
{
	static const u16 labels[2] = { 11, 12 };
	struct sv_path path[SV_MAX_LABELS] = {0};
	const struct sv_conf conf = { .idle = ~0ULL, .balance = { .scheme = SV_BALANCE_TEST } };
	struct sv_packet p = { .payload = 1 };
	struct sv_balance balance = {0};
	struct sv_flow flow = {0};
	struct sv_ctx c = context(&conf, &flow, &balance, labels, 2, path);

	HOLDS(sv_egress(&c, &p) == (SV_BEGAN | SV_CELL_OPENED) && p.label == 11);
	sv_ingress(&c, &p);
	HOLDS(!path[0].heard);
	c.news = (struct sv_path_news){ .kind = 2, .path = 11, .value = 9 };
	sv_ingress(&c, &p);
	HOLDS(path[0].congestion == 9 << 8 && path[0].heard == 5 && !path[1].heard);
	sv_egress(&c, &p);
	HOLDS(p.label == 12);
	c.news.path = 12;
	c.news.value = 100;
	c.flow = 0; /* paths are heard of without room for the flow, too */
	sv_ingress(&c, &p);
	HOLDS(path[1].congestion == 100 << 8);
	c.flow = &flow;
	sv_egress(&c, &p);
	HOLDS(p.label == 11);
	sv_tick_paths(&c);
	HOLDS(path[0].congestion == 9 << 7);
	/* An index that named another path before: feedback on it is of that one for two round trips. */
	sv_path_bind(&path[0], 100 << SV_PATH_SHIFT, c.now);
	c.news = (struct sv_path_news){ .kind = 2, .path = 11, .value = 50 };
	c.now += 200 << SV_PATH_SHIFT;
	sv_ingress(&c, &p);
	HOLDS(path[0].congestion == 9 << 7);
	c.now += 1 << SV_PATH_SHIFT;
	sv_ingress(&c, &p);
	HOLDS(path[0].congestion == 50 << 8);
	c.news.value = 9;
	c.news.path = 13; /* no path's index */
	sv_ingress(&c, &p);
	c.news = (struct sv_path_news){ .kind = SV_FEEDBACK_MARKS, .path = 11, .value = 1 };
	sv_ingress(&c, &p); /* a count of marks is of no path */
	HOLDS(path[0].congestion == 50 << 8);
	path[0].congestion = 9 << 7;
	c.paths.path = 0;
	sv_ingress(&c, &p);
	sv_tick_paths(&c);
	HOLDS(path[0].congestion == 9 << 7 && !flow_lock && !paths_lock);
	HOLDS(!nested);
	return 0;
}

int sv_edge_many_paths(void);

/* A schedule of as many paths as there may be: the last of them can be offered, too. */
int sv_edge_many_paths(void)
{
	const struct sv_conf conf = { .idle = ~0ULL, .balance = { .scheme = SV_BALANCE_TEST } };
	struct sv_path path[SV_MAX_LABELS] = {0};
	struct sv_packet p = { .payload = 1 };
	struct sv_balance balance = {0};
	struct sv_flow flow = {0};
	u16 labels[SV_MAX_LABELS];
	struct sv_ctx c;

	for (u32 i = 0; i < SV_MAX_LABELS; i++)
		labels[i] = sv_label((u8)i, 0);
	c = context(&conf, &flow, &balance, labels, SV_MAX_LABELS, path);
	for (u32 best = SV_MAX_LABELS - 4; best < SV_MAX_LABELS; best++) {
		for (u32 i = 0; i < SV_MAX_LABELS; i++)
			path[i].congestion = i != best;
		sv_egress(&c, &p);
		HOLDS(p.label == labels[best]);
	}
	return 0;
}

int sv_edge_clove_locks(void);

/* The same for Clove, which takes its path under the paths' lock before it commits it under the flow's. */
int sv_edge_clove_locks(void)
{
	static const u16 labels[3] = { 11, 12, 13 };
	struct sv_path path[SV_MAX_LABELS] = {0};
	const struct sv_conf conf = {
		.idle = ~0ULL,
		.balance = { .scheme = SV_BALANCE_CLOVE, .clove = { .gap = 100 << 10, .relay = 20 << 10, .clear = 200 << 10 } },
	};
	struct sv_packet p = { .payload = 1, .proto = SV_PROTO_TCP, .tcp_flags = SV_TCP_ACK };
	struct sv_balance balance = {0};
	struct sv_flow flow = {0};
	struct sv_ctx c = context(&conf, &flow, &balance, labels, 3, path);

	HOLDS(sv_egress(&c, &p) == (SV_BEGAN | SV_CELL_OPENED) && p.label == 11 && p.cell == 0 && p.outer_ecn == SV_ECN_ECT0);
	HOLDS(path[0].weight + path[1].weight + path[2].weight == SV_CLOVE_ONE && path[0].turn < 0);
	HOLDS(sv_egress(&c, &p) == 0 && p.label == 11); /* within the flowlet nothing is taken from the paths */
	HOLDS(path[1].turn > 0 && path[0].turn + path[1].turn + path[2].turn == 0);
	c.now += 102 << SV_PATH_SHIFT;
	c.paths.offer = 0;
	HOLDS(sv_egress(&c, &p) == SV_CELL_OPENED && p.label == 12 && p.cell == 1);
	c.news = (struct sv_path_news){ .kind = SV_FEEDBACK_CE, .path = 13 };
	sv_ingress(&c, &p);
	HOLDS(path[2].weight < path[1].weight && path[2].congestion);
	c.now += 102 << SV_PATH_SHIFT;
	c.paths.offer = 0;
	c.paths.path = 0; /* no room for states: the next path in turn */
	HOLDS(sv_egress(&c, &p) == SV_CELL_OPENED && p.label == 13 && p.cell == 2);
	HOLDS(!nested && !flow_lock && !paths_lock);
	return 0;
}
