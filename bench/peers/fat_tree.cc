/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/*
 * The fat-tree permutation of `selvedge bench sim`, in ns-3: every host of a k-ary fat-tree sends one endless flow to
 * another host, and every host receives one. Prints one JSON line with the packet-hops per second of wall time; a
 * packet-hop is one packet, data or acknowledgement, leaving one link. Set-up is not in the time.
 */
#include "ns3/applications-module.h"
#include "ns3/core-module.h"
#include "ns3/internet-module.h"
#include "ns3/network-module.h"
#include "ns3/point-to-point-module.h"
#include "ns3/traffic-control-module.h"

#include <chrono>
#include <cstdio>
#include <random>
#include <string>
#include <sys/resource.h>
#include <vector>

using namespace ns3;

namespace
{

uint64_t g_packetHops = 0;

void
CountHop(Ptr<const Packet>)
{
    ++g_packetHops;
}

enum class Layer
{
    Edge,
    Aggregation,
    Core
};

/* A host's place, and its address 10.pod.edge.(2 + index). */
struct Place
{
    uint32_t pod;
    uint32_t edge;
    uint32_t index;

    Ipv4Address Address() const
    {
        return Ipv4Address((10u << 24) | (pod << 16) | (edge << 8) | (2 + index));
    }

    static Place Of(Ipv4Address address)
    {
        uint32_t bits = address.Get();
        return {(bits >> 16) & 0xff, (bits >> 8) & 0xff, (bits & 0xff) - 2};
    }
};

/*
 * Up by a seeded hash of the five-tuple, down by the destination's address. ns-3's own global routing chooses among
 * equal paths per packet, and searches a table with every subnet for each of them: this is both closer to what switches
 * do and kinder to ns-3's speed.
 */
class FatTreeRouting : public Ipv4RoutingProtocol
{
  public:
    static TypeId GetTypeId()
    {
        static TypeId tid =
            TypeId("ns3::FatTreeRouting").SetParent<Ipv4RoutingProtocol>().AddConstructor<FatTreeRouting>();
        return tid;
    }

    void Init(Layer layer, uint32_t pod, uint32_t edge, uint64_t seed)
    {
        m_layer = layer;
        m_pod = pod;
        m_edge = edge;
        m_seed = seed;
    }

    void AddDown(Ptr<NetDevice> device) { m_down.push_back(RouteVia(device)); }
    void AddUp(Ptr<NetDevice> device) { m_up.push_back(RouteVia(device)); }

    Ptr<Ipv4Route> RouteOutput(Ptr<Packet>, const Ipv4Header&, Ptr<NetDevice>, Socket::SocketErrno& error) override
    {
        error = Socket::ERROR_NOROUTETOHOST; // a switch originates nothing
        return nullptr;
    }

    bool RouteInput(Ptr<const Packet> packet,
                    const Ipv4Header& header,
                    Ptr<const NetDevice>,
                    UnicastForwardCallback forward,
                    MulticastForwardCallback,
                    LocalDeliverCallback,
                    ErrorCallback) override
    {
        const Place to = Place::Of(header.GetDestination());
        Ptr<Ipv4Route> route;
        if (m_layer == Layer::Core)
        {
            route = m_down[to.pod];
        }
        else if (m_layer == Layer::Aggregation && to.pod == m_pod)
        {
            route = m_down[to.edge];
        }
        else if (m_layer == Layer::Edge && to.pod == m_pod && to.edge == m_edge)
        {
            route = m_down[to.index];
        }
        else
        {
            route = m_up[Hash(packet, header) % m_up.size()];
        }
        forward(route, packet, header);
        return true;
    }

    void NotifyInterfaceUp(uint32_t) override {}
    void NotifyInterfaceDown(uint32_t) override {}
    void NotifyAddAddress(uint32_t, Ipv4InterfaceAddress) override {}
    void NotifyRemoveAddress(uint32_t, Ipv4InterfaceAddress) override {}
    void SetIpv4(Ptr<Ipv4>) override {}
    void PrintRoutingTable(Ptr<OutputStreamWrapper>, Time::Unit) const override {}

