/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/*
 * The dumbbell of dumbbell.toml in ns-3: N endless flows, each from its own sender to its own receiver, over one
 * bottleneck. Prints one JSON line with the bottleneck's queue, marks and drops, and each flow's throughput. Queues are
 * counted in packets at the whole port: queue discipline, device queue and the packet being sent. README.md says what
 * each option stands for there.
 */
#include "ns3/applications-module.h"
#include "ns3/core-module.h"
#include "ns3/internet-module.h"
#include "ns3/network-module.h"
#include "ns3/point-to-point-module.h"
#include "ns3/traffic-control-module.h"

#include <cmath>
#include <cstdio>
#include <map>
#include <string>
#include <vector>

using namespace ns3;

namespace
{

struct Settings
{
    uint32_t flows = 8;
    std::string transport = "dctcp"; // newreno: ns-3's own; linux-reno: counts ACKed segments, as RFC 3465 and Linux
    double rateGbps = 10;
    double hostRateGbps = 40;
    double hostDelayUs = 10;
    double delayUs = 30;
    uint32_t markPackets = 65;
    uint32_t bufferPackets = 1000;
    uint32_t devicePackets = 1;
    uint32_t delayedAck = 1;
    uint32_t initialCwnd = 10;
    bool sack = true;
    bool timestamps = false;
    uint32_t socketBuffer = 16u << 20;
    double rtoMinMs = 10;
    double gain = 1.0 / 16;
    double alpha = 1.0;
    std::string recovery = "prr"; // once-prr: see OncePrr; classic: at once
    bool markAtDequeue = false;
    uint32_t overhead = 38;
    double durationMs = 500;
    double warmupMs = 100;
    double staggerMs = 10;
    uint32_t seed = 1;
};

/* Bytes that PointToPointNetDevice sends besides the IP packet: PPP's protocol field. */
constexpr uint32_t PPP = 2;
constexpr uint32_t MTU = 1500;

/*
 * A wire with Ethernet's overhead. ns-3's point-to-point frames have 2 octets besides the IP packet and no preamble or
 * gap, so the rate is lowered until a full packet takes as long as it would with `overhead` octets.
 */
DataRate
WireRate(double gbps, uint32_t overhead)
{
    return DataRate(static_cast<uint64_t>(std::llround(gbps * 1e9 * (MTU + PPP) / (MTU + overhead))));
}

/* A FIFO that marks by the number of packets left behind when one leaves: DCTCP's step at dequeue. */
class DequeueMark : public QueueDisc
{
  public:
    static TypeId GetTypeId()
    {
        static TypeId tid = TypeId("ns3::DequeueMark")
                                .SetParent<QueueDisc>()
                                .AddConstructor<DequeueMark>()
                                .AddAttribute("MaxSize",
                                              "packets",
                                              QueueSizeValue(QueueSize("1000p")),
                                              MakeQueueSizeAccessor(&QueueDisc::SetMaxSize, &QueueDisc::GetMaxSize),
                                              MakeQueueSizeChecker())
                                .AddAttribute("Mark",
                                              "packets left behind from which on a packet is marked",
                                              UintegerValue(65),
                                              MakeUintegerAccessor(&DequeueMark::m_mark),
                                              MakeUintegerChecker<uint32_t>());
        return tid;
    }

    DequeueMark()
        : QueueDisc(QueueDiscSizePolicy::SINGLE_INTERNAL_QUEUE)
    {
    }

  private:
    bool DoEnqueue(Ptr<QueueDiscItem> item) override
    {
        if (GetCurrentSize() + item > GetMaxSize())
        {
            DropBeforeEnqueue(item, "full");
            return false;
        }
        return GetInternalQueue(0)->Enqueue(item);
    }

    Ptr<QueueDiscItem> DoDequeue() override
    {
        Ptr<QueueDiscItem> item = GetInternalQueue(0)->Dequeue();
        if (item && GetInternalQueue(0)->GetNPackets() >= m_mark)
        {
            Mark(item, "threshold");
        }
        return item;
    }

