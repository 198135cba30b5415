/*
 * netkit NAME PEER NAMESPACE: a pair of netkit devices with Ethernet headers, NAME in this network namespace and PEER in the one of the file
 * NAMESPACE. Debian 12's `ip` does not know them.
 */
#include <errno.h>
#include <fcntl.h>
#include <linux/if_link.h>
#include <linux/rtnetlink.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

/* Of <linux/if_link.h> since Linux 6.7, under names of our own: IFLA_NETKIT_PEER_INFO, IFLA_NETKIT_MODE, NETKIT_L2. */
enum { ATTRIBUTE_PEER = 1, ATTRIBUTE_MODE = 5, MODE_L2 = 0 };

static union {
	struct nlmsghdr header;
	char bytes[1024];
} message;

static struct rtattr *put(unsigned short type, const void *value, size_t size)
{
	struct rtattr *attribute = (struct rtattr *)(message.bytes + NLMSG_ALIGN(message.header.nlmsg_len));

	attribute->rta_type = type;
	attribute->rta_len = RTA_LENGTH(size);
	if (size)
		memcpy(RTA_DATA(attribute), value, size);
	message.header.nlmsg_len = NLMSG_ALIGN(message.header.nlmsg_len) + RTA_ALIGN(attribute->rta_len);
	return attribute;
}

static void end(struct rtattr *nest)
{
	nest->rta_len = message.bytes + message.header.nlmsg_len - (char *)nest;
}

int main(int argc, char **argv)
{
	struct { struct nlmsghdr header; struct nlmsgerr error; char rest[1024]; } answer;
	struct ifinfomsg none = { .ifi_family = AF_UNSPEC };
	unsigned int mode = MODE_L2;
	struct rtattr *info, *data, *peer;
	int socket_, namespace;

	if (argc != 4 || strlen(argv[1]) > 15 || strlen(argv[2]) > 15) {
		fprintf(stderr, "usage: netkit NAME PEER NAMESPACE\n");
		return 2;
	}
	namespace = open(argv[3], O_RDONLY);
	socket_ = socket(AF_NETLINK, SOCK_RAW, NETLINK_ROUTE);
	if (namespace < 0 || socket_ < 0) {
		fprintf(stderr, "netkit: %s: %s\n", argv[3], strerror(errno));
		return 1;
	}
	message.header = (struct nlmsghdr){ .nlmsg_len = NLMSG_LENGTH(sizeof(none)), .nlmsg_type = RTM_NEWLINK,
					    .nlmsg_flags = NLM_F_REQUEST | NLM_F_ACK | NLM_F_CREATE | NLM_F_EXCL };
	put(IFLA_IFNAME, argv[1], strlen(argv[1]) + 1);
	info = put(IFLA_LINKINFO, NULL, 0);
	put(IFLA_INFO_KIND, "netkit", 6);
	data = put(IFLA_INFO_DATA, NULL, 0);
	put(ATTRIBUTE_MODE, &mode, sizeof(mode));
	peer = put(ATTRIBUTE_PEER, &none, sizeof(none));
	put(IFLA_IFNAME, argv[2], strlen(argv[2]) + 1);
	put(IFLA_NET_NS_FD, &namespace, sizeof(namespace));
	end(peer);
	end(data);
	end(info);
	if (send(socket_, message.bytes, message.header.nlmsg_len, 0) < 0 || recv(socket_, &answer, sizeof(answer), 0) < 0) {
		fprintf(stderr, "netkit: %s\n", strerror(errno));
		return 1;
	}
	if (answer.header.nlmsg_type == NLMSG_ERROR && answer.error.error) {
		fprintf(stderr, "netkit: %s: %s\n", argv[1], strerror(-answer.error.error));
		return 1;
	}
	return 0;
}
