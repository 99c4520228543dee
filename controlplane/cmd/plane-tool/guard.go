package main

import (
	"errors"
	"flag"
	"os"
	"os/exec"
	"runtime"
	"strconv"
	"syscall"
	"time"
)

// How often the guard looks whether its parent is still the one that started it.
const parentCheckEvery = 500 * time.Millisecond

// How often the guard tries to remove what a dead parent left.
const removals = 6

// Bytes on standard input that are orders to the guard.
var orders = map[byte]syscall.Signal{
	'c': syscall.SIGCONT,
	'k': syscall.SIGKILL,
	's': syscall.SIGSTOP,
	't': syscall.SIGTERM,
}

// guard runs a command that dies, by SIGKILL, when its parent does:
//
//	parent ── standard input (a pipe: orders, and end of file when the parent is gone)
//	   └── guard ── PDEATHSIG
//	          └── command
//
// The pipe sees the end of the parent whatever thread of it started the guard; a copy of the pipe
// in a fork of the parent would hide that end, so the guard also watches who its parent is. If the
// guard itself is killed, the kernel kills the command. Ends with the command's own exit code, or
// 128 + the signal.
func guard(arguments []string) error {
	flags := flag.NewFlagSet("guard", flag.ExitOnError)
	parent := flags.Int("parent", 0, "process id of the parent")
	pidFile := flags.String("pid-file", "", "where the command's process id is written")
	litter := flags.String("remove", "", "folder that is removed if the parent dies")
	if err := flags.Parse(arguments); err != nil {
		return err
	}
	if flags.NArg() == 0 {
		return errors.New("no command")
	}
	// PDEATHSIG comes when the thread that started the command ends: it must be this one, kept.
	runtime.LockOSThread()
	command := exec.Command(flags.Arg(0), flags.Args()[1:]...)
	command.Stdout, command.Stderr = os.Stdout, os.Stderr
	command.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	if err := command.Start(); err != nil {
		return err
	}
	orphaned := make(chan struct{}, 2)
	go obey(command.Process, orphaned)
	go watchParent(command.Process, *parent, orphaned)
	if err := writeWhole(*pidFile, strconv.Itoa(command.Process.Pid)); err != nil {
		command.Process.Kill()
		command.Wait()
		return err
	}
	var ended *exec.ExitError
	if err := command.Wait(); err != nil && !errors.As(err, &ended) {
		return err
	}
	select {
	case <-orphaned:
		removeAll(*litter)
	default:
	}
	status := command.ProcessState.Sys().(syscall.WaitStatus)
	if status.Signaled() {
		os.Exit(128 + int(status.Signal()))
	}
	os.Exit(status.ExitStatus())
	return nil
}

func obey(process *os.Process, orphaned chan<- struct{}) {
	order := make([]byte, 1)
	for {
		if _, err := os.Stdin.Read(order); err != nil {
			orphaned <- struct{}{}
			process.Kill()
			return
		}
		if signal, known := orders[order[0]]; known {
			process.Signal(signal)
		}
	}
}

func watchParent(process *os.Process, parent int, orphaned chan<- struct{}) {
	for os.Getppid() == parent {
		time.Sleep(parentCheckEvery)
	}
	orphaned <- struct{}{}
	process.Kill()
}

// removeAll tries again for a while: other commands of the same parent may still be writing there.
func removeAll(folder string) {
	if folder == "" {
		return
	}
	for range removals {
		if os.RemoveAll(folder) == nil {
			return
		}
		time.Sleep(parentCheckEvery)
	}
}

// writeWhole lets a reader see all of the content or no file.
func writeWhole(path, content string) error {
	if path == "" {
		return nil
	}
	if err := os.WriteFile(path+".new", []byte(content), 0o600); err != nil {
		return err
	}
	return os.Rename(path+".new", path)
}