    bool CheckConfig() override
    {
        if (GetNInternalQueues() == 0)
        {
            AddInternalQueue(
                CreateObjectWithAttributes<DropTailQueue<QueueDiscItem>>("MaxSize", QueueSizeValue(GetMaxSize())));
        }
        return GetNInternalQueues() == 1;
    }

    void InitializeParams() override {}

    uint32_t m_mark{0};
};

NS_OBJECT_ENSURE_REGISTERED(DequeueMark);

/*
 * DCTCP whose window grows by bytes that are acknowledged, and forgets at each cut what it had counted towards the next
 * segment (as Linux and Selvedge do; TcpLinuxReno keeps its count).
 */
class ForgetfulDctcp : public TcpDctcp
{
  public:
    static TypeId GetTypeId()
    {
        static TypeId tid =
            TypeId("ns3::ForgetfulDctcp").SetParent<TcpDctcp>().AddConstructor<ForgetfulDctcp>();
        return tid;
    }

    uint32_t GetSsThresh(Ptr<const TcpSocketState> state, uint32_t inFlight) override
    {
        m_credit = 0;
        return TcpDctcp::GetSsThresh(state, inFlight);
    }

    Ptr<TcpCongestionOps> Fork() override { return CopyObject<ForgetfulDctcp>(this); }

  protected:
    void CongestionAvoidance(Ptr<TcpSocketState> state, uint32_t segments) override
    {
        m_credit += segments * state->m_segmentSize;
        while (m_credit >= state->m_cWnd)
        {
            m_credit -= state->m_cWnd;
            state->m_cWnd += state->m_segmentSize;
        }
    }

  private:
    uint32_t m_credit{0};
};

NS_OBJECT_ENSURE_REGISTERED(ForgetfulDctcp);

/*
 * Proportional rate reduction for an echo (RFC 6937) as Linux and Selvedge do it: the share is of the window before, and
 * the first ACK counts once. TcpPrrRecovery's share is of what was under way after that ACK, which it counts twice.
 */
class OncePrr : public TcpRecoveryOps
{
  public:
    static TypeId GetTypeId()
    {
        static TypeId tid = TypeId("ns3::OncePrr").SetParent<TcpRecoveryOps>().AddConstructor<OncePrr>();
        return tid;
    }

    std::string GetName() const override { return "OncePrr"; }

    void EnterRecovery(Ptr<TcpSocketState> state, uint32_t, uint32_t, uint32_t) override
    {
        m_before = std::max<uint32_t>(state->m_cWnd, 1);
        m_delivered = 0;
        m_sent = 0;
    }

    void DoRecovery(Ptr<TcpSocketState> state, uint32_t delivered) override
    {
        const int64_t inFlight = state->m_bytesInFlight;
        const int64_t threshold = state->m_ssThresh;
        m_delivered += delivered;
        int64_t room = 0;
        if (inFlight > threshold)
        {
            room = (m_delivered * threshold + m_before - 1) / m_before - m_sent;
        }
        else
        {
            room = std::max<int64_t>(m_delivered - m_sent, delivered) + state->m_segmentSize;
            room = std::min(room, threshold - inFlight);
        }
        const int64_t least = m_sent > 0 ? 0 : state->m_segmentSize;
        state->m_cWnd = static_cast<uint32_t>(inFlight + std::max(room, least));
        state->m_cWndInfl = state->m_cWnd;
    }

    void ExitRecovery(Ptr<TcpSocketState> state) override { state->m_cWndInfl = state->m_cWnd; }
    void UpdateBytesSent(uint32_t bytes) override { m_sent += bytes; }
    Ptr<TcpRecoveryOps> Fork() override { return CopyObject<OncePrr>(this); }

