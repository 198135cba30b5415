// gc NETWORK DIRECTORY [CONTAINER IFNAME]...: calls GC of CNI 1.1 for a network whose list is in DIRECTORY, with these attachments as the
// valid ones, as runtimes do. cnitool's own GC names none.
package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"

	"github.com/containernetworking/cni/libcni"
	"github.com/containernetworking/cni/pkg/types"
)

func collect(arguments []string) error {
	if len(arguments) < 2 || len(arguments)%2 != 0 {
		return fmt.Errorf("usage: gc NETWORK DIRECTORY [CONTAINER IFNAME]...")
	}
	list, err := libcni.LoadNetworkConf(arguments[1], arguments[0])
	if err != nil {
		return err
	}
	valid := []types.GCAttachment{}
	for at := 2; at < len(arguments); at += 2 {
		valid = append(valid, types.GCAttachment{ContainerID: arguments[at], IfName: arguments[at+1]})
	}
	runtime := libcni.NewCNIConfig(filepath.SplitList(os.Getenv("CNI_PATH")), nil)
	return runtime.GCNetworkList(context.Background(), list, &libcni.GCArgs{ValidAttachments: valid})
}

func main() {
	if err := collect(os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}
