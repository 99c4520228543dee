// Command plane-tool does for a control plane in tests what Python's standard library cannot, or
// only with sockets and threads: it makes certificates, guards a process that must not outlive its
// parent, waits until a server is ready, and compacts etcd. It uses Go's standard library only.
package main

import (
	"fmt"
	"os"
)

var commands = map[string]func(arguments []string) error{
	"certificates": certificates,
	"compact":      compact,
	"guard":        guard,
	"wait":         wait,
}

func main() {
	if len(os.Args) < 2 || commands[os.Args[1]] == nil {
		fmt.Fprintln(os.Stderr, "usage: plane-tool certificates|compact|guard|wait ...")
		os.Exit(2)
	}
	if err := commands[os.Args[1]](os.Args[2:]); err != nil {
		fmt.Fprintf(os.Stderr, "plane-tool %s: %v\n", os.Args[1], err)
		os.Exit(1)
	}
}