  private:
    int64_t m_before{1};
    int64_t m_delivered{0};
    int64_t m_sent{0};
};

NS_OBJECT_ENSURE_REGISTERED(OncePrr);

/* How long the port held how many packets, from the end of the warm-up on. */
class PortMeter
{
  public:
    explicit PortMeter(Time from)
        : m_from(from)
    {
    }

    void Enter(Ptr<const QueueDiscItem>) { Change(1); }
    void Leave(Ptr<const Packet>) { Change(-1); }

    void Change(int by)
    {
        const Time now = Simulator::Now();
        if (now > m_from)
        {
            m_held[m_packets] += (now - std::max(m_last, m_from)).GetSeconds();
        }
        m_last = now;
        m_packets += by;
    }

    double Mean() const
    {
        double sum = 0;
        double all = 0;
        for (const auto& [packets, seconds] : m_held)
        {
            sum += packets * seconds;
            all += seconds;
        }
        return all > 0 ? sum / all : 0;
    }

    uint32_t Percentile(double share) const
    {
        double all = 0;
        for (const auto& held : m_held)
        {
            all += held.second;
        }
        double sum = 0;
        for (const auto& [packets, seconds] : m_held)
        {
            sum += seconds;
            if (sum >= share * all)
            {
                return packets;
            }
        }
        return 0;
    }

  private:
    Time m_from;
    Time m_last;
    uint32_t m_packets{0};
    std::map<uint32_t, double> m_held;
};

/* What one sender did: data sent again, and DCTCP's alpha at each of its updates after the warm-up. */
struct Sender
{
    SequenceNumber32 next{1};
    uint64_t retransmits{0};
    Time from;
    double alphas{0};
    uint64_t updates{0};

    void Sent(Ptr<const Packet> packet, const TcpHeader& header, Ptr<const TcpSocketBase>)
    {
        if (packet->GetSize() == 0)
        {
            return;
        }
        const SequenceNumber32 end = header.GetSequenceNumber() + packet->GetSize();
        retransmits += header.GetSequenceNumber() < next;
        next = std::max(next, end);
    }

