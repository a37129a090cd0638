// The peer Go. See ../README.md.
package main

import (
	"fmt"
	"os"
	"runtime"
	"strconv"
	"syscall"
)

func main() {
	runtime.GOMAXPROCS(1)
	switch {
	case len(os.Args) == 2 && os.Args[1] == "version":
		fmt.Println(runtime.Version())
	case len(os.Args) == 4 && os.Args[1] == "switch":
		runSwitch(os.Args[2], count(os.Args[3]))
	case len(os.Args) == 3 && os.Args[1] == "scale":
		runScale(count(os.Args[2]))
	case len(os.Args) == 4 && os.Args[1] == "thread-metric":
		runMetric(os.Args[2], os.Args[3])
	case len(os.Args) == 5 && os.Args[1] == "net":
		runNet(os.Args[2], os.Args[3], os.Args[4])
	case len(os.Args) > 2 && os.Args[1] == "cores":
		runCores(os.Args[2:])
	default:
		fail("usage: peer version | switch CASE COUNT | scale COUNT | thread-metric TEST SECONDS | net PROTOCOL ADDRESS PORT | cores ...")
	}
}

func count(text string) int {
	n, err := strconv.Atoi(text)
	if err != nil || n < 1 {
		fail("not a count: " + text)
	}
	return n
}

func fail(message string) {
	fmt.Fprintln(os.Stderr, message)
	os.Exit(1)
}

// The CPU time of all threads of this program, in nanoseconds.
func cpuTime() float64 {
	var usage syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &usage); err != nil {
		fail(err.Error())
	}
	return float64(usage.Utime.Nano() + usage.Stime.Nano())
}