  private:
    static Ptr<Ipv4Route> RouteVia(Ptr<NetDevice> device)
    {
        Ptr<Ipv4Route> route = Create<Ipv4Route>();
        route->SetOutputDevice(device);
        return route;
    }

    uint64_t Hash(Ptr<const Packet> packet, const Ipv4Header& header) const
    {
        uint8_t ports[4] = {};
        packet->CopyData(ports, sizeof(ports));
        uint64_t x = (uint64_t{header.GetSource().Get()} << 32) | header.GetDestination().Get();
        x ^= m_seed + ((uint64_t{ports[0]} << 24) | (ports[1] << 16) | (ports[2] << 8) | ports[3]);
        /* Two rounds of multiply and shift: enough to spread addresses that differ in few bits. */
        for (int round = 0; round < 2; ++round)
        {
            x ^= x >> 32;
            x *= 0x9e3779b97f4a7c15ULL;
        }
        return x >> 32;
    }

    Layer m_layer{Layer::Core};
    uint32_t m_pod{0};
    uint32_t m_edge{0};
    uint64_t m_seed{0};
    std::vector<Ptr<Ipv4Route>> m_down;
    std::vector<Ptr<Ipv4Route>> m_up;
};

NS_OBJECT_ENSURE_REGISTERED(FatTreeRouting);

struct Settings
{
    uint32_t k = 8;
    std::string transport = "dctcp"; // or newreno
    std::string routing = "hash";    // or global, ns-3's own with a random choice per packet
    std::string rate = "10Gbps";
    double delayUs = 1.0;
    uint32_t bufferPackets = 250;
    uint32_t markPackets = 43; // 65 KB of 1500-byte packets
    double simMs = 5.0;
    uint32_t seed = 1;
};

void
Configure(const Settings& s)
{
    const bool dctcp = s.transport == "dctcp";
    Config::SetDefault("ns3::TcpL4Protocol::SocketType",
                       TypeIdValue(dctcp ? TcpDctcp::GetTypeId() : TcpNewReno::GetTypeId()));
    Config::SetDefault("ns3::TcpSocket::SegmentSize", UintegerValue(1448));
    Config::SetDefault("ns3::TcpSocket::InitialCwnd", UintegerValue(10));
    Config::SetDefault("ns3::TcpSocket::DelAckCount", UintegerValue(2));
    Config::SetDefault("ns3::TcpSocket::SndBufSize", UintegerValue(1 << 20));
    Config::SetDefault("ns3::TcpSocket::RcvBufSize", UintegerValue(1 << 20));
    Config::SetDefault("ns3::TcpSocketBase::MinRto", TimeValue(MilliSeconds(10)));
    Config::SetDefault("ns3::TcpSocketBase::ClockGranularity", TimeValue(MicroSeconds(1)));
    Config::SetDefault("ns3::Ipv4GlobalRouting::RandomEcmpRouting", BooleanValue(true));

    /* RED with both thresholds at K and no averaging marks by the instantaneous queue, as RFC 8257 asks. */
    Config::SetDefault("ns3::RedQueueDisc::UseEcn", BooleanValue(true));
    Config::SetDefault("ns3::RedQueueDisc::UseHardDrop", BooleanValue(false));
    Config::SetDefault("ns3::RedQueueDisc::Gentle", BooleanValue(false));
    Config::SetDefault("ns3::RedQueueDisc::QW", DoubleValue(1.0));
    Config::SetDefault("ns3::RedQueueDisc::MeanPktSize", UintegerValue(1500));
    Config::SetDefault("ns3::RedQueueDisc::MinTh", DoubleValue(s.markPackets));
    Config::SetDefault("ns3::RedQueueDisc::MaxTh", DoubleValue(s.markPackets));
}

/* Each host sends to the next one of a random cycle through all hosts: a permutation without fixed points. */
std::vector<uint32_t>
Destinations(uint32_t hosts, uint32_t seed)
{
    std::vector<uint32_t> cycle(hosts);
    for (uint32_t i = 0; i < hosts; ++i)
    {
        cycle[i] = i;
    }
    std::mt19937 random(seed);
    for (uint32_t i = hosts - 1; i > 0; --i)
    {
        std::swap(cycle[i], cycle[random() % (i + 1)]);
    }
    std::vector<uint32_t> to(hosts);
    for (uint32_t i = 0; i < hosts; ++i)
    {
        to[cycle[i]] = cycle[(i + 1) % hosts];
    }
    return to;
}

class FatTree
{
  public:
    explicit FatTree(const Settings& s)
        : m_settings(s),
          m_half(s.k / 2)
    {
        m_hosts.Create(s.k * m_half * m_half);
        m_edges.Create(s.k * m_half);
        m_aggregations.Create(s.k * m_half);
        m_cores.Create(m_half * m_half);
        m_hash = s.routing == "hash";

        InternetStackHelper stack;
        stack.SetIpv6StackInstall(false);
        if (m_hash)
        {
            stack.SetRoutingHelper(Ipv4StaticRoutingHelper());
        }
        stack.Install(m_hosts);
        for (const NodeContainer* switches : {&m_edges, &m_aggregations, &m_cores})
        {
            stack.Install(*switches);
        }
        if (m_hash)
        {
            InstallHashRouting();
        }

        m_link.SetDeviceAttribute("DataRate", StringValue(s.rate));
        m_link.SetChannelAttribute("Delay", TimeValue(NanoSeconds(static_cast<uint64_t>(s.delayUs * 1000))));
        /* One packet in the device, so that the queue discipline holds and marks the rest. */
        m_link.SetQueue("ns3::DropTailQueue<Packet>", "MaxSize", StringValue("1p"));
        m_queue.SetRootQueueDisc(s.transport == "dctcp" ? "ns3::RedQueueDisc" : "ns3::FifoQueueDisc",
                                 "MaxSize",
                                 StringValue(std::to_string(s.bufferPackets) + "p"));
        Wire();
        if (!m_hash)
        {
            Ipv4GlobalRoutingHelper::PopulateRoutingTables();
        }
    }