    void Alpha(uint32_t, uint32_t, double alpha)
    {
        if (Simulator::Now() >= from)
        {
            alphas += alpha;
            ++updates;
        }
    }
};

void
Watch(Ptr<BulkSendApplication> source, Sender* sender)
{
    Ptr<Socket> socket = source->GetSocket();
    socket->TraceConnectWithoutContext("Tx", MakeCallback(&Sender::Sent, sender));
    PointerValue law;
    socket->GetAttribute("CongestionOps", law);
    law.GetObject()->TraceConnectWithoutContext("CongestionEstimate", MakeCallback(&Sender::Alpha, sender));
}

bool
Configure(const Settings& s)
{
    const std::map<std::string, TypeId> laws = {{"dctcp", TcpDctcp::GetTypeId()},
                                                {"forgetful-dctcp", ForgetfulDctcp::GetTypeId()},
                                                {"newreno", TcpNewReno::GetTypeId()},
                                                {"linux-reno", TcpLinuxReno::GetTypeId()}};
    const std::map<std::string, TypeId> recoveries = {{"prr", TcpPrrRecovery::GetTypeId()},
                                                      {"once-prr", OncePrr::GetTypeId()},
                                                      {"classic", TcpClassicRecovery::GetTypeId()}};
    const auto law = laws.find(s.transport);
    const auto recovery = recoveries.find(s.recovery);
    if (law == laws.end() || recovery == recoveries.end())
    {
        return false;
    }
    Config::SetDefault("ns3::TcpL4Protocol::SocketType", TypeIdValue(law->second));
    Config::SetDefault("ns3::TcpL4Protocol::RecoveryType", TypeIdValue(recovery->second));
    Config::SetDefault("ns3::TcpSocket::SegmentSize", UintegerValue(MTU - 40 - (s.timestamps ? 12 : 0)));
    Config::SetDefault("ns3::TcpSocket::InitialCwnd", UintegerValue(s.initialCwnd));
    Config::SetDefault("ns3::TcpSocket::DelAckCount", UintegerValue(s.delayedAck));
    Config::SetDefault("ns3::TcpSocket::DelAckTimeout", TimeValue(MilliSeconds(40)));
    Config::SetDefault("ns3::TcpSocket::SndBufSize", UintegerValue(s.socketBuffer));
    Config::SetDefault("ns3::TcpSocket::RcvBufSize", UintegerValue(s.socketBuffer));
    Config::SetDefault("ns3::TcpSocket::ConnTimeout", TimeValue(MilliSeconds(20)));
    Config::SetDefault("ns3::TcpSocketBase::Sack", BooleanValue(s.sack));
    Config::SetDefault("ns3::TcpSocketBase::Timestamp", BooleanValue(s.timestamps));
    Config::SetDefault("ns3::TcpSocketBase::MinRto", TimeValue(NanoSeconds(static_cast<uint64_t>(s.rtoMinMs * 1e6))));
    Config::SetDefault("ns3::TcpSocketBase::ClockGranularity", TimeValue(MicroSeconds(1)));
    Config::SetDefault("ns3::TcpDctcp::DctcpShiftG", DoubleValue(s.gain));
    Config::SetDefault("ns3::TcpDctcp::DctcpAlphaOnInit", DoubleValue(s.alpha));

    /* RED with both thresholds at K and no averaging marks by the instantaneous queue, as RFC 8257 asks. */
    Config::SetDefault("ns3::RedQueueDisc::UseEcn", BooleanValue(true));
    Config::SetDefault("ns3::RedQueueDisc::UseHardDrop", BooleanValue(false));
    Config::SetDefault("ns3::RedQueueDisc::Gentle", BooleanValue(false));
    Config::SetDefault("ns3::RedQueueDisc::QW", DoubleValue(1.0));
    Config::SetDefault("ns3::RedQueueDisc::MeanPktSize", UintegerValue(MTU));
    return true;
}

class Dumbbell
{
  public:
    explicit Dumbbell(const Settings& s)
        : m_s(s),
          m_meter(Seconds(s.warmupMs / 1e3)),
          m_senders(s.flows)
    {
        m_switches.Create(2);
        m_sources.Create(s.flows);
        m_sinks.Create(s.flows);
        InternetStackHelper stack;
        stack.SetIpv6StackInstall(false);
        for (const NodeContainer* nodes : {&m_switches, &m_sources, &m_sinks})
        {
            stack.Install(*nodes);
        }
        /* The port holds what the discipline does, what the device does, and the packet being sent. */
        const uint32_t beside = s.devicePackets + 1;
        const uint32_t mark = s.markPackets > beside ? s.markPackets - beside : 1;
        TrafficControlHelper wide;
        wide.SetRootQueueDisc("ns3::FifoQueueDisc", "MaxSize", StringValue("100000p"));
        TrafficControlHelper narrow;
        const StringValue room(std::to_string(s.bufferPackets - beside) + "p");
        if (s.transport.find("dctcp") == std::string::npos)
        {
            narrow.SetRootQueueDisc("ns3::FifoQueueDisc", "MaxSize", room);
        }
        else if (s.markAtDequeue)
        {
            narrow.SetRootQueueDisc("ns3::DequeueMark", "MaxSize", room, "Mark", UintegerValue(mark));
        }
        else
        {
            narrow.SetRootQueueDisc("ns3::RedQueueDisc",
                                    "MaxSize",
                                    room,
                                    "MinTh",
                                    DoubleValue(mark),
                                    "MaxTh",
                                    DoubleValue(mark));
        }

        PointToPointHelper link;
        link.SetQueue("ns3::DropTailQueue<Packet>", "MaxSize", StringValue(std::to_string(s.devicePackets) + "p"));
        SetLink(link, s.rateGbps, s.delayUs);
        NetDeviceContainer middle = link.Install(m_switches);
        m_queue = narrow.Install(middle.Get(0)).Get(0);
        wide.Install(middle.Get(1));
        m_queue->TraceConnectWithoutContext("Enqueue", MakeCallback(&PortMeter::Enter, &m_meter));
        middle.Get(0)->TraceConnectWithoutContext("PhyTxEnd", MakeCallback(&PortMeter::Leave, &m_meter));
        Address(middle);

        SetLink(link, s.hostRateGbps, s.hostDelayUs);
        for (uint32_t i = 0; i < s.flows; ++i)
        {
            NetDeviceContainer ends = link.Install(m_sources.Get(i), m_switches.Get(0));
            wide.Install(ends);
            Address(ends);
            ends = link.Install(m_switches.Get(1), m_sinks.Get(i));
            wide.Install(ends);
            Applications(i, Address(ends).GetAddress(1));
        }
        Ipv4GlobalRoutingHelper::PopulateRoutingTables();
    }

