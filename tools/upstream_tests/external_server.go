package testing

import (
	"context"
	"fmt"
	"net"
	"strings"

	"k8s.io/apiserver/pkg/server"
	kubeschedulerconfig "k8s.io/kubernetes/cmd/kube-scheduler/app/config"
	"k8s.io/kubernetes/cmd/kube-scheduler/app/options"
	"k8s.io/kubernetes/pkg/scheduler"
)

// This file is added to a copy of k8s.io/kubernetes/cmd/kube-scheduler/app/testing (see
// prepare.py): the tests of the scheduler's own server start mooring with their flags.

type closedListener struct {
	net.Listener
	address net.Addr
}

func (l closedListener) Addr() net.Addr { return l.address }

func startExternalServer(ctx context.Context, opts *options.Options, flags []string, result TestServer) (TestServer, error) {
	_ = opts.SecureServing.Listener.Close()
	address := &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1), Port: opts.SecureServing.BindPort}
	paths := append(opts.Authorization.AlwaysAllowPaths, "/healthz")
	flags = append(flags[:len(flags):len(flags)],
		"--bind-address=127.0.0.1",
		fmt.Sprintf("--secure-port=%d", address.Port),
		"--cert-dir="+result.TmpDir,
		"--authorization-always-allow-paths="+strings.Join(paths, ","),
	)
	if err := scheduler.RunExternal(ctx, address.Port, flags); err != nil {
		return result, err
	}
	result.Options = opts
	result.Config = &kubeschedulerconfig.Config{
		SecureServing: &server.SecureServingInfo{Listener: closedListener{address: address}},
	}
	return result, nil
}