    uint32_t Hosts() const { return m_hosts.GetN(); }
    Ptr<Node> Host(uint32_t i) const { return m_hosts.Get(i); }

    Place PlaceOf(uint32_t i) const { return {i / (m_half * m_half), i / m_half % m_half, i % m_half}; }

  private:
    void InstallHashRouting()
    {
        const uint32_t k = m_settings.k;
        for (uint32_t i = 0; i < k * m_half; ++i)
        {
            SetHash(m_edges.Get(i), Layer::Edge, i / m_half, i % m_half);
            SetHash(m_aggregations.Get(i), Layer::Aggregation, i / m_half, i % m_half);
        }
        for (uint32_t i = 0; i < m_cores.GetN(); ++i)
        {
            SetHash(m_cores.Get(i), Layer::Core, 0, 0);
        }
    }

    void SetHash(Ptr<Node> node, Layer layer, uint32_t pod, uint32_t edge)
    {
        Ptr<FatTreeRouting> routing = CreateObject<FatTreeRouting>();
        routing->Init(layer, pod, edge, (uint64_t{m_settings.seed} << 32) + node->GetId() * 0x9e3779b9ULL);
        node->GetObject<Ipv4>()->SetRoutingProtocol(routing);
    }

    void Wire()
    {
        for (uint32_t i = 0; i < m_hosts.GetN(); ++i)
        {
            Place place = PlaceOf(i);
            Connect(m_hosts.Get(i), m_edges.Get(place.pod * m_half + place.edge), &place);
        }
        for (uint32_t pod = 0; pod < m_settings.k; ++pod)
        {
            for (uint32_t edge = 0; edge < m_half; ++edge)
            {
                for (uint32_t a = 0; a < m_half; ++a)
                {
                    Connect(m_edges.Get(pod * m_half + edge), m_aggregations.Get(pod * m_half + a), nullptr);
                }
            }
        }
        /* By pod, so that a core switch's n-th link down leads to pod n. */
        for (uint32_t pod = 0; pod < m_settings.k; ++pod)
        {
            for (uint32_t a = 0; a < m_half; ++a)
            {
                for (uint32_t c = 0; c < m_half; ++c)
                {
                    Connect(m_aggregations.Get(pod * m_half + a), m_cores.Get(a * m_half + c), nullptr);
                }
            }
        }
    }