    void Run()
    {
        const Time warmup = Seconds(m_s.warmupMs / 1e3);
        Simulator::Schedule(warmup, [this]() {
            for (const Ptr<PacketSink>& sink : m_received)
            {
                m_before.push_back(sink->GetTotalRx());
            }
        });
        Simulator::Stop(Seconds(m_s.durationMs / 1e3));
        Simulator::Run();
        m_meter.Change(0);
        Print();
        Simulator::Destroy();
    }

  private:
    void SetLink(PointToPointHelper& link, double gbps, double us)
    {
        link.SetDeviceAttribute("DataRate", DataRateValue(WireRate(gbps, m_s.overhead)));
        link.SetChannelAttribute("Delay", TimeValue(NanoSeconds(static_cast<uint64_t>(us * 1e3))));
    }

    Ipv4InterfaceContainer Address(const NetDeviceContainer& ends)
    {
        const uint32_t net = (10u << 24) + 256 * m_links++;
        return Ipv4AddressHelper(Ipv4Address(net), "255.255.255.0").Assign(ends);
    }

    void Applications(uint32_t i, Ipv4Address to)
    {
        const uint16_t port = 5001;
        PacketSinkHelper sink("ns3::TcpSocketFactory", InetSocketAddress(Ipv4Address::GetAny(), port));
        m_received.push_back(DynamicCast<PacketSink>(sink.Install(m_sinks.Get(i)).Get(0)));
        BulkSendHelper source("ns3::TcpSocketFactory", InetSocketAddress(to, port));
        source.SetAttribute("SendSize", UintegerValue(64 * 1024));
        ApplicationContainer app = source.Install(m_sources.Get(i));
        const Time start = NanoSeconds(static_cast<uint64_t>(m_start->GetValue(0, m_s.staggerMs * 1e6)));
        app.Start(start);
        m_senders[i].from = Seconds(m_s.warmupMs / 1e3);
        Simulator::Schedule(start + NanoSeconds(1),
                            &Watch,
                            DynamicCast<BulkSendApplication>(app.Get(0)),
                            &m_senders[i]);
    }

    void Print() const
    {
        const QueueDisc::Stats& stats = m_queue->GetStats();
        uint64_t retransmits = 0;
        double alphas = 0;
        uint64_t updates = 0;
        for (const Sender& sender : m_senders)
        {
            retransmits += sender.retransmits;
            alphas += sender.alphas;
            updates += sender.updates;
        }
        std::printf("{\"peer\":\"ns-3\",\"seed\":%u,\"queue_mean_packets\":%.4f,\"queue_p99_packets\":%u,\"marks\":%u,"
                    "\"drops\":%u,\"sent\":%llu,\"retransmits\":%llu,\"alpha\":%.4f,\"throughput_gbps\":[",
                    m_s.seed,
                    m_meter.Mean(),
                    m_meter.Percentile(0.99),
                    stats.nTotalMarkedPackets,
                    stats.nTotalDroppedPackets,
                    static_cast<unsigned long long>(stats.nTotalDequeuedPackets),
                    static_cast<unsigned long long>(retransmits),
                    updates ? alphas / updates : 0.0);
        for (uint32_t i = 0; i < m_s.flows; ++i)
        {
            const double bytes = m_received[i]->GetTotalRx() - m_before[i];
            std::printf("%s%.6f", i ? "," : "", bytes * 8 / ((m_s.durationMs - m_s.warmupMs) * 1e6));
        }
        std::printf("]}\n");
    }

