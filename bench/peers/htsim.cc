/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/*
 * What `selvedge bench sim` runs, in csg-htsim: a fat-tree with DCTCP, and a permutation of endless flows, each on a path of its own choice.
 * Only calls the library; nothing of it is here. Prints one line of JSON as fat_tree.cc does.
 */
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <numeric>
#include <random>
#include <unistd.h>
#include <vector>

#include "dctcp.h"
#include "eventlist.h"
#include "fat_tree_topology.h"
#include "network.h"
#include "pipe.h"

namespace {

uint64_t packet_hops = 0;

/* Stands before the end of a route: whatever comes by has crossed all its links. */
class Counter : public PacketSink {
public:
	explicit Counter(uint64_t links) : links(links) {}
	void receivePacket(Packet &packet) override
	{
		packet_hops += links;
		packet.sendOn();
	}
	const string &nodename() override { return name; }

private:
	uint64_t links;
	string name = "counter";
};

Route *route_to(const Route &path, PacketSink &end)
{
	uint64_t links = 0;
	Route *route = new Route(path);

	for (size_t i = 0; i < path.size(); i++)
		links += dynamic_cast<Pipe *>(path.at(i)) != nullptr;
	route->push_back(new Counter(links));
	route->push_back(&end);
	return route;
}

/* The value of `--name=value`, or none. */
const char *value_of(const char *argument, const char *name)
{
	size_t length = strlen(name);

	return !strncmp(argument, name, length) && argument[length] == '=' ? argument + length + 1 : nullptr;
}

} // namespace

int main(int argc, char **argv)
{
	unsigned k = 8, seed = 1;
	double sim_ms = 5;

	for (int i = 1; i < argc; i++) {
		if (const char *value = value_of(argv[i], "--k"))
			k = (unsigned)atoi(value);
		else if (const char *value = value_of(argv[i], "--seed"))
			seed = (unsigned)atoi(value);
		else if (const char *value = value_of(argv[i], "--sim-ms"))
			sim_ms = atof(value);
		else {
			fprintf(stderr, "htsim: %s: unknown; known are --k=8 --seed=1 --sim-ms=5\n", argv[i]);
			return 2;
		}
	}
	if (k < 4 || k > 64 || k % 2 || !(sim_ms > 0 && sim_ms <= 10000)) {
		fprintf(stderr, "htsim: --k is an even number from 4 to 64, --sim-ms above 0 and at most 10000\n");
		return 2;
	}
	/* The library talks on standard output while it builds. */
	FILE *out = fdopen(dup(1), "w");
	if (!out || !freopen("/dev/null", "w", stdout)) {
		perror("htsim");
		return 1;
	}

	const uint32_t hosts = k * k * k / 4;
	const linkspeed_bps rate = speedFromMbps((uint64_t)10000);
	EventList &events = EventList::getTheEventList();
	std::mt19937 random(seed);
	srand(seed);
	Packet::set_packet_size(1500);
	events.setEndtime(timeFromMs(sim_ms));
	FatTreeTopology::set_tiers(3);
	FatTreeTopology network(hosts, rate, memFromPkt(250), nullptr, &events, nullptr, ECN, timeFromUs(1.0), 0, FAIR_PRIO);
	TcpRtxTimerScanner timers(timeFromMs(10), events);

	/* A random cycle of all hosts: a permutation without fixed points. */
	std::vector<uint32_t> order(hosts);
	std::iota(order.begin(), order.end(), 0);
	std::shuffle(order.begin(), order.end(), random);
	for (uint32_t i = 0; i < hosts; i++) {
		uint32_t from = order[i], to = order[(i + 1) % hosts];
		std::vector<const Route *> *there = network.get_bidir_paths(from, to, false);
		std::vector<const Route *> *back = network.get_bidir_paths(to, from, false);
		DCTCPSrc *source = new DCTCPSrc(nullptr, nullptr, events);
		TcpSink *sink = new TcpSink();

		timers.registerTcp(*source);
		source->connect(*route_to(*there->at(random() % there->size()), *sink),
				*route_to(*back->at(random() % back->size()), *source), *sink, 0);
	}

	const auto wall = std::chrono::steady_clock::now();
	const clock_t cpu = clock();
	while (events.doNextEvent())
		;
	const double cpu_s = (double)(clock() - cpu) / CLOCKS_PER_SEC;
	const double wall_s = std::chrono::duration<double>(std::chrono::steady_clock::now() - wall).count();
	fprintf(out,
		"{\"peer\":\"htsim\",\"hosts\":%u,\"transport\":\"dctcp\",\"packet_hops\":%llu,\"wall_s\":%.3f,\"cpu_s\":%.3f,"
		"\"packet_hops_per_s\":%.0f}\n",
		hosts, (unsigned long long)packet_hops, wall_s, cpu_s, packet_hops / wall_s);
	return fclose(out) ? 1 : 0;
}