    /* A link from `lower` to `upper`; `host` says where the host is if `lower` is one. */
    void Connect(Ptr<Node> lower, Ptr<Node> upper, const Place* host)
    {
        NetDeviceContainer ends = m_link.Install(lower, upper);
        m_queue.Install(ends);
        const uint32_t link = m_links++;
        for (uint32_t i = 0; i < 2; ++i)
        {
            ends.Get(i)->TraceConnectWithoutContext("PhyTxEnd", MakeCallback(&CountHop));
        }
        /* Global routing wants a subnet per link: 172.16.0.0/12 in steps of 4; a host's own address comes on top. */
        const uint32_t net = (172u << 24) + (16u << 16) + 4 * link;
        const uint32_t lowerIf = AddInterface(lower, ends.Get(0), Ipv4Address(net + 1), Ipv4Mask("255.255.255.252"));
        AddInterface(upper, ends.Get(1), Ipv4Address(net + 2), Ipv4Mask("255.255.255.252"));
        if (m_hash)
        {
            if (host)
            {
                Ptr<Ipv4> ip = lower->GetObject<Ipv4>();
                ip->RemoveAddress(lowerIf, 0);
                ip->AddAddress(lowerIf, Ipv4InterfaceAddress(host->Address(), Ipv4Mask("255.255.255.255")));
                Ipv4StaticRoutingHelper().GetStaticRouting(ip)->SetDefaultRoute(Ipv4Address::GetAny(), lowerIf);
            }
            else
            {
                DynamicCast<FatTreeRouting>(lower->GetObject<Ipv4>()->GetRoutingProtocol())->AddUp(ends.Get(0));
            }
            DynamicCast<FatTreeRouting>(upper->GetObject<Ipv4>()->GetRoutingProtocol())->AddDown(ends.Get(1));
        }
    }

    static uint32_t AddInterface(Ptr<Node> node, Ptr<NetDevice> device, Ipv4Address address, Ipv4Mask mask)
    {
        Ptr<Ipv4> ip = node->GetObject<Ipv4>();
        const uint32_t interface = ip->AddInterface(device);
        ip->AddAddress(interface, Ipv4InterfaceAddress(address, mask));
        ip->SetMetric(interface, 1);
        ip->SetUp(interface);
        return interface;
    }