    Settings m_s;
    PortMeter m_meter;
    std::vector<Sender> m_senders;
    NodeContainer m_switches;
    NodeContainer m_sources;
    NodeContainer m_sinks;
    Ptr<QueueDisc> m_queue;
    std::vector<Ptr<PacketSink>> m_received;
    std::vector<uint64_t> m_before;
    uint32_t m_links{0};
    Ptr<UniformRandomVariable> m_start{CreateObject<UniformRandomVariable>()};
};

} // namespace

int
main(int argc, char* argv[])
{
    Settings s;
    CommandLine cmd;
    cmd.AddValue("flows", "senders, each with a receiver of its own", s.flows);
    cmd.AddValue("transport", "dctcp, forgetful-dctcp (marked at --mark), newreno, linux-reno (drop-tail)", s.transport);
    cmd.AddValue("rate-gbps", "rate of the bottleneck", s.rateGbps);
    cmd.AddValue("host-rate-gbps", "rate of the hosts' links", s.hostRateGbps);
    cmd.AddValue("host-delay-us", "one-way delay of the hosts' links", s.hostDelayUs);
    cmd.AddValue("delay-us", "one-way delay of the bottleneck", s.delayUs);
    cmd.AddValue("mark", "marking threshold K of the whole port, packets", s.markPackets);
    cmd.AddValue("buffer", "buffer of the whole port, packets", s.bufferPackets);
    cmd.AddValue("device", "packets of it in the device's own queue", s.devicePackets);
    cmd.AddValue("delayed-ack", "segments per ACK", s.delayedAck);
    cmd.AddValue("initial-cwnd", "initial window, segments", s.initialCwnd);
    cmd.AddValue("sack", "selective acknowledgements", s.sack);
    cmd.AddValue("timestamps", "timestamps, which take 12 bytes of each packet", s.timestamps);
    cmd.AddValue("socket-buffer", "send and receive buffer, bytes", s.socketBuffer);
    cmd.AddValue("rto-min-ms", "least retransmission timeout", s.rtoMinMs);
    cmd.AddValue("gain", "DCTCP's g", s.gain);
    cmd.AddValue("alpha", "DCTCP's first alpha", s.alpha);
    cmd.AddValue("recovery", "how the window falls: prr, once-prr or classic", s.recovery);
    cmd.AddValue("mark-at-dequeue", "mark when a packet leaves, not when it comes", s.markAtDequeue);
    cmd.AddValue("overhead", "octets of a frame besides the IP packet", s.overhead);
    cmd.AddValue("duration-ms", "simulated time", s.durationMs);
    cmd.AddValue("warmup-ms", "start of the measurement of queue and throughput", s.warmupMs);
    cmd.AddValue("stagger-ms", "flows start at random times within this", s.staggerMs);
    cmd.AddValue("seed", "seed of the start times", s.seed);
    cmd.Parse(argc, argv);
    RngSeedManager::SetSeed(s.seed);
    const bool room = s.bufferPackets > s.devicePackets + 1;
    if (s.flows < 1 || s.flows > 100 || s.durationMs <= s.warmupMs || !room || !Configure(s))
    {
        std::fprintf(stderr, "dumbbell: flows 1..100, a run longer than its warm-up, a buffer larger than the device's; "
                             "--help has the words of --transport and --recovery\n");
        return 2;
    }
    Dumbbell(s).Run();
    return 0;
}