    Settings m_settings;
    uint32_t m_half;
    bool m_hash{true};
    uint32_t m_links{0};
    NodeContainer m_hosts;
    NodeContainer m_edges;
    NodeContainer m_aggregations;
    NodeContainer m_cores;
    PointToPointHelper m_link;
    TrafficControlHelper m_queue;
};

double
SecondsSince(std::chrono::steady_clock::time_point start)
{
    return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

/* User and system time of this process: what a busy machine does not change. */
double
CpuSeconds()
{
    rusage usage{};
    getrusage(RUSAGE_SELF, &usage);
    return usage.ru_utime.tv_sec + usage.ru_stime.tv_sec + (usage.ru_utime.tv_usec + usage.ru_stime.tv_usec) / 1e6;
}

} // namespace

int
main(int argc, char* argv[])
{
    Settings s;
    CommandLine cmd;
    cmd.AddValue("k", "ports of a switch; k*k*k/4 hosts", s.k);
    cmd.AddValue("transport", "dctcp (RED with ECN at --mark) or newreno (drop-tail)", s.transport);
    cmd.AddValue("routing", "hash (per flow) or global (ns-3's own, per packet)", s.routing);
    cmd.AddValue("rate", "rate of every link", s.rate);
    cmd.AddValue("delay-us", "propagation delay of every link, microseconds", s.delayUs);
    cmd.AddValue("buffer", "queue of every port, packets", s.bufferPackets);
    cmd.AddValue("mark", "marking threshold K, packets", s.markPackets);
    cmd.AddValue("sim-ms", "simulated time, milliseconds", s.simMs);
    cmd.AddValue("seed", "seed of the permutation and of the hashes", s.seed);
    cmd.Parse(argc, argv);
    const bool knownTransport = s.transport == "dctcp" || s.transport == "newreno";
    const bool knownRouting = s.routing == "hash" || s.routing == "global";
    if (s.k < 2 || s.k > 32 || s.k % 2 || !knownTransport || !knownRouting || s.simMs <= 0)
    {
        std::fprintf(stderr, "fat_tree: k must be even and 2..32, see --help for the rest\n");
        return 2;
    }

    const auto setupStart = std::chrono::steady_clock::now();
    RngSeedManager::SetSeed(s.seed);
    Configure(s);
    FatTree tree(s);
    const std::vector<uint32_t> to = Destinations(tree.Hosts(), s.seed);
    const uint16_t port = 5001;
    std::vector<Ptr<PacketSink>> sinks;
    for (uint32_t i = 0; i < tree.Hosts(); ++i)
    {
        PacketSinkHelper sink("ns3::TcpSocketFactory", InetSocketAddress(Ipv4Address::GetAny(), port));
        sinks.push_back(DynamicCast<PacketSink>(sink.Install(tree.Host(i)).Get(0)));
    }
    for (uint32_t i = 0; i < tree.Hosts(); ++i)
    {
        const Ipv4Address address = tree.Host(to[i])->GetObject<Ipv4>()->GetAddress(1, 0).GetLocal();
        BulkSendHelper source("ns3::TcpSocketFactory", InetSocketAddress(address, port));
        source.SetAttribute("MaxBytes", UintegerValue(0));
        source.SetAttribute("SendSize", UintegerValue(64 * 1024));
        source.Install(tree.Host(i));
    }
    const double setup = SecondsSince(setupStart);

    const double cpuBefore = CpuSeconds();
    const auto start = std::chrono::steady_clock::now();
    Simulator::Stop(NanoSeconds(static_cast<uint64_t>(s.simMs * 1e6)));
    Simulator::Run();
    const double wall = SecondsSince(start);
    const double cpu = CpuSeconds() - cpuBefore;

    double received = 0;
    for (const Ptr<PacketSink>& sink : sinks)
    {
        received += static_cast<double>(sink->GetTotalRx());
    }
    const double capacity = DataRate(s.rate).GetBitRate() * s.simMs / 1e3 * tree.Hosts();
    rusage usage{};
    getrusage(RUSAGE_SELF, &usage);
    std::printf("{\"peer\":\"ns-3\",\"hosts\":%u,\"transport\":\"%s\",\"routing\":\"%s\",\"sim_s\":%g,"
                "\"packet_hops\":%llu,\"wall_s\":%.3f,\"packet_hops_per_s\":%.0f,\"cpu_s\":%.3f,\"setup_wall_s\":%.3f,"
                "\"goodput_share\":%.3f,\"peak_rss_bytes\":%lld}\n",
                tree.Hosts(),
                s.transport.c_str(),
                s.routing.c_str(),
                s.simMs / 1e3,
                static_cast<unsigned long long>(g_packetHops),
                wall,
                g_packetHops / wall,
                cpu,
                setup,
                received * 8 / capacity,
                static_cast<long long>(usage.ru_maxrss) * 1024);
    Simulator::Destroy();
    return 0;
}
